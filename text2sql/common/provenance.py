"""What a result was made by and from: fingerprints, the checkout's commit, and sealed records.

A sealed record is a JSON object with a fingerprint of its own content, so that an edit by hand
is noticed when it is read.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tokenize
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import text2sql
from text2sql.common.checkout import CHECKOUT
from text2sql.common.json_files import read_if_there
from text2sql.errors import Text2SqlError

LENGTH = 16
SEAL = "seal"
UNKNOWN = "unknown"
_SOURCES = ("text2sql", "assets", "resources", "pipelines")
_GIT_SECONDS = 30
_STATEMENT_ENDS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
_LAYOUT = (tokenize.NL, tokenize.COMMENT)


def fingerprint(**parts: Any) -> str:
    """Return 16 hexadecimal digits that change when any of the named parts does."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def file_version(*paths: Path) -> str:
    """Return a version of the contents of files."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:LENGTH]


def code_version(*paths: str) -> str:
    """Return a version of source files and folders, named relative to the checkout.

    Every byte counts, comments and templates too: it is cheap enough to compute whenever Dagster
    loads.
    """
    return _version_of_sources(paths, ("*.py", "templates/*.*"), Path.read_bytes)


def behaviour_version(*paths: str) -> str:
    """Return a version of what source files do, ignoring comments, docstrings and blank lines.

    For work that is too expensive to repeat because of a word in a comment.
    """
    return _version_of_sources(paths, ("*.py",), _without_words)


def _version_of_sources(
    paths: Iterable[str], patterns: Iterable[str], content: Callable[[Path], bytes]
) -> str:
    digest = hashlib.sha256()
    for place in (CHECKOUT / path for path in paths):
        found = [file for pattern in patterns for file in sorted(place.rglob(pattern))]
        for file in found if place.is_dir() else [place]:
            digest.update(f"{file.relative_to(CHECKOUT)}\0".encode())
            digest.update(content(file))
    return digest.hexdigest()[:LENGTH]


def _without_words(file: Path) -> bytes:
    """Return the lines of a program without comments, docstrings and blank lines.

    The content of other strings is kept, including blank lines.
    """
    source = file.read_text(encoding="utf-8")
    lines = source.splitlines()
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    before, touched = tokenize.NEWLINE, set()
    for token, after in pairwise(tokens):
        alone = before in _STATEMENT_ENDS and after.type == tokenize.NEWLINE
        if token.type in _LAYOUT or (token.type == tokenize.STRING and alone):
            touched |= _blank(lines, token)
        if token.type not in _LAYOUT:
            before = token.type
    kept = [
        line.rstrip() if row in touched else line
        for row, line in enumerate(lines)
        if line.strip() or row not in touched
    ]
    return "\n".join(kept).encode()


def _blank(lines: list[str], token: tokenize.TokenInfo) -> set[int]:
    """Overwrite a token in the lines with spaces; return the numbers of its lines, from 0."""
    (first, start), (last, end) = token.start, token.end
    rows = range(first - 1, min(last, len(lines)))
    for row in rows:
        line = lines[row]
        left = line[:start] if row == rows[0] else ""
        right = line[end:] if row == last - 1 else ""
        lines[row] = left + " " * (len(line) - len(left) - len(right)) + right
    return set(rows)


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of JSON values with its seal."""
    content = {name: value for name, value in record.items() if name != SEAL}
    return content | {SEAL: fingerprint(record=content)}


def is_edited(record: Mapping[str, Any]) -> bool:
    """Say whether a record differs from its seal; one without a seal says nothing."""
    return SEAL in record and sealed(record)[SEAL] != record[SEAL]


def read_record(file: Path) -> dict[str, Any]:
    """Read a record; an empty one where there is no file.

    Raises Text2SqlError where the file is no JSON object, or was edited after it was sealed.
    """
    record = read_if_there(file)
    if is_edited(record):
        raise Text2SqlError(
            f"{edited(file)} Restore it, or materialize the asset that writes it again."
        )
    return record


def edited(file: Path) -> str:
    """Say that a record was edited."""
    return f"{file} was edited by hand: it does not match its seal."


def code_state() -> dict[str, Any]:
    """Return the release and, in a git checkout, the commit and whether the sources differ from it.

    ``commit`` is ``unknown`` and ``dirty`` None where git cannot say.
    """
    top, _, commit = _git(CHECKOUT, "rev-parse", "--show-toplevel", "HEAD").partition("\n")
    state: dict[str, Any] = {"text2sql": text2sql.__version__, "commit": UNKNOWN, "dirty": None}
    if commit and Path(top).resolve() == CHECKOUT:
        changed = _git(CHECKOUT, "status", "--porcelain", "--", *_SOURCES)
        state |= {"commit": commit, "dirty": bool(changed)}
    return state


def _git(folder: Path, *arguments: str) -> str:
    try:
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
