"""What is wrong with a run config, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from pipelines.jobs import TRAINING, lifecycle
from text2sql.errors import Text2SqlError

_TYPES = {"Int": "a whole number", "Float": "a number", "Bool": "true or false", "String": "a text"}


def check_run_config(job: dg.JobDefinition, config: Mapping[str, Any]) -> None:
    """Raise Text2SqlError with one sentence if a job does not take this run config."""
    try:
        dg.validate_run_config(job, dict(config))
    except dg.DagsterInvalidConfigError as error:
        reason = _reason(job, error.errors[0])
        raise Text2SqlError(f"The run config is wrong: {reason}.") from error


def _reason(job: dg.JobDefinition, error: Any) -> str:
    """Describe the first error that Dagster found, by its kind and its place in the config."""
    path = [str(getattr(entry, "field_name", "")) for entry in error.stack.entries]
    place = ".".join(filter(None, path))
    if error.reason.value == "FIELD_NOT_DEFINED":
        name = error.error_data.field_name
        if path == ["ops"] and job.name == "training" and name in _only_in_lifecycle():
            return (
                f"the job training does not make {name}, it trains on the data that exists; leave "
                f"{name} out, or run everything with python -m pipelines.lifecycle --run NAME "
                "--config FILE"
            )
        known = _known(job, path)
        return f"{place or 'it'} has no '{name}'" + (f", only {', '.join(known)}" if known else "")
    kind = getattr(getattr(error.error_data, "config_type_snap", None), "given_name", None)
    if error.reason.value == "RUNTIME_TYPE_MISMATCH" and place:
        given = error.error_data.value_rep
        return f"{place} is {given}: give {_TYPES.get(str(kind), 'a mapping')}"
    return str(error.message.partition("\n")[0].rstrip("."))


def _known(job: dg.JobDefinition, path: list[str]) -> list[str]:
    """Return the names that a run config may have at a place, as far as the job says."""
    nodes = {node.name: node.definition for node in job.nodes}
    if path == ["ops"]:
        return sorted(name for name, node in nodes.items() if _fields(node))
    if len(path) == 3 and path[0] == "ops" and path[2] == "config" and path[1] in nodes:
        return sorted(_fields(nodes[path[1]]))
    return ["execution", "loggers", "ops", "resources"] if not path else []


def _fields(node: Any) -> Mapping[str, Any]:
    """Return the config fields of an op, or of a graph that maps its own config."""
    owner = node.config_mapping if isinstance(node, dg.GraphDefinition) else node
    schema = owner.config_schema.config_type if owner and owner.config_schema else None
    return getattr(schema, "fields", {})


def _only_in_lifecycle() -> set[str]:
    """Return the assets that the job lifecycle makes and the job training does not."""
    from pipelines.definitions import defs

    graph = defs.resolve_asset_graph()
    found = lifecycle.selection.resolve(graph) - TRAINING.resolve(graph)
    return {key.to_user_string() for key in found}
