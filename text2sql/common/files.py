"""Files: written atomically, hashed, recognised, and read as the text that people save.

A write goes to a temporary file beside the target until it is complete: a reader sees the old file
or the new one, and a failure leaves the old one and nothing else. Only a killed process leaves its
temporary file, ``.NAME.`` and eight digits, which nothing reads and which may be deleted.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE, S_IRUSR, S_IWUSR

from text2sql.errors import Text2SqlError

_NAME_CHARS = 40
SQLITE = b"SQLite format 3\0"
ZIP = b"PK\x03\x04"
GIT_LFS = b"version https://git-lfs"
HEAD_BYTES = 200
"""How much of a file's beginning ``kind_of`` needs."""

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    ZIP: "zip",
    b"7z\xbc\xaf": "7z",
    b"Rar!": "rar",
}
_WEB_PAGE = re.compile(rb"<(?:!doctype|html|head|\?xml|!--)", re.IGNORECASE)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def file_digest(file: Path | str) -> str:
    """Return the sha256 of a file's bytes in hexadecimal, read in pieces; raises OSError."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_whole(file: Path, content: str | bytes, *, durable: bool = False) -> Path:
    """Write a file atomically, text as UTF-8; return it; raises as ``whole_file`` does."""
    # A lone surrogate, which JSON may hold, has no form in UTF-8: JSON's escape of it is written.
    data = content if isinstance(content, bytes) else content.encode(errors="backslashreplace")
    with whole_file(file, durable=durable) as part:
        part.write_bytes(data)
    return file


@contextmanager
def whole_file(file: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield an empty file to fill, which replaces ``file`` at the end of the block.

    Missing folders are made, and a link is followed. A file that is replaced passes on its
    permissions. A ``durable`` file survives a power failure. Raises Text2SqlError where it cannot
    be written, or the path is not a regular file.
    """
    place = Path(os.path.realpath(file))
    with _refusals(file):
        place.parent.mkdir(parents=True, exist_ok=True)
        with _beside(place) as part:
            _take_permissions(part, place, S_IRUSR | S_IWUSR)  # private until it is complete
            yield part
            _take_permissions(part, place)
            if durable:
                settle(part)
            os.replace(part, place)
            if durable:
                settle(place.parent)


def require_writable(file: Path) -> None:
    """Find out before the work whether its result can be written; an existing file stays.

    Raises Text2SqlError as ``whole_file`` does, and where the folder is missing.
    """
    with _refusals(file), _beside(Path(os.path.realpath(file))):
        pass


@contextmanager
def _refusals(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Text2SqlError(f"Cannot write {file}: {error.strerror or error}.") from error


@contextmanager
def _beside(place: Path) -> Iterator[Path]:
    """Yield a new empty file beside a place; remove it at the end."""
    if place.exists() and not place.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file")
    part = place.with_name(f".{place.name[:_NAME_CHARS]}.{os.urandom(4).hex()}")
    try:
        part.touch(exist_ok=False)
        yield part
    finally:
        with suppress(OSError):
            part.unlink()


def _take_permissions(part: Path, place: Path, more: int = 0) -> None:
    """Give a temporary file the permissions of the file that it replaces, and ``more``."""
    if not place.exists():
        return
    mode = S_IMODE(place.stat().st_mode) | more
    if S_IMODE(part.stat().st_mode) != mode:
        part.chmod(mode)


def settle(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk; raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to fill, which replaces ``folder`` at the end of the block.

    For one process at a time, since the leftovers of a killed one are removed. Raises OSError.
    """
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        yield partial
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def read_text(file: Path, what: str) -> str:
    """Return a file's text in UTF-8, UTF-16 or UTF-32, with ``\\n`` as line end.

    ``what`` says in messages what the file is for. Raises Text2SqlError for any other encoding, for
    a compressed file, and for a web page or pointer that was downloaded instead.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise Text2SqlError(f"Cannot read {what} {file}: {error.strerror}.") from error
    if kind := kind_of(data[:HEAD_BYTES]):
        raise Text2SqlError(f"Cannot read {what} {file}: {kind}.")
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise Text2SqlError(
            f"Cannot read {what} {file}: it is not UTF-8 ({error}); save it in UTF-8."
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def kind_of(head: bytes) -> str:
    """Say what a file is that begins with these bytes, and what to do; empty where it is unknown.

    For a file that should be something else: "it is compressed (gzip); unpack it".
    """
    if form := next((form for start, form in _COMPRESSED.items() if head.startswith(start)), ""):
        return f"it is compressed ({form}); unpack it"
    if head.startswith(SQLITE[:-1]):
        return "it is a SQLite database"
    if head.startswith(GIT_LFS):
        return "it is a Git LFS pointer; run git lfs pull"
    # A download without a login, or past a quota, often leaves the page that says so.
    if _WEB_PAGE.match(head.removeprefix(_BYTE_ORDER_MARK).lstrip()):
        return "it is a web page instead of the file; download it again"
    return ""
