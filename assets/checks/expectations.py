"""Run suites of Great Expectations on DataFrames.

A critical expectation that fails stops everything downstream; a warning is shown and counted. The
suites of ingestion are in ``suites.py``, the others beside the assets that they check. Great
Expectations is imported when a suite runs (it takes seconds), with analytics and progress bars off
and without a project on disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import pandas as pd

from text2sql.common.counting import counted
from text2sql.datasets.checks_page import SHOWN_EXAMPLES

EXAMPLES = SHOWN_EXAMPLES
"""The most failing rows that a check keeps of each expectation, and shows in Dagster."""


@dataclass(frozen=True)
class Failure:
    """An expectation that fails: its sentence, and in how many rows (0: the table as a whole)."""

    expectation: str
    critical: bool
    rows: int = 0
    observed: str = ""


@dataclass(frozen=True)
class SuiteResult:
    """The result of a suite: how many rows it checked, what failed and what holds.

    ``examples`` has up to 20 failing rows of each failure, with the shown columns and
    ``failed``, the sentences that a row breaks. ``raw`` has Great Expectations' own results.
    ``what`` names the rows if a check covers more than one table.
    """

    checked: int
    failures: tuple[Failure, ...] = ()
    examples: pd.DataFrame = field(default_factory=pd.DataFrame)
    holding: tuple[str, ...] = ()
    raw: tuple[Any, ...] = field(default=(), repr=False, compare=False)
    what: str = ""

    @property
    def extent(self) -> str:
        """How many rows were checked, in words."""
        return self.what or counted(self.checked, "row")

    @property
    def success(self) -> bool:
        """Whether everything holds, warnings included."""
        return not self.failures

    @property
    def blocks(self) -> bool:
        """Whether something critical fails."""
        return any(failure.critical for failure in self.failures)


def validate(frame: pd.DataFrame, expectations: Sequence[Any], show: Sequence[str]) -> SuiteResult:
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
    failures = tuple(map(_failure, failed))
    sentences = (_failure(single).expectation for single in result.results)
    return SuiteResult(
        len(frame),
        failures,
        _examples(frame, failed, show),
        _holding(sentences, failures),
        (result,),
    )


def merge(results: Iterable[SuiteResult]) -> SuiteResult:
    """Return one result for several, such as one for each split."""
    parts = list(results)
    examples = [part.examples for part in parts if len(part.examples)]
    failures = tuple(failure for part in parts for failure in part.failures)
    return SuiteResult(
        sum(part.checked for part in parts),
        failures,
        pd.concat(examples, ignore_index=True) if examples else pd.DataFrame(),
        _holding((sentence for part in parts for sentence in part.holding), failures),
        tuple(result for part in parts for result in part.raw),
        " and ".join(part.what for part in parts if part.what),
    )


def _holding(sentences: Iterable[str], failures: Iterable[Failure]) -> tuple[str, ...]:
    broken = {failure.expectation for failure in failures}
    return tuple(sentence for sentence in dict.fromkeys(sentences) if sentence not in broken)


def great_expectations() -> Any:
    """Import Great Expectations without its analytics."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations

    return great_expectations


def expect(kind: str, sentence: str, severity: str = "critical", **options: Any) -> Any:
    """Return Great Expectations' ``Expect<kind>``; people read the sentence when it fails."""
    expectation = getattr(great_expectations().expectations, f"Expect{kind}")
    return expectation(description=sentence, severity=severity, **options)


def no_null(column: str, sentence: str, severity: str = "critical") -> Any:
    """Expect a value in every row: all other expectations pass over nulls."""
    return expect("ColumnValuesToNotBeNull", sentence, severity, column=column)


@cache
def _context() -> Any:
    """Return a quiet context in memory, shared by the suites of a process."""
    context = great_expectations().get_context(mode="ephemeral")
    bars = import_module("great_expectations.data_context.types.base").ProgressBarsConfig
    context.variables.progress_bars = bars(globally=False)
    return context


def _failure(single: Any) -> Failure:
    config, result, info = single.expectation_config, single.result, single.exception_info or {}
    # Why an expectation could not be evaluated, such as a missing column.
    nested = [part for part in info.values() if isinstance(part, dict)] or [info]
    problems = [str(one["exception_message"]) for one in nested if one.get("exception_message")]
    return Failure(
        expectation=config.description or config.type,
        critical=str(getattr(config.severity, "value", config.severity)) == "critical",
        rows=int(result.get("unexpected_count") or 0),
        observed=problems[0] if problems else str(result.get("observed_value", "")),
    )


def _examples(frame: pd.DataFrame, failed: Sequence[Any], show: Sequence[str]) -> pd.DataFrame:
    broken: dict[int, list[str]] = {}
    for single in failed:
        for index in single.result.get("partial_unexpected_index_list") or []:
            broken.setdefault(index, []).append(_failure(single).expectation)
    places = sorted(broken)
    rows = frame.loc[places, [name for name in show if name in frame.columns]]
    return rows.assign(failed=["; ".join(dict.fromkeys(broken[index])) for index in places])
