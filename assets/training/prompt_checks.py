"""Checks that a policy can learn from the prompts that the difficulty filter keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from assets.checks.expectations import SuiteResult, great_expectations, no_null, validate
from text2sql.common.counting import counted


def check_prompts(frame: pd.DataFrame, minimum: int, least: int = 1, most: int = 7) -> SuiteResult:
    """Check the prompts: one row each, with rating, gold result and ``database_found``."""
    e = great_expectations().expectations
    expectations = [
        e.ExpectTableRowCountToBeBetween(
            min_value=minimum,
            severity="critical",
            description=f"at least {minimum:,} questions are solved sometimes but not always",
        ),
        e.ExpectColumnValuesToBeUnique(
            column="key", severity="critical", description="no prompt occurs twice"
        ),
        no_null("key", "every prompt has a key"),
        *_counted("solved", least, most, f"each is solved {least} to {most} times"),
        e.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="valid",
            column_B="solved",
            severity="critical",
            description="none is always solved",
        ),
        e.ExpectColumnValuesToBeInSet(
            column="database_found",
            value_set=[True],
            severity="critical",
            description="every prompt has its database",
        ),
        no_null("database_found", "every prompt has its database"),
        *_counted("row_count", 1, None, "every prompt has a gold result with rows"),
    ]
    shown = ("key", "db_id", "question", "solved", "valid", "row_count", "database")
    what = counted(len(frame), "kept prompt")
    return replace(validate(frame, expectations, shown), what=what)


def _counted(column: str, least: int, most: int | None, sentence: str) -> list[Any]:
    """Expect a number within bounds, and no nulls: GX skips them."""
    e = great_expectations().expectations
    return [
        no_null(column, sentence),
        e.ExpectColumnValuesToBeBetween(
            column=column,
            min_value=least,
            max_value=most,
            severity="critical",
            description=sentence,
        ),
    ]


def check_ratings(frame: pd.DataFrame) -> SuiteResult:
    """Warn about questions that could not be rated: too many of their rollouts are invalid."""
    sentence = "every question that was asked has enough valid rollouts"
    expectation = great_expectations().expectations.ExpectColumnValuesToNotBeInSet(
        column="kind", value_set=["unknown"], severity="warning", description=sentence
    )
    known = no_null("kind", sentence, "warning")
    outcome = validate(frame, [expectation, known], ("key", "solved", "valid", "kind"))
    what = counted(len(frame), "question that was asked", "questions that were asked")
    return replace(outcome, what=what)
