"""Archives as they are published, and as they must not be: bombs, links, names that escape."""

from __future__ import annotations

import hashlib
import io
import os
import random
import re
import shutil
import stat
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from text2sql.datasets.fetching import archives
from text2sql.datasets.fetching.archives import DamagedArchive, unpack
from text2sql.datasets.reading.digests import Digests
from text2sql.errors import Text2SqlError

MEGABYTE = 1024 * 1024


def archive(folder: Path, members: dict[str, bytes], name: str = "dev.zip") -> Path:
    """Write an archive with these members."""
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as file:
        for member, content in members.items():
            file.writestr(member, content)
    return folder / name


def zipped(members: dict[str, bytes]) -> bytes:
    """Return the bytes of an archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for member, content in members.items():
            file.writestr(member, content)
    return buffer.getvalue()


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def refuse(file: Path, tmp_path: Path, match: str) -> None:
    """Expect a sentence that names the archive, and nothing left anywhere."""
    with pytest.raises(Text2SqlError, match=match) as caught:
        unpack(file, tmp_path / "out")
    assert str(file) in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []
    assert not (tmp_path / "evil.txt").exists()


def test_archives_within_become_folders_of_their_name(tmp_path: Path) -> None:
    inner = zipped({"shop/shop.sqlite": b"db", "__MACOSX/shop/._shop.sqlite": b"x"})
    members = {"dev_20240627/dev_databases.zip": inner, "dev_20240627/dev.json": b"[]"}
    folder = unpack(archive(tmp_path, members), tmp_path / "out")
    assert files(folder) == ["dev_20240627/dev.json", "dev_20240627/dev_databases/shop/shop.sqlite"]


def test_backslashes_of_windows_programs_are_folders(tmp_path: Path) -> None:
    file = archive(tmp_path, {"dev\\dev.json": b"[]", "dev\\databases\\": b""})
    assert files(unpack(file, tmp_path / "out")) == ["dev/dev.json"]


@pytest.mark.parametrize(("encoding", "kept"), [("utf-8", True), ("gbk", False)])
def test_names_of_an_undeclared_encoding(tmp_path: Path, encoding: str, kept: bool) -> None:
    """Python marks UTF-8; Info-ZIP and Windows's Explorer write bytes and say nothing."""
    name = "\u6570\u636e".encode(encoding)
    file = archive(tmp_path, {f"{'x' * len(name)}/dev.json": b"[]"})
    file.write_bytes(file.read_bytes().replace(b"x" * len(name), name))
    said: list[str] = []
    folder = unpack(file, tmp_path / "out", say=said.append)
    assert (files(folder) == ["\u6570\u636e/dev.json"]) == kept
    assert (["unpack it yourself" in one for one in said] == [True]) != kept


def test_a_damaged_inner_archive_is_named(tmp_path: Path) -> None:
    file = archive(tmp_path, {"dev/dev.json": b"[]", "dev/dev_databases.zip": b"PK\3\4cut"})
    refuse(file, tmp_path, r"dev\.zip cannot be unpacked: dev_databases\.zip inside it: .*again")


def test_written_files_are_not_read_again_for_their_digests(tmp_path: Path) -> None:
    digests = Digests()
    folder = unpack(archive(tmp_path, {"a/b.sqlite": b"content"}), tmp_path / "out", digests)
    assert digests.of(folder / "a" / "b.sqlite") == hashlib.sha256(b"content").hexdigest()
    assert digests.read == 1  # the archive itself


def test_names_in_any_script(tmp_path: Path) -> None:
    names = ["数据/问题.json", "été/données.csv", "a b/c'd (1).csv", "x/percent%20.csv"]
    folder = unpack(archive(tmp_path, dict.fromkeys(names, b"1")), tmp_path / "out")
    assert files(folder) == sorted(names)


