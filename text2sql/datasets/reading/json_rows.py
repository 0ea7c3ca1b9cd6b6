"""Rows of JSON text: a list, an object with one list in it, or objects one after another."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from text2sql.common.json_files import json_fault
from text2sql.errors import Text2SqlError

LINES = (".jsonl", ".ndjson")
_SPACE = re.compile(r"\s*")
_KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}


def kind_of(value: Any) -> str:
    """Return what JSON calls a value."""
    return _KINDS.get(type(value), "null")


def parse_rows(text: str, file: Path) -> list[dict[str, Any]]:
    """Return the objects of a file, in its order; raise Text2SqlError where it is something else.

    What the text is decides, not the file's name: people save a list as .jsonl and lines as .json.
    """
    rows = _parse(text, file)
    for position, row in enumerate(rows):
        if not isinstance(row, dict):
            raise Text2SqlError(
                f"{file}: entry {position} (counting from 0) must be an object, not {kind_of(row)}."
            )
    return rows


def _parse(text: str, file: Path) -> list[Any]:
    is_list = text.lstrip().startswith("[")
    if file.suffix.lower() in LINES and not is_list:
        return _parse_lines(text, file)
    if not text.strip():
        raise Text2SqlError(f"{file} is empty; get it again.")
    try:
        content = _load(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("{"):
            return _parse_lines(text, file)
        raise Text2SqlError(
            f"{file} is not JSON: {json_fault(error)}; give .json or .jsonl, whole and as it was "
            "written."
        ) from error
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        return lists[0] if len(lists) == 1 else [content]
    if not isinstance(content, list):
        raise Text2SqlError(f"{file} must hold a list of questions, not {kind_of(content)}.")
    return content


def _parse_lines(text: str, file: Path) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                rows.append(_load(line))
            except (ValueError, RecursionError) as error:
                if objects := _parse_objects(text):
                    return objects
                raise _no_json(file, number, error) from error
    return rows


def _no_json(file: Path, number: int, error: Exception) -> Text2SqlError:
    reason = json_fault(error)
    if isinstance(error, json.JSONDecodeError):
        reason = f"{error.msg.removesuffix(' starting at')} (column {error.colno})"
    return Text2SqlError(
        f"{file}: line {number} is not JSON: {reason}; get the file again, or mend the line."
    )


def _parse_objects(text: str) -> list[Any]:
    """Return objects that take several lines each, or share one; none where that fails."""
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    rows, at, text = [], 0, text.strip()
    while at < len(text):
        try:
            row, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        rows.append(row)
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    return rows


def _load(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise ValueError where a key says two things, which readers drop."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values and values[name] != value:
            raise ValueError(f"an object has the key '{name}' twice, with other values")
        values[name] = value
    return values
