"""What is wrong with the run config of a training run, as sentences."""

from __future__ import annotations

import re

from pipelines.jobs import TRAINING, lifecycle

_UNKNOWN = re.compile(r'Received unexpected config entry "(.+?)" at (?:path root:(\S+)|the root)')
_SCALAR = re.compile(
    r'Invalid scalar at path root:(\S+)\. Value "(.*)" of type .* for expected type "(\w+)"'
)
_TYPES = {"Int": "a whole number", "Float": "a number", "Bool": "true or false", "String": "a text"}
_TOKENS = re.compile(r"[{(\[]|[)}\]]|(\w+)\??:")


def refused_config(message: str) -> str:
    """Return Dagster's reason; of a name that there is not, say which there are instead."""
    reason, _, expected = message.partition(". Expected")
    if scalar := _SCALAR.match(message):
        place, value, kind = scalar.groups()
        return f"{place.replace(':', '.')} is {value!r}: give {_TYPES.get(kind, kind)}"
    found = _UNKNOWN.match(reason)
    if found is None:
        return reason.rstrip(".")
    name, place = found[1], (found[2] or "").replace(":", ".")
    if place == "ops" and name in _only_in_lifecycle():
        return (
            f"the job training does not make {name}, it trains on the data that is there; leave "
            f"{name} out, or run everything with python -m pipelines.lifecycle --run NAME "
            "--config FILE"
        )
    return f"{place or 'it'} has no '{name}', only {', '.join(top_names(expected))}"


def top_names(expected: str) -> list[str]:
    """Return the names of the outermost fields of a type as Dagster prints it."""
    names, depth = [], 0
    for token in _TOKENS.finditer(expected):
        depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(token[0], 0)
        if token[1] and depth == 1:
            names.append(token[1])
    return names


def _only_in_lifecycle() -> set[str]:
    """Return the assets that a whole life makes and a training alone does not."""
    from pipelines.definitions import defs

    graph = defs.resolve_asset_graph()
    found = lifecycle.selection.resolve(graph) - TRAINING.resolve(graph)
    return {key.to_user_string() for key in found}
