"""Unpack a dataset's published .zip and the archives inside it, without macOS's additions.

An archive is not trusted: names that leave the folder, more bytes than announced, and far more
bytes than an archive of data has, are refused.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import shutil
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from text2sql.common.counting import counted
from text2sql.common.files import HEAD_BYTES, ZIP, kind_of, whole_folder
from text2sql.common.locking import Say, locked, quiet
from text2sql.datasets.reading.digests import Digests
from text2sql.datasets.reading.files import is_litter
from text2sql.errors import Text2SqlError

_LEVELS = 2
"""Levels of archives inside archives that are unpacked: BIRD's has two."""

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

_CHUNK = 1 << 20
_WORKERS = 4
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError),
    *(ValueError, NotImplementedError, RuntimeError),
)
"""What Python's readers raise for damaged bytes and for archives of an unknown kind."""


class DamagedArchive(Text2SqlError):
    """An archive with damaged bytes."""


def unpack(archive: Path, parent: Path, digests: Digests | None = None, say: Say = quiet) -> Path:
    """Unpack ``archive`` into a folder below ``parent`` named by its content; return the folder.

    An existing folder is used again. The sha256 of every written file is added to ``digests``.
    Raises Text2SqlError, and leaves nothing, for an archive that is damaged, breaks a rule or
    needs more space than is free.
    """
    if not archive.is_file():
        raise Text2SqlError(f"{archive} does not exist; check the path.")
    digests = digests or Digests()
    folder = parent / digests.of(archive)[:16]
    if folder.is_dir():
        return folder
    try:
        with locked(parent / f".{folder.name}.lock", say):
            if not folder.is_dir():
                with whole_folder(folder) as partial:
                    written = _extract(archive, partial, _Budget(archive, partial), say)
                for file, digest in written.items():
                    digests.note(folder / file.relative_to(partial), digest)
    except _DAMAGE as error:
        raise DamagedArchive(f"{archive} cannot be unpacked: {error}; get it again.") from error
    except OSError as error:
        reason = error.strerror or error
        raise Text2SqlError(f"{archive} cannot be unpacked into {parent}: {reason}.") from error
    return folder


def no_archive(path: Path) -> str:
    """Return what a file that is not a .zip looks like, as the end of a sentence; else nothing."""
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(ZIP):
        return ""
    kind = kind_of(head)
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        kind = "it is JSON; name a questions file as 'questions', beside the databases' source"
    return f"is not a .zip: {kind or 'it is damaged, or something else'}"


def _extract(
    archive: Path, target: Path, budget: _Budget, say: Say, levels: int = _LEVELS
) -> dict[Path, str]:
    """Extract one archive; an inner one becomes a folder of its name. Return the files' sha256."""
    with zipfile.ZipFile(archive) as content:
        members = _members(content, archive, say)
        budget.take(members)
        written = _write_all(content, members, target)
    inner = [file for file in written if file.suffix.lower() == ".zip"]
    for file in inner if levels > 1 else []:
        try:
            written |= _extract(file, file.with_suffix(""), budget, say, levels - 1)
        except _DAMAGE as error:
            raise zipfile.BadZipFile(f"{file.name} inside it: {error}") from error
        file.unlink()
        del written[file]
    return written


def _members(content: zipfile.ZipFile, archive: Path, say: Say) -> list[zipfile.ZipInfo]:
    """Check all members; return those that are files of the dataset.

    Programs on Linux and macOS write names in UTF-8 without declaring it. Other names are read in
    the format's default, code page 437, which garbles Chinese and Japanese.
    """
    everything, guessed = content.infolist(), []
    for member in everything:
        if member.flag_bits & _UTF8:
            continue
        try:
            member.filename = member.filename.encode("cp437").decode()
        except UnicodeError:
            if member.filename == member.orig_filename:
                guessed.append(member.filename)
    if guessed:
        say(
            f"WARNING: {archive.name} does not give the encoding of "
            f"{counted(len(guessed), 'name')} such as '{guessed[0]}'; if they are garbled, unpack "
            "it yourself."
        )
    _check_places(everything, content.start_dir, archive)
    _check_names(everything, archive)
    return [
        member
        for member in everything
        if not _is_folder(member) and not any(map(is_litter, _path_of(member.filename)))
    ]


def _write_all(
    content: zipfile.ZipFile, members: Iterable[zipfile.ZipInfo], target: Path
) -> dict[Path, str]:
    """Write all members below ``target``, several at once; return their sha256."""

    def write(member: zipfile.ZipInfo) -> tuple[Path, str]:
        file = target.joinpath(*_path_of(member.filename))
        file.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with content.open(member) as source, open(file, "xb") as copy:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                copy.write(chunk)
            if copy.tell() != member.file_size:
                raise zipfile.BadZipFile(
                    f"'{member.filename}' does not have the size that it announces"
                )
        return file, digest.hexdigest()

    pool = ThreadPoolExecutor(_WORKERS)
    try:
        return dict(pool.map(write, members))
    finally:
        pool.shutdown(cancel_futures=True)


class _Budget:
    """How much an archive, with those inside it, may still unpack to."""

    def __init__(self, archive: Path, target: Path) -> None:
        self._archive, self._target = archive, target
        self._size = archive.stat().st_size
        self._bytes = max(HARMLESS_BYTES, MAX_RATIO * self._size)
        self._files = MAX_FILES

    def take(self, members: Sequence[zipfile.ZipInfo]) -> None:
        """Subtract what members announce; raise if it is too much for the rules or the disk."""
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


def _path_of(name: str) -> list[str]:
    """Return the folders and the file in a member's name; some Windows programs write \\."""
    return [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]


def _is_folder(member: zipfile.ZipInfo) -> bool:
    return member.filename.endswith(("/", "\\"))


def _check_names(members: Iterable[zipfile.ZipInfo], archive: Path) -> None:
    """Raise for a name that leaves the folder, is not a regular file's, or occurs twice.

    Names that differ only in case or in the encoding of accents are one file on some systems.
    """
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for member in members:
        name = member.filename
        if problem := _problem(member):
            raise Text2SqlError(f"{archive} holds '{name}', {problem}.")
        parts = [_folded(part) for part in _path_of(name)]
        paths = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        folders |= dict.fromkeys(paths if _is_folder(member) else paths[:-1], name)
        if not _is_folder(member) and files.setdefault(paths[-1], name) is not name:
            raise Text2SqlError(f"{archive} holds '{name}' and '{files[paths[-1]]}': one file.")
    for path in files.keys() & folders.keys():
        raise Text2SqlError(f"{archive} holds '{files[path]}' as a file and as a folder.")


def _check_places(members: Iterable[zipfile.ZipInfo], end: int, archive: Path) -> None:
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
    parts = _path_of(member.filename)
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
