"""Unpack a dataset's published .zip: archives within archives, without macOS's additions.

What an archive says of itself is not believed: names that leave the folder, more bytes than were
announced, and far more bytes than an archive of data has, are refused (``zip_rules``).
"""

from __future__ import annotations

import hashlib
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, BinaryIO

from text2sql.common.counting import counted
from text2sql.common.files import HEAD_BYTES, ZIP, kind_of, whole_folder
from text2sql.common.locking import Say, locked, quiet
from text2sql.datasets.fetching.zip_rules import (
    Budget,
    check_names,
    check_places,
    is_guessed,
    is_wanted,
    name_of,
    parts_of,
)
from text2sql.datasets.reading.digests import Digests
from text2sql.errors import Text2SqlError

_LEVELS = 2
"""Archives within archives that are followed: BIRD has one in the other."""

_PIECE = 1 << 20
_WORKERS = 4
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)
"""What Python's readers raise for damaged bytes and for kinds of archives they do not know."""


class DamagedArchive(Text2SqlError):
    """An archive whose bytes are not as they were written."""


def unpack(archive: Path, parent: Path, digests: Digests | None = None, say: Say = quiet) -> Path:
    """Unpack ``archive`` into a folder below ``parent`` named by its content; return the folder.

    A folder that is there already is used again. ``digests`` learns the sha256 of every file
    that is written. Raises Text2SqlError, and leaves nothing, for a damaged archive, one that
    needs more space than there is, or one that breaks a rule.
    """
    if not archive.is_file():
        raise Text2SqlError(f"There is no archive {archive}; check the path.")
    digests = digests or Digests()
    folder = parent / digests.of(archive)[:16]
    if folder.is_dir():
        return folder
    try:
        with locked(parent / f".{folder.name}.lock", say):
            if not folder.is_dir():
                _unpack_anew(archive, folder, digests, say)
    except _DAMAGE as error:
        raise DamagedArchive(f"{archive} cannot be unpacked: {error}; get it again.") from error
    except OSError as error:
        reason = error.strerror or error
        raise Text2SqlError(f"{archive} cannot be unpacked into {parent}: {reason}.") from error
    return folder


def _unpack_anew(archive: Path, folder: Path, digests: Digests, say: Say) -> None:
    """Fill the folder, and let the digests know of its files."""
    with whole_folder(folder) as partial:
        written = _extract(archive, partial, Budget(archive, partial), say)
    for file, digest in written.items():
        digests.note(folder / file.relative_to(partial), digest)


def no_archive(path: Path) -> str:
    """Say that a file is not a .zip, and what it looks like."""
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    kind = kind_of(head)
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        kind = "it is JSON; name a questions file as 'questions', beside the databases' source"
    return f"is not a .zip: {kind or 'it is damaged, or something else'}"


def is_archive(path: Path) -> bool:
    """Whether a file begins as a .zip does, whatever its name."""
    with open(path, "rb") as file:
        return file.read(len(ZIP)) == ZIP


def _extract(
    archive: Path, target: Path, budget: Budget, say: Say, levels: int = _LEVELS
) -> dict[Path, str]:
    """Extract the files of one archive; an archive in it becomes a folder of its name.

    Returns the sha256 of the files that are left.
    """
    with zipfile.ZipFile(archive) as content:
        members = _members(content, archive, say)
        budget.take(members)
        written = _write_all(content, members, target)
    inner = [file for file in written if file.suffix.lower() == ".zip"]
    for file in inner if levels > 1 else []:
        try:
            written |= _extract(file, file.with_suffix(""), budget, say, levels - 1)
        except _DAMAGE as error:
            raise zipfile.BadZipFile(f"{file.name} in it: {error}") from error
        file.unlink()
        del written[file]
    return written


def _members(content: zipfile.ZipFile, archive: Path, say: Say) -> list[zipfile.ZipInfo]:
    """Return the members that are files of the dataset, checked."""
    everything = content.infolist()
    for member in everything:
        member.filename = name_of(member)
    if guessed := [member.filename for member in everything if is_guessed(member)]:
        say(
            f"WARNING: {archive.name} does not say how '{guessed[0]}' is encoded, and "
            f"{counted(len(guessed), 'name')} like it; where they are garbled, unpack it yourself."
        )
    check_places(everything, content.start_dir, archive)
    check_names(everything, archive)
    return [member for member in everything if is_wanted(member)]


def _write_all(
    content: zipfile.ZipFile, members: Iterable[zipfile.ZipInfo], target: Path
) -> dict[Path, str]:
    """Write every member below ``target``, several at once; return their sha256."""

    def write(member: zipfile.ZipInfo) -> tuple[Path, str]:
        file = target.joinpath(*parts_of(member.filename))
        file.parent.mkdir(parents=True, exist_ok=True)
        with content.open(member) as source, open(file, "xb") as copy:
            return file, _copy(source, copy, member)

    pool = ThreadPoolExecutor(_WORKERS)
    try:
        return dict(pool.map(write, members))
    finally:
        pool.shutdown(cancel_futures=True)


def _copy(source: IO[bytes], copy: BinaryIO, member: zipfile.ZipInfo) -> str:
    """Copy in pieces; return the sha256 of what was written."""
    digest = hashlib.sha256()
    while piece := source.read(_PIECE):
        digest.update(piece)
        copy.write(piece)
    if copy.tell() != member.file_size:
        raise zipfile.BadZipFile(f"'{member.filename}' has another size than it announces")
    return digest.hexdigest()
