"""Files of JSON objects: written whole; what is wrong with one that is read is a sentence."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from text2sql.common.files import write_whole
from text2sql.errors import Text2SqlError


def read_object(file: Path, mend: str = "") -> dict[str, Any]:
    """Return the JSON object that a file holds.

    Raises Text2SqlError where it cannot be read or holds something else; ``mend`` is a sentence
    that says what to do then.
    """
    return parse_object(_required(file, mend), str(file), mend)


def read_if_there(file: Path, mend: str = "") -> dict[str, Any]:
    """Return the JSON object that a file holds, an empty one where there is no file.

    Raises Text2SqlError as ``read_object`` does.
    """
    content = _content(file, mend)
    return {} if content is None else parse_object(content, str(file), mend)


def _content(file: Path, mend: str = "") -> bytes | None:
    """Return what a file holds, None where there is none."""
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        reason = error.strerror or error
        raise Text2SqlError(f"{file} cannot be read: {reason}. {mend}".rstrip()) from error


def _required(file: Path, mend: str = "") -> bytes:
    content = _content(file, mend)
    if content is None:
        reason = os.strerror(errno.ENOENT)
        raise Text2SqlError(f"{file} cannot be read: {reason}. {mend}".rstrip())
    return content


def parse_object(content: bytes, place: str, mend: str = "") -> dict[str, Any]:
    """Return the JSON object in UTF-8 that came from a ``place``; raises as ``read_object``."""
    try:
        found = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = f"{place} cannot be read as JSON: {json_fault(error)}."
        raise Text2SqlError(f"{reason} {mend}".rstrip()) from error
    if not isinstance(found, dict):
        raise Text2SqlError(f"{place} must hold one JSON object. {mend}".rstrip())
    return found


def json_fault(error: Exception) -> str:
    """Return why a text is no JSON, without what Python tells programmers to do about it."""
    return str(error).partition("; use sys.")[0]


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of a file that has one a line; lines without anything are none.

    Raises Text2SqlError where it cannot be read, naming the line that is none.
    """
    return [
        parse_object(line, f"{file}, line {number},")
        for number, line in enumerate(_required(file).split(b"\n"), start=1)
        if line.strip()
    ]


def write_json(file: Path, value: Mapping[str, Any], *, lasting: bool = False) -> Path:
    """Write one JSON object, whole or not at all; return the file.

    What is ``lasting`` is there also after the power failed. Raises Text2SqlError where the disk
    refuses.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return write_whole(file, text, lasting=lasting)


def write_rows(file: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write one JSON object a line, whole or not at all; return the file.

    Raises Text2SqlError where the disk refuses.
    """
    return write_whole(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