LEAVES, ON_WINDOWS = "which leaves its folder.", "which leaves its folder on Windows, or has"
DEVICE = "the name of a device on Windows."


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("../evil.txt", LEAVES),
        ("a/../../evil.txt", LEAVES),
        ("..\\evil.txt", LEAVES),
        ("a\\..\\..\\evil.txt", LEAVES),
        ("/tmp/evil.txt", LEAVES),
        ("\\\\server\\share\\evil.txt", LEAVES),
        ("a/.. /evil.txt", LEAVES),
        ("a/.../evil.txt", LEAVES),
        ("C:\\evil.txt", ON_WINDOWS),
        ("C:evil.txt", ON_WINDOWS),
        ("a/dev.json:stream", ON_WINDOWS),
        ("a/line\nbreak", ON_WINDOWS),
        ("nul.json", DEVICE),
        ("a/AUX.sqlite", DEVICE),
        ("com1/dev.json", DEVICE),
    ],
)
def test_names_that_escape_are_refused(tmp_path: Path, name: str, problem: str) -> None:
    """The whole archive: its harmless first file is not unpacked either."""
    before = sorted(tmp_path.rglob("*"))
    file = archive(tmp_path, {"dev.json": b"[]", name: b"x"})
    refuse(file, tmp_path, re.escape(f"holds '{name}', {problem}"))
    assert sorted(tmp_path.rglob("*")) == sorted([*before, file, tmp_path / "out"])


def test_a_name_cut_by_a_null_byte_is_refused(tmp_path: Path) -> None:
    file = archive(tmp_path, {"dev.jsonX../evil": b"x"})
    file.write_bytes(file.read_bytes().replace(b"dev.jsonX../", b"dev.json\0../"))
    refuse(file, tmp_path, "file names cannot have")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_are_refused(tmp_path: Path, kind: int) -> None:
    info = zipfile.ZipInfo("databases/shop.sqlite")
    info.create_system, info.external_attr = 3, (kind | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "dev.zip", "w") as file:
        file.writestr(info, "/etc/passwd")
    refuse(tmp_path / "dev.zip", tmp_path, "a link|not a regular file")


def test_a_link_in_an_inner_archive_is_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("shop")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as inner:
        inner.writestr(info, "/")
    with zipfile.ZipFile(tmp_path / "dev.zip", "w") as file:
        file.writestr("dev_databases.zip", buffer.getvalue())
    with pytest.raises(Text2SqlError, match="a link"):
        unpack(tmp_path / "dev.zip", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/Shop.sqlite", "a/shop.sqlite"),
        ("A/x", "a/x"),
        ("é", "e\u0301"),
        ("a.csv", "a.csv."),
        ("straße", "STRASSE"),
        ("a/./b", "a//b"),
    ],
)
def test_names_that_are_one_file_elsewhere_are_refused(
    tmp_path: Path, one: str, other: str
) -> None:
    refuse(archive(tmp_path, {one: b"1", other: b"2"}), tmp_path, "one file")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_one_name_twice_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "dev.zip", "w") as file:
        file.writestr("dev.json", "[1]")
        file.writestr("dev.json", "[2]")
    refuse(tmp_path / "dev.zip", tmp_path, "one file")


def test_a_file_that_is_also_a_folder_is_refused(tmp_path: Path) -> None:
    refuse(archive(tmp_path, {"a": b"1", "a/b": b"2"}), tmp_path, "as a file and as a folder")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    file = archive(tmp_path, {"dev.sqlite": bytes(100 * MEGABYTE)})
    refuse(file, tmp_path, "zip bomb")


def test_many_small_inner_bombs_are_counted_together(tmp_path: Path) -> None:
    inner = zipped({"a.sqlite": bytes(30 * MEGABYTE)})
    file = archive(tmp_path, {f"{number}.zip": inner for number in range(3)})
    refuse(file, tmp_path, "zip bomb")


def test_deeply_nested_archives_are_not_unpacked(tmp_path: Path) -> None:
    content = zipped({"deepest.txt": b"x"})
    for _ in range(4):
        content = zipped({"next.zip": content})
    (tmp_path / "dev.zip").write_bytes(content)
    folder = unpack(tmp_path / "dev.zip", tmp_path / "out")
    assert files(folder) == ["next/next.zip"]


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_FILES", 5)
    file = archive(tmp_path, {f"{number}.csv": b"" for number in range(6)})
    refuse(file, tmp_path, "more than 5 files")


