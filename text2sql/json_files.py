"""Files that hold one JSON object: read with one sentence on what is wrong, written whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from text2sql.errors import Text2SqlError
from text2sql.files import write_whole


def read_object(file: Path, mend: str = "") -> dict[str, Any]:
    """Return the JSON object that a file holds.

    Raises Text2SqlError where there is no such file, it cannot be read, or it holds something
    else; ``mend`` is a sentence that says what to do then.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise Text2SqlError(f"{file} cannot be read: {reason}. {mend}".rstrip()) from error
    return parse_object(content, str(file), mend)


def parse_object(content: bytes, place: str, mend: str = "") -> dict[str, Any]:
    """Return the JSON object in UTF-8 that came from a ``place``; raises as ``read_object``."""
    try:
        found = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = f"{place} cannot be read as JSON: {error}."
        raise Text2SqlError(f"{reason} {mend}".rstrip()) from error
    if not isinstance(found, dict):
        raise Text2SqlError(f"{place} must hold one JSON object. {mend}".rstrip())
    return found


def write_object(file: Path, value: Mapping[str, Any]) -> Path:
    """Write one JSON object, whole or not at all; return the file.

    Raises Text2SqlError where the disk refuses.
    """
    return write_whole(file, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
