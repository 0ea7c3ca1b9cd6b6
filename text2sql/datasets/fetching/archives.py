"""Unpack a dataset's published .zip and the archives inside it, without macOS's additions.

An archive is not trusted: names that leave the folder, more bytes than announced, and far more
bytes than an archive of data has, are refused (``zip_rules``).
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
    is_data,
    is_guessed,
    name_of,
    path_of,
)
from text2sql.datasets.reading.digests import Digests
from text2sql.errors import Text2SqlError

_LEVELS = 2
"""Levels of archives inside archives that are unpacked: BIRD's has two."""

_CHUNK = 1 << 20
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
                _unpack_anew(archive, folder, digests, say)
    except _DAMAGE as error:
        raise DamagedArchive(f"{archive} cannot be unpacked: {error}; get it again.") from error
    except OSError as error:
        reason = error.strerror or error
        raise Text2SqlError(f"{archive} cannot be unpacked into {parent}: {reason}.") from error
    return folder


def _unpack_anew(archive: Path, folder: Path, digests: Digests, say: Say) -> None:
    """Fill the folder, and add its files to the digests."""
    with whole_folder(folder) as partial:
        written = _extract(archive, partial, Budget(archive, partial), say)
    for file, digest in written.items():
        digests.note(folder / file.relative_to(partial), digest)


def no_archive(path: Path) -> str:
    """Return what a file that is not a .zip looks like, as the end of a sentence."""
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    kind = kind_of(head)
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        kind = "it is JSON; name a questions file as 'questions', beside the databases' source"
    return f"is not a .zip: {kind or 'it is damaged, or something else'}"


def is_archive(path: Path) -> bool:
    """Whether a file begins like a .zip, whatever its name."""
    with open(path, "rb") as file:
        return file.read(len(ZIP)) == ZIP


def _extract(
    archive: Path, target: Path, budget: Budget, say: Say, levels: int = _LEVELS
) -> dict[Path, str]:
    """Extract the files of one archive; an inner archive becomes a folder of its name.

    Returns the sha256 of the extracted files.
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
            raise zipfile.BadZipFile(f"{file.name} inside it: {error}") from error
        file.unlink()
        del written[file]
    return written


def _members(content: zipfile.ZipFile, archive: Path, say: Say) -> list[zipfile.ZipInfo]:
    """Check all members; return those that are files of the dataset."""
    everything = content.infolist()
    for member in everything:
        member.filename = name_of(member)
    if guessed := [member.filename for member in everything if is_guessed(member)]:
        say(
            f"WARNING: {archive.name} does not give the encoding of "
            f"{counted(len(guessed), 'name')} such as '{guessed[0]}'; if they are garbled, unpack "
            "it yourself."
        )
    check_places(everything, content.start_dir, archive)
    check_names(everything, archive)
    return [member for member in everything if is_data(member)]


def _write_all(
    content: zipfile.ZipFile, members: Iterable[zipfile.ZipInfo], target: Path
) -> dict[Path, str]:
    """Write all members below ``target``, several at once; return their sha256."""

    def write(member: zipfile.ZipInfo) -> tuple[Path, str]:
        file = target.joinpath(*path_of(member.filename))
        file.parent.mkdir(parents=True, exist_ok=True)
        with content.open(member) as source, open(file, "xb") as copy:
            return file, _copy(source, copy, member)

    pool = ThreadPoolExecutor(_WORKERS)
    try:
        return dict(pool.map(write, members))
    finally:
        pool.shutdown(cancel_futures=True)


def _copy(source: IO[bytes], copy: BinaryIO, member: zipfile.ZipInfo) -> str:
    """Copy in chunks; return the sha256 of the bytes written."""
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        copy.write(chunk)
    if copy.tell() != member.file_size:
        raise zipfile.BadZipFile(f"'{member.filename}' has not the size that it announces")
    return digest.hexdigest()
