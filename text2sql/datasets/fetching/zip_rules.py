"""What a .zip from elsewhere must not do: leave its folder, hide files, or expand without bound."""

from __future__ import annotations

import re
import shutil
import stat
import unicodedata
import zipfile
from collections.abc import Iterable
from pathlib import Path

from text2sql.datasets.reading.files import is_litter
from text2sql.errors import Text2SqlError

MAX_RATIO = 100
"""Bytes unpacked per byte packed. SQLite files reach 3 to 20, a zip bomb 1,000 and more."""

HARMLESS_BYTES = 64 * 1024 * 1024
"""Bytes that any archive may unpack to: small archives of empty files exceed every ratio."""

MAX_FILES = 100_000

_LOCAL_HEADER_BYTES = 30
_DEVICE = re.compile(r"(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\.|$)")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f:]")
_ENCRYPTED = 1
_METHODS = tuple(
    getattr(zipfile, f"ZIP_{name}", zipfile.ZIP_STORED)  # Python 3.14 reads Zstandard, too
    for name in ("STORED", "DEFLATED", "BZIP2", "LZMA", "ZSTANDARD")
)
_NAMED_METHODS = {9: "Deflate64", 93: "Zstandard", 95: "XZ", 98: "PPMd"}
_UTF8 = 0x800


class Budget:
    """How much an archive, with those inside it, may still unpack to."""

    def __init__(self, archive: Path, target: Path) -> None:
        self._archive, self._target = archive, target
        self._size = archive.stat().st_size
        self._bytes = max(HARMLESS_BYTES, MAX_RATIO * self._size)
        self._files = MAX_FILES

    def take(self, members: Iterable[zipfile.ZipInfo]) -> None:
        """Subtract what members announce; raise if it is too much for the rules or the disk."""
        members = list(members)
        needed = sum(member.file_size for member in members)
        free = shutil.disk_usage(self._target).free
        self._bytes -= needed
        self._files -= len(members)
        if self._bytes < 0:
            raise self._error(
                f"unpacks to more than {MAX_RATIO} times its {self._size:,} bytes, like a zip "
                "bomb; if you trust it, unpack it yourself and give the folder"
            )
        if self._files < 0:
            raise self._error(f"holds more than {MAX_FILES:,} files; give the extracted folder")
        if needed > free:
            raise self._error(
                f"unpacks to {needed:,} bytes, and only {free:,} are free in {self._target.parent}"
            )

    def _error(self, problem: str) -> Text2SqlError:
        return Text2SqlError(f"{self._archive} {problem}.")


def path_of(name: str) -> list[str]:
    """Return the folders and the file in a member's name; some Windows programs write \\."""
    return [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]


def name_of(member: zipfile.ZipInfo) -> str:
    """Return a member's name; without a declared encoding it is read as UTF-8 if possible.

    Programs on Linux and macOS write UTF-8 without declaring it. Other names are read in the
    format's default, code page 437, which garbles Chinese and Japanese.
    """
    if member.flag_bits & _UTF8:
        return member.filename
    try:
        return member.filename.encode("cp437").decode()
    except UnicodeError:
        return member.filename


def is_guessed(member: zipfile.ZipInfo) -> bool:
    """Whether a member's name may be garbled, since its encoding is unknown."""
    return not (member.flag_bits & _UTF8 or member.filename.isascii()) and (
        member.filename == member.orig_filename
    )


def is_folder(member: zipfile.ZipInfo) -> bool:
    """Whether a member is a folder."""
    return member.filename.endswith(("/", "\\"))


def is_data(member: zipfile.ZipInfo) -> bool:
    """Whether a member is a file of the dataset, not a folder or an addition of macOS."""
    return not is_folder(member) and not any(is_litter(part) for part in path_of(member.filename))


def check_names(members: Iterable[zipfile.ZipInfo], archive: Path) -> None:
    """Raise for a name that leaves the folder, is not a regular file's, or occurs twice.

    Names that differ only in case or in the encoding of accents are one file on some systems.
    """
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for member in members:
        name = member.filename
        if problem := _problem(member):
            raise Text2SqlError(f"{archive} holds '{name}', {problem}.")
        parts = [_folded(part) for part in path_of(name)]
        paths = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        folders |= dict.fromkeys(paths if is_folder(member) else paths[:-1], name)
        if not is_folder(member) and files.setdefault(paths[-1], name) is not name:
            raise Text2SqlError(f"{archive} holds '{name}' and '{files[paths[-1]]}': one file.")
    for path in files.keys() & folders.keys():
        raise Text2SqlError(f"{archive} holds '{files[path]}' as a file and as a folder.")


def check_places(members: Iterable[zipfile.ZipInfo], end: int, archive: Path) -> None:
    """Raise if members overlap, as in a zip bomb, or the archive's beginning is missing."""
    ordered = sorted(members, key=lambda member: member.header_offset)
    # A truncated archive can end in the directory of an archive inside it, and pass for that one.
    if ordered and ordered[0].header_offset > 0:
        raise zipfile.BadZipFile("its end is missing")
    limits = [member.header_offset for member in ordered[1:]] + [end]
    for member, limit in zip(ordered, limits, strict=True):
        shortest = _LOCAL_HEADER_BYTES + len(member.orig_filename) + member.compress_size
        if member.header_offset + shortest > limit:
            raise Text2SqlError(
                f"{archive} holds '{member.filename}', which overlaps another file, like a zip "
                "bomb."
            )


def _problem(member: zipfile.ZipInfo) -> str:
    """Return what is wrong with a member's name or kind; empty for a regular file."""
    parts = path_of(member.filename)
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return "a link, which may leave its folder"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "which is not a regular file"
    if not parts or member.filename[0] in "/\\" or any(not part.strip(". ") for part in parts):
        return "which leaves its folder"
    if _UNSAFE.search(member.orig_filename):
        return "which leaves its folder on Windows, or has a character that file names cannot have"
    if any(_DEVICE.match(part) for part in parts):
        return "the name of a device on Windows"
    if member.flag_bits & _ENCRYPTED:
        return "which is encrypted: unpack it yourself and give the folder"
    if member.compress_type not in _METHODS:
        method = _NAMED_METHODS.get(member.compress_type, f"method {member.compress_type}")
        return (
            f"whose compression ({method}) is not supported: unpack it yourself and give the folder"
        )
    return ""


def _folded(part: str) -> str:
    """Return a name as file systems compare it that ignore case and the encoding of accents."""
    return unicodedata.normalize("NFC", part).casefold().rstrip(". ")
