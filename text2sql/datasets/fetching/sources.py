"""Where a dataset comes from: a folder, a .zip, or the URL of a .zip."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from text2sql.common.artifacts import archives_folder, downloads_folder
from text2sql.common.locking import Say, quiet
from text2sql.datasets.fetching.archives import DamagedArchive, no_archive, unpack
from text2sql.datasets.fetching.download import download, is_url, shown
from text2sql.datasets.reading.digests import Digests
from text2sql.datasets.reading.layout import SplitLayout, find_split
from text2sql.errors import Text2SqlError


@dataclass(frozen=True)
class Source:
    """Where a person says a split is.

    ``place`` is a folder, a .zip or the URL of one; ``sha256`` the .zip's, if known.
    ``questions`` is a path or URL of the questions file, if the place has none or several.
    """

    place: str
    sha256: str = ""
    questions: str = ""


class Sources:
    """Opens sources, each once: downloads and unpacks below the artifact root if need be."""

    def __init__(self, root: Path, digests: Digests, say: Say = quiet) -> None:
        self._root, self._digests, self._say = root, digests, say
        self._folders: dict[tuple[str, str], Path] = {}

    def find(self, source: Source, split: str) -> SplitLayout:
        """Return where a split's questions and databases are.

        Questions in a person's own folder or file may name databases anywhere; those of an
        archive only databases that came with it.
        """
        if source.sha256 and not re.fullmatch(r"[0-9a-fA-F]{64}", source.sha256):
            raise Text2SqlError(
                f"The sha256 of {source.place} must be 64 hexadecimal digits, not "
                f"'{source.sha256}'."
            )
        key = (source.place, source.sha256)
        if key not in self._folders:
            self._folders[key] = self._folder(*key)
        folder = self._folders[key]
        questions = None
        if place := source.questions:
            questions = self._download(place) if is_url(place) else local(place)
            if not questions.is_file():
                raise Text2SqlError(
                    f"The questions file {questions} does not exist; check the path."
                )
        own = not is_url(source.questions) if questions else local(source.place).is_dir()
        return find_split(folder, split, questions, self._unpack, anywhere=own)

    def _folder(self, place: str, sha256: str) -> Path:
        """Return the folder of a source; a damaged download is removed, so that it comes again."""
        if is_url(place):
            file = self._download(place, sha256)
            if problem := no_archive(file):
                file.unlink()
                raise Text2SqlError(f"{shown(place)} {problem}; give the URL of the .zip itself.")
            try:
                return self._unpack(file)
            except DamagedArchive:
                file.unlink(missing_ok=True)
                raise
        path = local(place)
        if os.path.isdir(path):
            return path
        if problem := no_archive(path) if os.path.isfile(path) else "does not exist":
            raise Text2SqlError(f"{path} {problem}; give a folder, a .zip or a URL of a .zip.")
        if sha256 and self._digests.of(path) != sha256.lower():
            raise Text2SqlError(
                f"{path} has the sha256 {self._digests.of(path)} instead of {sha256}: get it "
                "again, or correct the checksum."
            )
        return self._unpack(path)

    def _download(self, url: str, sha256: str = "") -> Path:
        return download(url, downloads_folder(self._root), sha256, self._say)

    def _unpack(self, archive: Path) -> Path:
        return unpack(archive, archives_folder(self._root), self._digests, self._say)


def local(place: str) -> Path:
    """Return the absolute path that a person means."""
    return Path(os.path.expanduser(place)).resolve()
