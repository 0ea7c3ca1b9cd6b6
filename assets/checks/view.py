"""What Dagster shows of a suite's result: a sentence, what fails, and a few failing rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

from assets.checks.expectations import EXAMPLES, SuiteResult
from text2sql.common.counting import counted

_CELL = 200
_METADATA_BYTES = 16_000


def check_result(
    name: str,
    result: SuiteResult,
    asset: dg.AssetKey | str | None = None,
    page: Path | None = None,
) -> dg.AssetCheckResult:
    """Return a suite's result as Dagster's: a sentence, the failures and examples, under 20 KB.

    ``page`` is the page with more of it. The severity is ERROR, which stops the run if the check
    is blocking, when something critical fails.
    """
    severity = dg.AssetCheckSeverity.ERROR if result.blocks else dg.AssetCheckSeverity.WARN
    metadata: dict[str, Any] = {"rows checked": result.what or result.checked}
    if result.failures:
        records = [
            {
                "expected": failure.expectation[:_CELL],
                "severity": "critical" if failure.critical else "warning",
                "failing rows": failure.rows,
                "observed": failure.observed[:_CELL],
            }
            for failure in result.failures
        ]
        metadata["failures"] = dg.MetadataValue.table([dg.TableRecord(one) for one in records])
    if len(rows := result.examples):
        # Up to 20 failing rows, with some of every failure.
        share = EXAMPLES // max(1, rows["failed"].nunique()) if len(rows) > EXAMPLES else EXAMPLES
        some = rows.groupby("failed", sort=False).head(max(1, share))
        metadata["failing rows"] = table(some)
    if page is not None:
        metadata["page"] = dg.MetadataValue.path(page)
    return dg.AssetCheckResult(
        check_name=name,
        asset_key=asset,
        passed=result.success,
        severity=severity,
        description=describe(result),
        metadata=metadata,
    )


def describe(result: SuiteResult) -> str:
    """Return in words which expectations fail, in how many rows, and the first of these."""
    if result.success:
        nothing = not result.checked and not result.what
        return "Nothing to check." if nothing else f"All expectations hold for {result.extent}."
    sentences = []
    for failure in result.failures:
        seen = counted(failure.rows, "row") if failure.rows else failure.observed
        sentences.append(f"{failure.expectation} ({seen})" if seen else failure.expectation)
    text = f"Failed: {'; '.join(sentences)}."
    if not len(result.examples):
        return text
    cells = map(cell_text, result.examples.drop(columns="failed").iloc[0])
    return f"{text} First: {', '.join(filter(None, cells))}"


def table(frame: pd.DataFrame) -> dg.TableMetadataValue:
    """Return the first 20 rows of a frame as Dagster's table, with bounded cells and size."""
    cells = [
        {str(name): cell_text(value) for name, value in row.items()}
        for row in frame.head(EXAMPLES).to_dict("records")
    ]
    while len(cells) > 1 and len(json.dumps(cells)) > _METADATA_BYTES:
        cells.pop()
    schema = dg.TableSchema([dg.TableColumn(str(name), "string") for name in frame.columns])
    return dg.MetadataValue.table([dg.TableRecord(row) for row in cells], schema=schema)


def cell_text(value: Any, most: int = _CELL) -> str:
    """Return a cell's text, at most ``most`` characters."""
    if value is None or value is pd.NA or value != value:  # pandas 3 keeps a null as NaN in text
        return ""
    if isinstance(value, float):  # pandas makes whole numbers floats where one is missing
        value = int(value) if value.is_integer() and abs(value) < 1e15 else format(value, ".6g")
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}… [{len(text):,} characters]"
