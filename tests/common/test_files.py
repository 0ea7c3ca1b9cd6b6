"""Files and folders that are written whole or not at all, and JSON objects in files."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.full_disk import no_room
from tests.support.privileges import without_privileges
from text2sql.common.files import (
    file_digest,
    require_writable,
    whole_file,
    whole_folder,
    write_whole,
)
from text2sql.common.json_files import parse_object, read_if_there, read_object, write_json
from text2sql.errors import Text2SqlError


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.mark.parametrize(("content", "found"), [("ä\n", b"\xc3\xa4\n"), (b"\xff\r\n", b"\xff\r\n")])
@pytest.mark.parametrize("durable", [False, True])
def test_text_and_bytes_are_written_unchanged_and_missing_folders_are_made(
    tmp_path, content, found, durable
):
    file = tmp_path / "a" / "b" / "file.txt"
    assert write_whole(file, content, durable=durable) == file
    assert file.read_bytes() == found and names(file.parent) == ["file.txt"]


@pytest.mark.parametrize("durable", [False, True])
def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(tmp_path, durable):
    file = write_whole(tmp_path / "file", "old")
    with no_room(), pytest.raises(Text2SqlError, match=rf"Cannot write {file}: File too large\."):
        write_whole(file, "new", durable=durable)
    assert file.read_text() == "old" and names(tmp_path) == ["file"]


def test_an_error_while_a_file_is_filled_leaves_the_old_one(tmp_path):
    file = write_whole(tmp_path / "file", "old")
    with pytest.raises(KeyboardInterrupt), whole_file(file) as part:
        part.write_text("half")
        raise KeyboardInterrupt
    assert file.read_text() == "old" and names(tmp_path) == ["file"]


def test_two_writers_of_one_file_do_not_collide(tmp_path):
    file = tmp_path / "file"
    with whole_file(file) as one, whole_file(file) as other:
        one.write_text("first")
        other.write_text("second")
    assert file.read_text() == "first" and names(tmp_path) == ["file"]


def test_permissions_are_as_after_a_plain_write(tmp_path):
    plain, whole = tmp_path / "plain", tmp_path / "whole"
    before = os.umask(0o027)
    try:
        plain.write_text("")
        write_whole(whole, "")
    finally:
        os.umask(before)
    assert mode(whole) == mode(plain) == 0o640
    whole.chmod(0o600)
    write_whole(whole, "again")
    assert mode(whole) == 0o600


@pytest.mark.parametrize("kept", [0o600, 0o400, 0o644])
def test_a_replaced_file_is_never_readable_by_more_people(tmp_path, kept):
    file = write_whole(tmp_path / "secret", "old")
    file.chmod(kept)
    with whole_file(file) as part:
        part.write_text("new")
        assert mode(part) == kept | 0o600
    assert (file.read_text(), mode(file)) == ("new", kept)


def test_a_link_is_followed(tmp_path):
    target, link = tmp_path / "there" / "file", tmp_path / "link"
    link.symlink_to(target)
    write_whole(link, "one")
    write_whole(link, "two")
    assert link.is_symlink() and target.read_text() == "two" and names(target.parent) == ["file"]


def test_the_longest_name_can_be_written(tmp_path):
    file = write_whole(tmp_path / ("ä" * 127), "text")
    assert file.read_text() == "text"


@pytest.mark.parametrize("write", [require_writable, lambda file: write_whole(file, "text")])
def test_a_path_that_is_not_a_file_is_refused_and_stays(tmp_path, write):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    taken = write_whole(tmp_path / "taken", "kept")
    for place in (tmp_path, pipe):
        with pytest.raises(Text2SqlError, match=f"Cannot write {place}: it is not a regular file"):
            write(place)
    with pytest.raises(Text2SqlError, match=f"Cannot write {taken / 'below'}: "):
        write(taken / "below")
    assert taken.read_text() == "kept" and names(tmp_path) == ["pipe", "taken"]


def test_require_writable_writes_nothing(tmp_path):
    require_writable(tmp_path / "new")
    with pytest.raises(Text2SqlError, match="No such file or directory"):
        require_writable(tmp_path / "no" / "new")
    assert names(tmp_path) == []


def test_a_folder_is_replaced_atomically(tmp_path):
    folder = tmp_path / "folder"
    write_whole(folder / "old", "")
    write_whole(tmp_path / "folder.partial" / "left by a killed process", "")
    with pytest.raises(OSError, match="File too large"), whole_folder(folder) as partial:
        assert names(partial) == []
        with no_room():
            (partial / "new").write_text("text")
    assert names(folder) == ["old"] and names(tmp_path) == ["folder"]
    with whole_folder(folder) as partial:
        (partial / "new").write_text("text")
    assert names(folder) == ["new"] and names(tmp_path) == ["folder"]


def test_the_digest_is_sha256(tmp_path):
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert file_digest(write_whole(tmp_path / "empty", "")) == empty


def test_an_object_is_read_as_it_was_written(tmp_path):
    value = {"name": "Zoë", "half": "\ud83d", "count": 2, "of": [1.5, None, True]}
    file = write_json(tmp_path / "a.json", value)
    assert read_object(file) == value
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert read_object(file) == value


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "cannot be read as JSON: Expecting property name"),
        (b"\xff", "cannot be read as JSON: 'utf-8' codec can't decode byte 0xff"),
        (b"[" * 200_000, "cannot be read as JSON: "),
        (b"[1]", "must hold one JSON object"),
        (b"", "cannot be read as JSON: Expecting value"),
    ],
)
def test_content_that_is_not_an_object_is_an_error_with_advice(tmp_path, content, said):
    file = tmp_path / "a.json"
    file.write_bytes(content)
    with pytest.raises(Text2SqlError) as told:
        read_object(file, "Fix it.")
    assert str(told.value).startswith(f"{file} {said}") and str(told.value).endswith(". Fix it.")
    with pytest.raises(Text2SqlError, match=r"^line 3 .*[.]$"):
        parse_object(content, "line 3")


def test_a_missing_file_and_a_folder_are_errors(tmp_path):
    gone = tmp_path / "gone.json"
    with pytest.raises(
        Text2SqlError, match=rf"^{gone} cannot be read: No such file or directory\.$"
    ):
        read_object(gone)
    with pytest.raises(Text2SqlError, match=rf"^{tmp_path} cannot be read: Is a directory\.$"):
        read_object(tmp_path)


def test_an_optional_file_reads_as_an_empty_object(tmp_path):
    taken = write_json(tmp_path / "taken", {"a": 1})
    assert read_if_there(taken) == {"a": 1}
    assert read_if_there(tmp_path / "gone") == read_if_there(taken / "below") == {}
    with pytest.raises(Text2SqlError, match=r"cannot be read: Is a directory\. Fix it\.$"):
        read_if_there(tmp_path, "Fix it.")
    write_whole(taken, "[]")
    with pytest.raises(Text2SqlError, match="must hold one JSON object"):
        read_if_there(taken)


@pytest.mark.skipif(sys.platform != "linux", reason="drops privileges as Linux does")
def test_a_file_in_an_unreadable_folder_is_not_taken_for_missing(tmp_path):
    write_json(tmp_path / "closed" / "a.json", {})
    (tmp_path / "closed").chmod(0)
    code = (
        "import sys; from pathlib import Path; "
        "from text2sql.common.json_files import read_if_there;"
        "read_if_there(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "closed" / "a.json")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, preexec_fn=without_privileges
    )
    (tmp_path / "closed").chmod(0o700)
    assert "Text2SqlError" in done.stderr and "a.json cannot be read: Permission" in done.stderr
