"""Downloads from a real HTTP server that disconnects, lies, changes the file and refuses."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.datasets.file_server import Behaviour, FileServer
from text2sql.datasets.fetching import download as downloading
from text2sql.datasets.fetching.download import Patience, download
from text2sql.errors import InfrastructureError, Text2SqlError

OLD = bytes(range(256)) * 4_000
NEW = OLD[::-1] + b"more"
DATE = "Sat, 28 Nov 2026 10:00:00 GMT"
QUICK = Patience(tries=4, first_wait=0.01, longest_wait=0.05, silence=2.0)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer(Behaviour(OLD)) as running:
        yield running


def get(server: FileServer, store: Path, **given: Any) -> Path:
    return download(server.url, store, patience=QUICK, **given)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def leftovers(store: Path) -> list[str]:
    return [file.name for file in store.rglob("*.part")]


def test_an_unchanged_file_is_downloaded_once(server: FileServer, tmp_path: Path) -> None:
    said: list[str] = []
    file = get(server, tmp_path, say=said.append)
    assert file.read_bytes() == OLD and file.name == "dev.zip"
    assert said == ["dev.zip is complete: 1.0 MB in 0 s."]
    stamp = file.stat().st_mtime_ns
    assert get(server, tmp_path) == file and file.stat().st_mtime_ns == stamp
    assert [request.get("If-None-Match") for request in server.requests] == [None, '"one"']
    assert leftovers(tmp_path) == []


def test_a_known_checksum_saves_the_request(server: FileServer, tmp_path: Path) -> None:
    for _ in range(2):
        assert get(server, tmp_path, sha256=sha256(OLD).upper()).read_bytes() == OLD
    assert len(server.requests) == 1


@pytest.mark.parametrize("names", [{}, {"etag": "", "modified": DATE}, {"etag": 'W/"x"'}])
def test_a_changed_file_is_downloaded_again(
    server: FileServer, tmp_path: Path, names: dict[str, str]
) -> None:
    for name, value in names.items():
        setattr(server.now, name, value)
    get(server, tmp_path)
    server.now.content, server.now.etag, server.now.modified = NEW, '"two"', DATE.replace("28", "2")
    assert get(server, tmp_path).read_bytes() == NEW


def test_a_server_that_ignores_conditions_is_not_read_again(
    server: FileServer, tmp_path: Path
) -> None:
    server.now.conditions = False
    file = get(server, tmp_path)
    inode = file.stat().st_ino
    assert get(server, tmp_path).stat().st_ino == inode


@pytest.mark.parametrize("chunked", [False, True])
def test_an_interrupted_download_is_resumed(
    server: FileServer, tmp_path: Path, chunked: bool
) -> None:
    server.now.breaks, server.now.chunked = [300_000, 200_000, 1], chunked
    said: list[str] = []
    assert get(server, tmp_path, say=said.append).read_bytes() == OLD
    asked = [request.get("Range") for request in server.requests]
    assert asked == [None, "bytes=300000-", "bytes=500000-", "bytes=500001-"]
    assert {request["If-Range"] for request in server.requests[1:]} == {'"one"'}
    assert any("trying again" in line for line in said)


def test_a_later_run_resumes(server: FileServer, tmp_path: Path) -> None:
    server.now.breaks = [400_000, 0, 0, 0, 0]
    with pytest.raises(InfrastructureError, match="run again to resume"):
        get(server, tmp_path)
    server.now.breaks = []
    server.requests.clear()
    assert get(server, tmp_path).read_bytes() == OLD
    assert [request.get("Range") for request in server.requests] == ["bytes=400000-"]


def test_a_killed_download_is_resumed(server: FileServer, tmp_path: Path) -> None:
    server.now.breaks, server.now.silent = [500_000], 30.0
    script = (
        "import sys; from pathlib import Path; "
        "from text2sql.datasets.fetching.download import download; "
        "download(sys.argv[1], Path(sys.argv[2]))"
    )
    child = subprocess.Popen([sys.executable, "-c", script, server.url, str(tmp_path)])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        parts = list(tmp_path.rglob("*.part"))
        if parts and parts[0].stat().st_size == 500_000:
            break
        time.sleep(0.02)
    child.kill()
    child.wait()
    server.now.silent = 0.0
    assert get(server, tmp_path).read_bytes() == OLD
    assert server.requests[-1]["Range"] == "bytes=500000-"


def test_a_complete_part_is_only_checked(server: FileServer, tmp_path: Path) -> None:
    """As a run leaves it that is killed while it computes the checksum."""
    file = get(server, tmp_path)
    file.rename(file.with_name("dev.zip.part"))
    file.with_name("dev.zip.version").rename(file.with_name("dev.zip.part.version"))
    assert get(server, tmp_path).read_bytes() == OLD
    assert [request.get("Range") for request in server.requests] == [None, f"bytes={len(OLD)}-"]


@pytest.mark.parametrize("conditions", [True, False])
def test_two_versions_are_never_mixed(server: FileServer, tmp_path: Path, conditions: bool) -> None:
    """The second server ignores even If-Range: its ETag gives it away."""
    server.now.breaks = [400_000, 0, 0, 0, 0]
    with pytest.raises(InfrastructureError):
        get(server, tmp_path)
    server.now.breaks, server.now.conditions = [], conditions
    server.now.content, server.now.etag = NEW[: len(OLD)], '"two"'
    assert get(server, tmp_path).read_bytes() == NEW[: len(OLD)]


@pytest.mark.parametrize("names", [("", ""), ("", DATE), ('W/"weak"', DATE)])
def test_without_a_strong_etag_it_starts_over(
    server: FileServer, tmp_path: Path, names: tuple[str, str]
) -> None:
    server.now.etag, server.now.modified = names
    server.now.breaks = [400_000]
    said: list[str] = []
    assert get(server, tmp_path, say=said.append).read_bytes() == OLD
    assert not any("Range" in request for request in server.requests)
    assert any("starts over" in line for line in said)


def test_with_a_checksum_it_is_resumed_without_an_etag(server: FileServer, tmp_path: Path) -> None:
    server.now.etag, server.now.breaks = "", [400_000]
    assert get(server, tmp_path, sha256=sha256(OLD)).read_bytes() == OLD
    assert server.requests[-1]["Range"] == "bytes=400000-"


def test_a_mix_of_two_versions_is_caught_by_the_checksum(
    server: FileServer, tmp_path: Path
) -> None:
    server.now.etag, server.now.breaks = "", [400_000, 0, 0, 0, 0]
    with pytest.raises(InfrastructureError):
        get(server, tmp_path, sha256=sha256(OLD))
    changed = NEW[: len(OLD)]
    server.now.content, server.now.breaks = changed, []
    assert get(server, tmp_path, sha256=sha256(changed)).read_bytes() == changed


def test_a_server_without_ranges_sends_it_all_again(server: FileServer, tmp_path: Path) -> None:
    server.now.ranges, server.now.breaks = False, [400_000]
    assert get(server, tmp_path).read_bytes() == OLD


@pytest.mark.parametrize("ranges", [True, False])
def test_a_wrong_length_is_not_trusted(server: FileServer, tmp_path: Path, ranges: bool) -> None:
    server.now.announced, server.now.ranges = 5_000, ranges
    with pytest.raises(InfrastructureError, match=r"dev\.zip: .*bytes"):
        get(server, tmp_path)
    assert not list(tmp_path.rglob("dev.zip"))


def test_a_server_that_hangs_up_is_asked_again(server: FileServer, tmp_path: Path) -> None:
    server.now.drops = 3
    assert get(server, tmp_path).read_bytes() == OLD


@pytest.mark.parametrize("shift", [-1000, 1000])
def test_a_wrong_range_is_not_used(server: FileServer, tmp_path: Path, shift: int) -> None:
    server.now.breaks, server.now.shift = [400_000], shift
    assert get(server, tmp_path).read_bytes() == OLD


def test_progress_has_speed_and_time_left(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloading, "_SAY_EVERY_SECONDS", 0.0)
    said: list[str] = []
    get(server, tmp_path, say=said.append)
    pattern = r"dev\.zip: [\d.]+ of 1\.0 MB \(\d+%\), [\d.,]+ MB/s, \d+ s left"
    assert re.fullmatch(pattern, said[0])


def test_a_length_that_is_too_small_is_caught_by_the_checksum(
    server: FileServer, tmp_path: Path
) -> None:
    server.now.announced = -5_000
    with pytest.raises(Text2SqlError, match="instead of"):
        get(server, tmp_path, sha256=sha256(OLD))
    assert not list(tmp_path.rglob("dev.zip")) and leftovers(tmp_path) == []


def test_a_file_without_a_length(server: FileServer, tmp_path: Path) -> None:
    server.now.length = False
    assert get(server, tmp_path).read_bytes() == OLD


def test_a_wrong_checksum_leaves_nothing(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(Text2SqlError, match=f"{sha256(OLD)} instead of {'0' * 64}"):
        get(server, tmp_path, sha256="0" * 64)
    assert not list(tmp_path.rglob("dev.zip")) and leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "no such file"),
        (410, "was removed"),
        (403, "not open"),
        (401, "account"),
        (400, "400"),
    ],
)
def test_a_refusal_is_reported_at_once(
    server: FileServer, tmp_path: Path, status: int, words: str
) -> None:
    server.now.statuses = [status] * 9
    with pytest.raises(Text2SqlError, match=words) as caught:
        get(server, tmp_path)
    assert len(server.requests) == 1 and server.url in str(caught.value)


def test_transient_errors_are_retried(server: FileServer, tmp_path: Path) -> None:
    server.now.statuses = [500, 503, 429]
    server.now.extra = {"Retry-After": "3600"}
    assert get(server, tmp_path).read_bytes() == OLD


def test_a_server_that_always_fails_is_given_up(server: FileServer, tmp_path: Path) -> None:
    server.now.statuses = [500] * 99
    with pytest.raises(InfrastructureError, match="status 500, 4 times"):
        get(server, tmp_path)
    assert len(server.requests) == QUICK.tries


def test_the_earlier_copy_is_used_with_a_warning_if_the_server_is_gone(
    server: FileServer, tmp_path: Path
) -> None:
    file = get(server, tmp_path)
    server.now.statuses = [404]
    said: list[str] = []
    assert get(server, tmp_path, say=said.append) == file
    assert said[-1].startswith("WARNING") and "404" in said[-1]


def test_redirects_are_followed_with_their_range(server: FileServer, tmp_path: Path) -> None:
    server.now.location = server.url.replace("dev.zip", "moved.zip?signature=secret")
    server.now.breaks = [400_000]
    assert get(server, tmp_path).read_bytes() == OLD
    assert server.requests[-1]["Range"] == "bytes=400000-"


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_redirects_to_other_schemes_are_refused(
    server: FileServer, tmp_path: Path, target: str
) -> None:
    server.now.location = target
    with pytest.raises(Text2SqlError, match="not followed"):
        get(server, tmp_path)


def test_a_circle_of_redirects_ends(server: FileServer, tmp_path: Path) -> None:
    server.now.location = server.url
    with pytest.raises(Text2SqlError, match="redirects more than 10 times"):
        get(server, tmp_path)


def test_the_proxy_of_the_environment_is_used(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = server.url.removesuffix("/data/dev.zip")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", address.replace("http://", "http://me:pass%20word@"))
    url = "http://data.example/dev.zip"
    assert download(url, tmp_path, patience=QUICK).read_bytes() == OLD
    user = server.requests[-1]["Proxy-Authorization"].removeprefix("Basic ")
    assert base64.b64decode(user) == b"me:pass word"
    monkeypatch.setenv("no_proxy", "data.example")
    with pytest.raises(InfrastructureError, match="connection failed"):
        download(url, tmp_path / "direct", patience=Patience(tries=1))


def test_a_web_page_is_refused(server: FileServer, tmp_path: Path) -> None:
    server.now.kind = "text/html; charset=utf-8"
    with pytest.raises(Text2SqlError, match="a web page instead of a file"):
        get(server, tmp_path)


def test_an_encoded_file_is_refused(server: FileServer, tmp_path: Path) -> None:
    server.now.encoding = "gzip"
    with pytest.raises(Text2SqlError, match="is sent as gzip"):
        get(server, tmp_path)


def test_an_empty_file_is_refused(server: FileServer, tmp_path: Path) -> None:
    server.now.content = b""
    with pytest.raises(Text2SqlError, match="is empty"):
        get(server, tmp_path)


def test_a_silent_server_is_given_up(server: FileServer, tmp_path: Path) -> None:
    server.now.breaks, server.now.silent = [1000, 0, 0], 1.0
    patience = Patience(tries=2, first_wait=0.01, silence=0.2)
    with pytest.raises(InfrastructureError, match="the server is silent"):
        download(server.url, tmp_path, patience=patience)


@pytest.mark.parametrize(
    "url",
    ["ftp://x/y.zip", "file:///etc/passwd", "http://[::1/x", "http://host:port/x", "http://a b/x"],
)
def test_an_invalid_address(tmp_path: Path, url: str) -> None:
    with pytest.raises(Text2SqlError, match="address"):
        download(url, tmp_path, patience=Patience(tries=1))


def test_secrets_of_an_address_are_not_shown(tmp_path: Path) -> None:
    with pytest.raises(Text2SqlError) as caught:
        download("https://me:word@example.org/x.zip?token=abc", tmp_path)
    assert "word" not in str(caught.value) and "abc" not in str(caught.value)


def test_no_server(tmp_path: Path) -> None:
    with FileServer(Behaviour(OLD)) as server:
        url = server.url
    with pytest.raises(InfrastructureError, match="Connection refused"):
        download(url, tmp_path, patience=QUICK)


def test_a_disk_that_is_too_small_is_reported_first(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(Text2SqlError, match=r"needs 1\.0 MB, and only 0\.0 MB are free"):
        get(server, tmp_path)
    assert not list(tmp_path.rglob("dev.zip*"))


def test_parallel_runs_download_it_once(server: FileServer, tmp_path: Path) -> None:
    server.now.silent = 0.3
    files: list[Path] = []
    threads = [
        threading.Thread(target=lambda: files.append(get(server, tmp_path))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(files)) == 1 and files[0].read_bytes() == OLD
    assert [request.get("If-None-Match") for request in server.requests] == [None] + ['"one"'] * 2


@pytest.mark.parametrize(
    ("path", "name"),
    [("/a%20b.jsonl?download=true", "a_b.jsonl"), ("/", "download"), ("/..%2f..", "download")],
)
def test_names_come_from_the_address(
    server: FileServer, tmp_path: Path, path: str, name: str
) -> None:
    url = server.url.replace("/data/dev.zip", path)
    assert download(url, tmp_path, patience=QUICK).name == name
