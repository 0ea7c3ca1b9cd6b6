"""Versions of code, files and other things that a result depends on, made from their content."""

from __future__ import annotations

import hashlib
import io
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from text2sql.common.checkout import CHECKOUT
from text2sql.common.provenance import LENGTH, file_version, fingerprint

__all__ = ["behaviour_version", "code_version", "file_version", "fingerprint"]


def code_version(*paths: str) -> str:
    """Return a version of source files and folders, named relative to the checkout.

    Every byte counts, comments too: it is cheap enough to compute whenever Dagster loads.
    """
    digest = hashlib.sha256()
    for file in _sources(paths):
        digest.update(f"{file.relative_to(CHECKOUT)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:LENGTH]


def behaviour_version(*paths: str) -> str:
    """Return a version of what source files do, ignoring comments, docstrings and blank lines.

    For work that is too expensive to repeat because of a word in a comment.
    """
    digest = hashlib.sha256()
    for file in _sources(paths):
        digest.update(f"{file.relative_to(CHECKOUT)}\0".encode())
        digest.update(_without_words(file.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:LENGTH]


def _sources(paths: tuple[str, ...]) -> Iterator[Path]:
    for path in paths:
        place = CHECKOUT / path
        yield from sorted(place.rglob("*.py")) if place.is_dir() else [place]


_STATEMENT_ENDS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
_LAYOUT = (tokenize.NL, tokenize.COMMENT)


def _without_words(source: str) -> str:
    """Return the lines of a program without comments, docstrings and blank lines.

    The content of other strings is kept, including blank lines.
    """
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
    return "\n".join(kept)


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
