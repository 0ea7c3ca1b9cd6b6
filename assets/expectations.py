"""Run Great Expectations on DataFrames and show the outcome as a Dagster asset check.

A critical expectation that fails stops what follows; a warning is shown and counted. The
suites of ingestion are in ``assets/suites.py``, the others beside the assets that they look at:
``split_checks.py``, ``gold.py``, ``prompt_checks.py``, ``answer_checks.py``. Great Expectations is
imported when a suite runs (it takes seconds), with analytics and progress bars off and without a
project on disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

EXAMPLES = 20
"""Failing rows that a check keeps of each expectation, and shows in Dagster, at most."""

_CELL = 200
_METADATA_BYTES = 16_000


@dataclass(frozen=True)
class Failure:
    """An expectation that does not hold: its sentence, its rows (0: the table as a whole)."""

    expectation: str
    critical: bool
    rows: int = 0
    observed: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a suite found: how many rows it saw, what failed and what holds.

    ``examples`` has up to 20 failing rows of each failure, with the shown columns and
    ``failed``, the sentences that a row breaks. ``raw`` are Great Expectations' own results.
    ``what`` says what the rows are, where a check looks at more than one table.
    """

    checked: int
    failures: tuple[Failure, ...] = ()
    examples: pd.DataFrame = field(default_factory=pd.DataFrame)
    holding: tuple[str, ...] = ()
    raw: tuple[Any, ...] = field(default=(), repr=False, compare=False)
    what: str = ""

    @property
    def extent(self) -> str:
        """How many rows of what were looked at, in words."""
        return self.what or ("1 row" if self.checked == 1 else f"{self.checked:,} rows")

    @property
    def success(self) -> bool:
        """Whether everything holds, warnings included."""
        return not self.failures

    @property
    def blocks(self) -> bool:
        """Whether something critical fails."""
        return any(failure.critical for failure in self.failures)


def validate(frame: pd.DataFrame, expectations: Sequence[Any], show: Sequence[str]) -> Outcome:
    """Run Great Expectations' ``expectations`` on ``frame``; ``show`` names the example columns.

    The expectations need a ``description``: the sentence that people read when they fail.
    """
    frame = frame.reset_index(drop=True)
    batch = _context().data_sources.pandas_default.read_dataframe(frame)
    result = batch.validate(
        great_expectations().ExpectationSuite("suite", expectations=list(expectations)),
        result_format={"result_format": "SUMMARY", "partial_unexpected_count": EXAMPLES},
    )
    failed = [single for single in result.results if not single.success]
    failures = tuple(_failure(single) for single in failed)
    broken = {failure.expectation for failure in failures}
    sentences = [_failure(single).expectation for single in result.results]
    return Outcome(
        len(frame),
        failures,
        _examples(frame, failed, show),
        tuple(sentence for sentence in dict.fromkeys(sentences) if sentence not in broken),
        (result,),
    )


def merge(outcomes: Iterable[Outcome]) -> Outcome:
    """Return one outcome for several, such as one a split."""
    parts = list(outcomes)
    examples = [part.examples for part in parts if len(part.examples)]
    failures = tuple(failure for part in parts for failure in part.failures)
    broken = {failure.expectation for failure in failures}
    holding = dict.fromkeys(sentence for part in parts for sentence in part.holding)
    return Outcome(
        sum(part.checked for part in parts),
        failures,
        pd.concat(examples, ignore_index=True) if examples else pd.DataFrame(),
        tuple(sentence for sentence in holding if sentence not in broken),
        tuple(result for part in parts for result in part.raw),
        " and ".join(part.what for part in parts if part.what),
    )


def great_expectations() -> Any:
    """Import Great Expectations without its analytics."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations

    return great_expectations


@cache
def _context() -> Any:
    """Return a context in memory, quiet, and shared by the suites of a process."""
    context = great_expectations().get_context(mode="ephemeral")
    bars = import_module("great_expectations.data_context.types.base").ProgressBarsConfig
    context.variables.progress_bars = bars(globally=False)
    return context


def _failure(single: Any) -> Failure:
    config, result = single.expectation_config, single.result
    observed = str(result.get("observed_value", ""))
    problem = _exception(single.exception_info or {})
    return Failure(
        expectation=config.description or config.type,
        critical=str(getattr(config.severity, "value", config.severity)) == "critical",
        rows=int(result.get("unexpected_count") or 0),
        observed=problem or observed,
    )


def _exception(info: dict[str, Any]) -> str:
    """Return the message of an expectation that could not be evaluated (a missing column)."""
    nested = [part for part in info.values() if isinstance(part, dict)] or [info]
    messages = [str(part["exception_message"]) for part in nested if part.get("exception_message")]
    return messages[0] if messages else ""


def _examples(frame: pd.DataFrame, failed: Sequence[Any], show: Sequence[str]) -> pd.DataFrame:
    broken: dict[int, list[str]] = {}
    for single in failed:
        for index in single.result.get("partial_unexpected_index_list") or []:
            broken.setdefault(index, []).append(_failure(single).expectation)
    places = sorted(broken)
    rows = frame.loc[places, [name for name in show if name in frame.columns]]
    return rows.assign(failed=["; ".join(dict.fromkeys(broken[index])) for index in places])


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
        return f"{failure.expectation} ({failure.rows:,} {'row' if failure.rows == 1 else 'rows'})"
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
