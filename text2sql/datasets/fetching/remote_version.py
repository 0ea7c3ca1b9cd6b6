"""Which state of a file a server has, and the note of it beside what came of the file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from text2sql.common.json_files import write_json
from text2sql.datasets.fetching.http_answers import Answer


@dataclass(frozen=True)
class RemoteVersion:
    """A state of a file: its size (-1: not told), its names, and its sha256 once it is here."""

    size: int = -1
    etag: str = ""
    modified: str = ""
    sha256: str = ""

    @property
    def proof(self) -> str:
        """What proves that the rest is of the same file; a weak ETag does not. May be empty."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified

    def contradicts(self, other: RemoteVersion) -> bool:
        """Whether both tell something of the file, and not the same."""
        names = [(self.etag, other.etag), (self.modified, other.modified)]
        sizes = self.size != other.size and min(self.size, other.size) >= 0
        return sizes or any(one and another and one != another for one, another in names)

    def is_surely(self, other: RemoteVersion) -> bool:
        """Whether both are one state by a name that both have."""
        names = [(self.etag, other.etag), (self.modified, other.modified)]
        return any(one and one == another for one, another in names) and not self.contradicts(other)

    def or_else(self, other: RemoteVersion) -> RemoteVersion:
        """Return this state with what only the other tells."""
        size = self.size if self.size >= 0 else other.size
        return RemoteVersion(size, self.etag or other.etag, self.modified or other.modified)


def version_of(answer: Answer) -> RemoteVersion:
    """Return the state that an answer tells of."""
    names = (answer.headers.get(name) or "" for name in ("ETag", "Last-Modified"))
    return RemoteVersion(answer.size, *names)


def read_version(file: Path) -> RemoteVersion:
    """Return what was noted of a file; where there is no good note, nothing is known."""
    try:
        return RemoteVersion(**json.loads(_note(file).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return RemoteVersion()


def forget_version(file: Path) -> None:
    """Know nothing of a file any more."""
    _note(file).unlink(missing_ok=True)


def write_version(file: Path, version: RemoteVersion) -> None:
    """Note of a file which state it is."""
    write_json(_note(file), asdict(version))


def _note(file: Path) -> Path:
    return file.with_name(f"{file.name}.version")
