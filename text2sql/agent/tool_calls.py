"""How the four tools are called: their schemas, and checks of a call's arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from text2sql.agent.settings import AgentSettings
from text2sql.common.render import neutral
from text2sql.policy.calls import loaded


def _schema(name: str, description: str, required: list[str], **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


TOOL_SCHEMAS: list[dict[str, Any]] = [
    _schema(
        "inspect_schema",
        "List the tables with their columns, keys and row counts, or show one table in detail "
        "with descriptions and example values.",
        [],
        table=_text("A table to show in detail; leave it out to list all tables."),
    ),
    _schema(
        "sample_rows",
        "Show the first rows of a table.",
        ["table"],
        table=_text("The table."),
        limit={"type": "integer", "description": "How many rows."},
    ),
    _schema(
        "run_sql",
        "Run one read-only SQLite query and show its first rows and the number of rows.",
        ["sql"],
        sql=_text("The query."),
    ),
    _schema(
        "submit",
        "Hand in the final SQLite query that answers the question. This ends the work.",
        ["sql"],
        sql=_text("The final query."),
    ),
]
"""The tools as OpenAI function schemas."""

_PARAMETERS: dict[str, Any] = {
    schema["function"]["name"]: schema["function"]["parameters"] for schema in TOOL_SCHEMAS
}
TOOL_NAMES = tuple(_PARAMETERS)


_QUOTED_CHARS = 200


class Mistake(Exception):
    """The call cannot be executed as written; the text tells the model why."""


def checked(name: str, arguments: str | dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with texts as strings, without nulls.

    Raises Mistake for an unknown tool and for missing or invalid arguments.
    """
    if name not in TOOL_NAMES:
        raise Mistake(f"unknown tool {short(name)}; available: {', '.join(TOOL_NAMES)}")
    values = _as_object(name, arguments)
    parameters = _PARAMETERS[name]
    found: dict[str, Any] = {}
    for key, kind in parameters["properties"].items():
        value = values.get(key)
        if value is not None and kind["type"] == "string":
            if isinstance(value, int | float) and not isinstance(value, bool):
                with suppress(ValueError):  # Python writes no integer of more than 4,300 digits
                    value = str(value)
            if not isinstance(value, str):
                raise Mistake(f"{key} must be a string")
            value = value.strip()
        if value is not None and value != "":
            found[key] = value
    for key in parameters["required"]:
        if key not in found:
            takes = ", ".join(parameters["properties"])
            raise Mistake(f"missing argument {key}; {name} takes {takes}")
    return found


def ignored(name: str, arguments: str | dict[str, Any]) -> str:
    """Name the arguments that the tool does not take; empty without any."""
    parameters = _PARAMETERS[name]["properties"]
    values = _as_object(name, arguments)
    unknown = [short(key) for key, value in values.items() if key not in parameters and value]
    takes = ", ".join(parameters)
    return f"\nnote: {name} takes {takes}; not used: {', '.join(unknown[:5])}" if unknown else ""


def _as_object(name: str, arguments: str | dict[str, Any]) -> Mapping[str, Any]:
    values = loaded(arguments or "{}") if isinstance(arguments, str) else arguments
    if not isinstance(values, dict):
        written = neutral(str(arguments))
        shown = written if len(written) <= _QUOTED_CHARS else f"{written[:_QUOTED_CHARS]}..."
        raise Mistake(f"the arguments of {name} are not a complete JSON object: {shown}")
    return values


def row_limit(value: Any, settings: AgentSettings) -> int:
    """Read a number of rows, limited to what one result shows; raises Mistake if invalid."""
    if value is None or is_null(value):
        return settings.sample_rows
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or not number.is_integer():
        raise Mistake("limit must be an integer")
    if number < 1:
        raise Mistake("limit must be at least 1")
    return int(min(number, settings.output_rows))


def is_null(value: Any) -> bool:
    """Whether a model wrote the word null or none for no value."""
    return isinstance(value, str) and value.strip().lower() in ("null", "none")


def short(name: Any) -> str:
    """Return what a model wrote as a name, fit to be shown back to it."""
    return neutral(str(name))[:60]
