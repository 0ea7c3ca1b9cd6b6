"""The reference of what can be set in Dagster's launchpad: configs of assets, and resources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import dagster as dg
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pipelines.definitions import defs
from resources.forms import accepted


def page() -> str:
    """Return the page: a section for each asset that has a config, and for each resource."""
    parts = [
        "# Settings",
        "What can be set in the launchpad or in a file of run config (`-c FILE`): of assets under "
        "`ops: {asset: {config: …}}`, of resources under `resources: {name: {config: …}}`. Bounds "
        "are checked before a run starts.",
        "## Assets",
    ]
    for name, model in sorted(asset_configs()):
        parts += [f"### {name}", *_model(model)]
    parts.append("## Resources")
    for name, resource in sorted((defs.resources or {}).items()):
        if isinstance(resource, dg.ConfigurableResource):
            parts += [f"### {name}", *_model(type(resource))]
    return "\n\n".join(parts) + "\n"


def asset_configs() -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the name and the config class of each asset that has one."""
    for definition in defs.assets or ():
        if isinstance(definition, dg.AssetsDefinition):
            for op in _ops(definition.node_def):
                if model := _config_of(op):
                    yield definition.node_def.name, model


def _ops(node: dg.NodeDefinition) -> list[dg.OpDefinition]:
    """Return what an asset runs; a graph hands its config to the first step of it."""
    if isinstance(node, dg.GraphDefinition):
        return [op for inner in node.nodes for op in _ops(inner.definition)]
    return [node] if isinstance(node, dg.OpDefinition) else []


def _config_of(op: dg.OpDefinition) -> type[BaseModel] | None:
    function = getattr(op.compute_fn, "decorated_fn", None)
    model = get_type_hints(function).get("config") if function else None
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def _model(model: type[BaseModel]) -> list[str]:
    """Return a model's description, a table of its fields, and the models in these."""
    lines = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    lines += [_row(name, field) for name, field in model.model_fields.items()]
    about = (model.__doc__ or "").strip().partition("\n\n")[0]
    parts = [" ".join(about.split()), "\n".join(lines)]
    for name, field in model.model_fields.items():
        for inner in _models_in(field.annotation):
            parts += [f"**`{name}`** as {inner.__name__}:", *_model(inner)]
    return parts


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _row(name: str, field: FieldInfo) -> str:
    cells = (f"`{name}`", _type(field), _default(field), _meaning(field))
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _type(field: FieldInfo) -> str:
    """Return a field's type without module names."""
    kind = field.annotation
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__
    return _unqualified(str(kind))


def _meaning(field: FieldInfo) -> str:
    """Return a field's description, which ends with its bounds in a form and here in any model."""
    description, bounds = field.description or "", accepted(field)
    return f"{description} ({bounds})" if bounds and bounds not in description else description


def _unqualified(text: str) -> str:
    """Return the text of a type without module names."""
    return re.sub(r"(?:\w+\.)+(\w+)", r"\1", text).replace("NoneType", "None")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return type(value).__name__ if isinstance(value, BaseModel) else f"`{value!r}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
