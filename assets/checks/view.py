"""What Dagster shows of a suite's outcome: a sentence, what fails, and a few failing rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

from assets.checks.expectations import EXAMPLES, Failure, Outcome
from text2sql.common.counting import counted

_CELL = 200
_METADATA_BYTES = 16_000


def some_of_each(outcome: Outcome) -> pd.DataFrame:
    """Return up to 20 failing rows in which every failure has its share."""
    rows = outcome.examples
    if len(rows) <= EXAMPLES:
        return rows
    share = max(1, EXAMPLES // max(1, rows["failed"].nunique()))
    return rows.groupby("failed", sort=False).head(share).head(EXAMPLES)


def check_result(
    name: str,
    outcome: Outcome,
    asset: dg.AssetKey | str | None = None,
    page: Path | None = None,
) -> dg.AssetCheckResult:
    """Turn an outcome into Dagster's result: a sentence, the failures and examples, under 20 KB.

    ``page`` is where more of it can be read. Severity ERROR (which blocks where the check is
    blocking) when something critical fails.
    """
    severity = dg.AssetCheckSeverity.ERROR if outcome.blocks else dg.AssetCheckSeverity.WARN
    metadata: dict[str, Any] = {"rows checked": outcome.what or outcome.checked}
    if outcome.failures:
        metadata["failures"] = dg.MetadataValue.table([_record(f) for f in outcome.failures])
    if len(outcome.examples):
        metadata["failing rows"] = table(some_of_each(outcome))
    if page is not None:
        metadata["page"] = dg.MetadataValue.path(page)
    return dg.AssetCheckResult(
        check_name=name,
        asset_key=asset,
        passed=outcome.success,
        severity=severity,
        description=describe(outcome),
        metadata=metadata,
    )


def describe(outcome: Outcome) -> str:
    """Say what does not hold, for how many rows, and what the first of them is."""
    if outcome.success:
        nothing = not outcome.checked and not outcome.what
        told = f"All expectations hold for {outcome.extent}."
        return "There was nothing to check." if nothing else told
    text = "Not so: " + "; ".join(_sentence(failure) for failure in outcome.failures) + "."
    if not len(outcome.examples):
        return text
    first = outcome.examples.drop(columns="failed").iloc[0]
    cells = [cell_text(value) for value in first if cell_text(value)]
    return f"{text} First: {', '.join(cells)}"


def _sentence(failure: Failure) -> str:
    if failure.rows:
        return f"{failure.expectation} ({counted(failure.rows, 'row')})"
    seen = f" ({failure.observed})" if failure.observed else ""
    return f"{failure.expectation}{seen}"


def _record(failure: Failure) -> dg.TableRecord:
    return dg.TableRecord(
        {
            "expected": failure.expectation[:_CELL],
            "severity": "critical" if failure.critical else "warning",
            "failing rows": failure.rows,
            "observed": failure.observed[:_CELL],
        }
    )


def table(frame: pd.DataFrame) -> dg.TableMetadataValue:
    """Show the first rows of a frame as Dagster's table: at most 20, cells and size bounded."""
    cells = [
        {str(name): cell_text(value) for name, value in row.items()}
        for row in frame.head(EXAMPLES).to_dict("records")
    ]
    while len(cells) > 1 and len(json.dumps(cells)) > _METADATA_BYTES:
        cells.pop()
    columns = [dg.TableColumn(str(name), "string") for name in frame.columns]
    schema = dg.TableSchema(columns=columns)
    return dg.MetadataValue.table([dg.TableRecord(row) for row in cells], schema=schema)


def cell_text(value: Any, most: int = _CELL) -> str:
    """Return a cell's text, at most so long; pandas 3's text columns keep a null as a float."""
    if value is None or value is pd.NA or value != value:
        return ""
    if isinstance(value, float):  # pandas makes whole numbers floats where one is missing
        value = int(value) if value.is_integer() and abs(value) < 1e15 else format(value, ".6g")
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}… [{len(text):,} characters]"
