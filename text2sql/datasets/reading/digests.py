"""Digests of files, cached between runs: a file is read again only if its stamp changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from time import sleep, time_ns

from text2sql.common.files import file_digest, write_whole
from text2sql.errors import Text2SqlError
from text2sql.sandbox.files import stamp_of

_SETTLED_NS = 50_000_000
"""Longer than a tick of a file system's clock: two changes in one tick have the same stamp."""


def combine_digests(parts: Mapping[str, str]) -> str:
    """Return 16 hexadecimal digits that change when a name or a digest of ``parts`` does."""
    lines = "".join(f"{name}\t{digest}\n" for name, digest in sorted(parts.items()))
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()[:16]


class Digests:
    """The sha256 of files, known by path, size, inode and times of change.

    With a ``store``, ``save`` keeps them in that JSON file between runs. It is only a cache: a
    damaged one is ignored and replaced.
    """

    def __init__(self, store: Path | None = None) -> None:
        self._store = store
        self._known: dict[str, list[int | str]] = self._load()
        self.read = 0
        """The number of files that were read."""

    def of(self, path: Path) -> str:
        """Return a file's sha256, read if it is new or changed; or raise Text2SqlError."""
        name = os.path.realpath(path)
        try:
            stamp = list(stamp_of(name))
            known = self._known.get(name, [])
            if known[:-1] == stamp:
                return str(known[-1])
            # Wait until any later change of the file is certain to change its stamp.
            age = time_ns() - max(stamp[-2:])
            if 0 <= age < _SETTLED_NS:
                sleep((_SETTLED_NS - age) / 1e9)
            digest = file_digest(Path(name))
            if list(stamp_of(name)) != stamp:
                raise Text2SqlError(f"{path} is being written; run again when it is complete.")
        except OSError as error:
            raise Text2SqlError(f"{path} cannot be read: {error.strerror or error}.") from error
        self._known[name] = [*stamp, digest]
        self.read += 1
        return digest

    def note(self, path: Path, digest: str) -> None:
        """Record the sha256 of a file that the caller has just written."""
        name = os.path.realpath(path)
        self._known[name] = [*stamp_of(name), digest]

    def save(self) -> None:
        """Write the digests of files that still exist, atomically."""
        if self._store is None:
            return
        known = {**self._load(), **self._known}
        kept = {name: entry for name, entry in known.items() if os.path.exists(name)}
        write_whole(self._store, json.dumps(kept, indent=0))

    def _load(self) -> dict[str, list[int | str]]:
        if self._store is None or not self._store.is_file():
            return {}
        try:
            content = json.loads(self._store.read_text(encoding="utf-8"))
        except ValueError:
            return {}
        entries = content.items() if isinstance(content, dict) else []
        return {name: entry for name, entry in entries if isinstance(entry, list) and entry}
