"""The reference of what can be set in Dagster's launchpad: configs of assets, and resources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pipelines.definitions import defs


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
        if not isinstance(definition, dg.AssetsDefinition) or not definition.is_executable:
            continue
        compute = getattr(definition.op, "compute_fn", None)
        function = getattr(compute, "decorated_fn", None)
        hints = getattr(function, "__annotations__", {})
        model = hints.get("config")
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield definition.op.name, model


def _model(model: type[BaseModel]) -> list[str]:
    """Return what a model is, and a table of its fields."""
    lines = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    lines += [_row(name, field) for name, field in model.model_fields.items()]
    about = (model.__doc__ or "").strip().partition("\n\n")[0]
    return [" ".join(about.split()), "\n".join(lines)]


def _row(name: str, field: FieldInfo) -> str:
    cells = (f"`{name}`", _type(field), _default(field), field.description or "")
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _type(field: FieldInfo) -> str:
    bounds = ", ".join(str(bound) for bound in field.metadata if _is_bound(bound))
    shown = getattr(field.annotation, "__name__", None) or str(field.annotation)
    if "[" in str(field.annotation):
        shown = str(field.annotation)
    return f"{shown.replace('typing.', '')} {_short(bounds)}".strip()


def _is_bound(value: Any) -> bool:
    return type(value).__name__ in ("Ge", "Gt", "Le", "Lt", "MinLen", "MaxLen")


def _short(bounds: str) -> str:
    for name, sign in (("Ge(ge=", "≥ "), ("Gt(gt=", "> "), ("Le(le=", "≤ "), ("Lt(lt=", "< ")):
        bounds = bounds.replace(name, sign)
    return bounds.replace(")", "")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return f"`{value!r}`" if not isinstance(value, BaseModel) else f"`{value.model_dump()}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
