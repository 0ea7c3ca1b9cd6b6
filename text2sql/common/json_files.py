"""Files of JSON objects: written atomically; each problem in one that is read is one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from text2sql.common.files import write_whole
from text2sql.errors import Text2SqlError


def read_object(file: Path, advice: str = "") -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises Text2SqlError where it cannot be read or holds something else; ``advice`` is a sentence
    that says what to do then.
    """
    return parse_object(_content(file, advice), str(file), advice)


def read_if_there(file: Path, advice: str = "") -> dict[str, Any]:
    """Return the JSON object in a file, an empty one without a file; raises as ``read_object``."""
    try:
        return read_object(file, advice)
    except Text2SqlError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return {}
        raise


def _content(file: Path, advice: str = "") -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise Text2SqlError(f"{file} cannot be read: {reason}. {advice}".rstrip()) from error


def parse_object(content: bytes, place: str, advice: str = "") -> dict[str, Any]:
    """Return the JSON object in UTF-8 that came from a ``place``; raises as ``read_object``."""
    try:
        found = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = f"{place} cannot be read as JSON: {json_fault(error)}."
        raise Text2SqlError(f"{reason} {advice}".rstrip()) from error
    if not isinstance(found, dict):
        raise Text2SqlError(f"{place} must hold one JSON object. {advice}".rstrip())
    return found


def json_fault(error: Exception) -> str:
    """Return why a text is not JSON, without Python's advice to programmers."""
    return str(error).partition("; use sys.")[0]


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of a file with one a line; blank lines are skipped.

    Raises Text2SqlError where it cannot be read, naming the invalid line.
    """
    return [
        parse_object(line, f"{file}, line {number},")
        for number, line in enumerate(_content(file).split(b"\n"), start=1)
        if line.strip()
    ]


def write_json(file: Path, value: Mapping[str, Any], *, durable: bool = False) -> Path:
    """Write one JSON object atomically; return the file.

    A ``durable`` one survives a power failure. Raises Text2SqlError where it cannot be written.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return write_whole(file, text, durable=durable)


def write_rows(file: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write one JSON object a line, atomically; return the file; raises as ``write_json``."""
    return write_whole(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