def test_a_disk_that_is_too_small_is_reported_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100))
    file = archive(tmp_path, {"dev.json": os.urandom(5_000)})
    refuse(file, tmp_path, "unpacks to 5,000 bytes, and only 100 are free")


def test_overlapping_files_are_refused(tmp_path: Path) -> None:
    """Two entries of the directory that point to the same bytes, as in a quine or a bomb."""
    file = archive(tmp_path, {"a.txt": b"same" * 50, "b.txt": b"same" * 50})
    content = bytearray(file.read_bytes())
    second = content.rindex(b"PK\x01\x02")
    content[second + 42 : second + 46] = struct.pack("<I", 0)
    file.write_bytes(content)
    refuse(file, tmp_path, "overlaps")


def test_a_wrong_size_is_refused(tmp_path: Path) -> None:
    file = archive(tmp_path, {"a.txt": b"x" * 1000})
    content = bytearray(file.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = struct.pack("<I", 10)
    file.write_bytes(content)
    refuse(file, tmp_path, "cannot be unpacked")


def test_an_encrypted_archive_says_what_to_do(tmp_path: Path) -> None:
    file = archive(tmp_path, {"a.txt": b"x"})
    content = bytearray(file.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.rindex(mark) + place] |= 1
    file.write_bytes(content)
    refuse(file, tmp_path, "encrypted: unpack it yourself")


def test_an_unsupported_compression_is_reported(tmp_path: Path) -> None:
    """Windows writes Deflate64 into archives of more than 2 GB, which Python cannot read."""
    file = archive(tmp_path, {"a.txt": b"x" * 100})
    content = bytearray(file.read_bytes())
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.rindex(mark) + place] = 9
    file.write_bytes(content)
    refuse(file, tmp_path, r"'a.txt', whose compression \(Deflate64\) .* unpack it yourself")
    with pytest.raises(Text2SqlError) as caught:  # another copy would be no better
        unpack(file, tmp_path / "out")
    assert not isinstance(caught.value, DamagedArchive)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_cut_archive_is_damaged(tmp_path: Path, share: float) -> None:
    inner = zipped({f"{n}/{n}.sqlite": os.urandom(2_000) for n in range(20)})
    file = archive(tmp_path, {"dev/dev_databases.zip": inner, "dev/dev.json": b"[]"})
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(DamagedArchive, match="get it again"):
        unpack(file, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_no_damage_gets_through_or_ends_in_a_traceback(tmp_path: Path) -> None:
    """Flip bytes anywhere: what is unpacked is right, or a sentence says why it is not."""
    members = {f"dev_databases/{n}/{n}.sqlite": os.urandom(300) * 3 for n in range(5)}
    whole = archive(tmp_path, members).read_bytes()
    generator = random.Random(1)
    refused = 0
    for number in range(300):
        content = bytearray(whole)
        for _ in range(generator.choice([1, 3, 20])):
            content[generator.randrange(len(content))] = generator.randrange(256)
        file = tmp_path / "damaged.zip"
        file.write_bytes(content)
        try:
            folder = unpack(file, tmp_path / f"out{number}")
        except Text2SqlError:
            refused += 1
            continue
        for name in files(folder):
            assert (folder / name).read_bytes() in members.values()
    assert refused > 200


def test_leftovers_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    content = {f"{n}.sqlite": os.urandom(2 * MEGABYTE) for n in range(20)}
    file = archive(tmp_path, content)
    script = (
        "import sys; from pathlib import Path; "
        "from text2sql.datasets.fetching.archives import unpack; "
        "unpack(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    out = tmp_path / "out"
    child = subprocess.Popen([sys.executable, "-c", script, str(file), str(out)])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not list(out.glob("*.partial/*")):
        time.sleep(0.005)
    child.kill()
    child.wait()
    folder = unpack(file, out)
    assert [entry for entry in out.iterdir() if entry.name[0] != "."] == [folder]
    assert len(files(folder)) == 20
