"""Pictures and tables for the metadata that Dagster shows."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from text2sql.common.charts import Chart
from text2sql.common.files import write_whole

LIMIT = 48_000
"""Bytes of a picture that metadata may hold; a larger one is shown by its path."""


def plot(path: Path, chart: Chart, limit: int = LIMIT) -> dg.MetadataValue:
    """Draw a chart as PNG into ``path`` and return metadata that shows it."""
    picture = chart.png()
    write_whole(path, picture)
    text = base64.b64encode(picture).decode()
    if len(text) > limit:
        return dg.MetadataValue.path(path)
    return dg.MetadataValue.md(f"![{path.stem}](data:image/png;base64,{text})")


def records(rows: Sequence[dict[str, Any]]) -> dg.MetadataValue:
    """Return rows of equal keys as a table."""
    if not rows:
        return dg.MetadataValue.text("nothing")
    kinds = {int: "int", float: "float"}
    columns = [
        dg.TableColumn(name, kinds.get(type(value), "string")) for name, value in rows[0].items()
    ]
    return dg.MetadataValue.table(
        [dg.TableRecord(row) for row in rows], schema=dg.TableSchema(columns=columns)
    )
