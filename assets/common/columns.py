"""Column schemas of assets for Dagster, and the teams that own assets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    import sqlalchemy as sa

DATA_TEAM, MODEL_TEAM, REPORTING_TEAM = ["team:data"], ["team:models"], ["team:reporting"]


def named_columns(*named: tuple[str, str, str]) -> dict[str, Any]:
    """Return metadata with columns of a name, a type and a description."""
    return _metadata(dg.TableColumn(name, kind, about) for name, kind, about in named)


def columns_of(record: type, **before: str) -> dict[str, Any]:
    """Return metadata with the fields of a dataclass as columns, after those in ``before``."""
    first = [dg.TableColumn(name, kind) for name, kind in before.items()]
    # Types are text as the source writes them: modules with records postpone annotations.
    rest = [dg.TableColumn(field.name, str(field.type)) for field in fields(record)]
    return _metadata([*first, *rest])


def columns_of_table(table: sa.Table) -> dict[str, Any]:
    """Return metadata with the columns of a reporting table."""
    return _metadata(
        dg.TableColumn(
            column.name,
            str(column.type).lower(),
            constraints=dg.TableColumnConstraints(nullable=bool(column.nullable)),
        )
        for column in table.columns
    )


def _metadata(found: Iterable[dg.TableColumn]) -> dict[str, Any]:
    return {"dagster/column_schema": dg.TableSchema(columns=list(found))}
