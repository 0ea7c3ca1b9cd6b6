"""Unpack a dataset's published .zip: archives within archives, without macOS's additions."""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
from pathlib import Path, PurePosixPath

from text2sql.datasets.layout import file_digest
from text2sql.errors import Text2SqlError

_LEVELS = 2
"""Archives within archives that are followed: BIRD has one in the other."""


def unpack(archive: Path, parent: Path) -> Path:
    """Unpack ``archive`` into a folder below ``parent`` named by its content; return the folder.

    A folder that is there already is used again. Raises Text2SqlError, and leaves nothing, for
    a damaged archive, one that needs more space than there is, or one that leaves its folder.
    """
    if not archive.is_file():
        raise Text2SqlError(f"There is no archive {archive}; check the path.")
    folder = parent / file_digest(archive)[:16]
    if folder.is_dir():
        return folder
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        _extract(archive, partial, _LEVELS)
        os.replace(partial, folder)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise Text2SqlError(f"{archive} cannot be unpacked: {error}; get it again.") from error
    except OSError as error:
        reason = error.strerror or error
        raise Text2SqlError(f"{archive} cannot be unpacked into {parent}: {reason}.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _extract(archive: Path, target: Path, levels: int) -> None:
    """Extract the files of one archive, then those of the archives in it, which are removed."""
    with zipfile.ZipFile(archive) as content:
        # A cut archive can end in the directory of an archive within it, and pass for that one.
        if min((member.header_offset for member in content.infolist()), default=0) > 0:
            raise zipfile.BadZipFile("its end is missing")
        members = [member for member in content.infolist() if _wanted(member, archive)]
        _require_space(sum(member.file_size for member in members), target, archive)
        for member in members:
            content.extract(member, target)
    inner = [target / member.filename for member in members if member.filename.endswith(".zip")]
    for file in inner if levels > 1 else []:
        _extract(file, file.parent, levels - 1)
        file.unlink()


def _wanted(member: zipfile.ZipInfo, archive: Path) -> bool:
    """Whether a member is a file of the dataset; raise for one that points elsewhere."""
    parts = PurePosixPath(member.filename.replace("\\", "/")).parts
    if ".." in parts or member.filename.startswith("/") or stat.S_ISLNK(member.external_attr >> 16):
        raise Text2SqlError(f"{archive} holds '{member.filename}', which leaves its folder.")
    hidden = any(part == "__MACOSX" or part.startswith(".") for part in parts)
    return not hidden and not member.is_dir()


def _require_space(needed: int, target: Path, archive: Path) -> None:
    free = shutil.disk_usage(target).free
    if needed > free:
        raise Text2SqlError(
            f"{archive} unpacks to {needed:,} bytes, and only {free:,} are free in {target.parent}."
        )
