"""What must be true of questions, databases and gold results: suites of Great Expectations.

Critical is what would spoil training or scores; a warning is what a person should know.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from assets.checks.expectations import Outcome, great_expectations, validate

DIFFICULTIES = ("simple", "moderate", "challenging")
SLOW_SECONDS = 5.0
"""A slower gold query slows every rollout that comes near it."""


def check_questions(frame: pd.DataFrame, least: int = 1, most: int = 1_000_000) -> Outcome:
    """Check the rows of one split: how many there are, unique ids, and no empty field.

    Rows that merely repeat an earlier one are left to ``check_tidiness``.
    """
    e = great_expectations().expectations
    expectations = [
        e.ExpectTableRowCountToBeBetween(
            min_value=least,
            max_value=most,
            severity="critical",
            description=f"the split has {least:,} to {most:,} questions",
        ),
        e.ExpectColumnValuesToBeUnique(
            column="key", severity="critical", description="no two questions share an id"
        ),
    ]
    texts = ("key", "db_id", "question", "sql")
    for column in texts:
        expectations += _filled(column)
    # As objects, values are checked one by one; pandas 2 and 3 name string columns differently.
    distinct = frame[frame["status"] != "duplicate_row"].astype(dict.fromkeys(texts, object))
    return validate(distinct, expectations, ("key", "db_id", "question", "sql", "detail"))


def check_databases_resolve(frame: pd.DataFrame, allowed: float = 0.0) -> Outcome:
    """Check that every db_id has a database; more than the share ``allowed`` is critical.

    Of each database one question comes first, so that every missing one is among the examples.
    """
    again = frame["db_id"].duplicated()
    frame = pd.concat([frame[~again], frame[again]])
    expectations = _none_of(
        "status", ["db_missing"], "{} of the questions have their database", allowed
    )
    return validate(frame, expectations, ("key", "db_id", "detail"))


def check_tidiness(frame: pd.DataFrame) -> Outcome:
    """Warn of repeated rows, unknown difficulties, and nulls that were written as words."""
    e = great_expectations().expectations
    expectations = [
        e.ExpectColumnValuesToNotBeInSet(
            column="status",
            value_set=["duplicate_row"],
            severity="warning",
            description="no row repeats an earlier one",
        ),
        e.ExpectColumnValuesToNotBeInSet(
            column="status",
            value_set=["broken_text"],
            severity="warning",
            description="no text holds half a character",
        ),
        e.ExpectColumnValuesToNotMatchRegex(
            column="evidence",
            regex=r"(?i)^\s*(?:nan|none|null|<na>|n/a)\s*$",
            severity="warning",
            description="no evidence is nan, none, null, <na> or n/a",
        ),
    ]
    if frame["difficulty"].notna().any():
        expectations += _difficulty()
    return validate(frame, expectations, ("key", "db_id", "question", "evidence", "difficulty"))


def check_databases(frame: pd.DataFrame) -> Outcome:
    """Check that every database opens, is sound, and has tables; warn of one without rows."""
    e = great_expectations().expectations
    opens = "every database opens and passes SQLite's quick check"
    has_tables = "every database has a table"
    expectations = [
        e.ExpectTableRowCountToBeBetween(
            min_value=1, severity="critical", description="there is at least one database"
        ),
        e.ExpectColumnValuesToBeInSet(
            column="state",
            value_set=["ok"],
            severity="critical",
            description=opens,
        ),
        no_null("state", opens),
        no_null("tables", has_tables),
        e.ExpectColumnValuesToBeBetween(
            column="tables",
            min_value=1,
            severity="critical",
            description=has_tables,
        ),
        e.ExpectColumnValuesToBeBetween(
            column="rows", min_value=1, severity="warning", description="every database has rows"
        ),
        e.ExpectColumnValueLengthsToBeBetween(
            column="unread",
            max_value=0,
            severity="warning",
            description="every table can be read without the program that made it",
        ),
    ]
    shown = ("split", "db_id", "state", "tables", "rows", "unread", "path")
    return validate(frame, expectations, shown)


def check_descriptions(frame: pd.DataFrame) -> Outcome:
    """Warn of descriptions that the database does not have, or that may be read wrongly."""
    e = great_expectations().expectations
    sentences = {
        "unmatched": "every description file and column is one of the database's",
        "doubts": "every description is in Unicode, and there once",
    }
    expectations = [
        e.ExpectColumnValueLengthsToBeBetween(
            column=column, max_value=0, severity="warning", description=sentence
        )
        for column, sentence in sentences.items()
    ]
    return validate(frame, expectations, ("split", "db_id", *sentences))


def check_gold_runs(frame: pd.DataFrame, allowed: float = 0.0) -> Outcome:
    """Check that the gold queries are reading statements that run within their limits.

    More failing than the share ``allowed`` is critical: those questions have no usable reward.
    """
    failing = ["error", "write", "no_statement", "timeout", "too_large", "infrastructure"]
    expectations = _none_of("status", failing, "{} of the gold queries run", allowed)
    return validate(frame, expectations, ("key", "db_id", "status", "error", "sql"))


def check_gold_answers(frame: pd.DataFrame) -> Outcome:
    """Warn of gold queries that return no row, so that any broken query matches, or are slow."""
    e = great_expectations().expectations
    returns = "every gold query that runs returns a row"
    ends = f"every gold query that runs ends within {SLOW_SECONDS:g} s"
    expectations = [
        e.ExpectColumnValuesToBeBetween(
            column="row_count", min_value=1, severity="warning", description=returns
        ),
        no_null("row_count", returns, "warning"),
        e.ExpectColumnValuesToBeBetween(
            column="seconds", max_value=SLOW_SECONDS, severity="warning", description=ends
        ),
        no_null("seconds", ends, "warning"),
    ]
    ran = frame[frame["status"] == "ok"]
    return validate(ran, expectations, ("key", "db_id", "seconds", "row_count", "sql"))


def _filled(column: str) -> list[Any]:
    """Expect text in a column; a length or a type alone would pass a null."""
    e = great_expectations().expectations
    sentence = f"every question has a {column}"
    return [
        e.ExpectColumnValuesToBeInTypeList(
            column=column, type_list=["str"], severity="critical", description=f"{column} is text"
        ),
        e.ExpectColumnValuesToNotBeNull(column=column, severity="critical", description=sentence),
        e.ExpectColumnValueLengthsToBeBetween(
            column=column, min_value=1, severity="critical", description=sentence
        ),
    ]


def _none_of(column: str, values: list[str], sentence: str, allowed: float) -> list[Any]:
    """Expect that no row has one of ``values``; critical only beyond the share ``allowed``."""
    expectation = great_expectations().expectations.ExpectColumnValuesToNotBeInSet
    known = no_null(column, f"the {column} of every row is known")
    strict = expectation(
        column=column,
        value_set=values,
        severity="warning" if allowed else "critical",
        description=sentence.format("all"),
    )
    if not allowed:
        return [known, strict]
    bound = expectation(
        column=column,
        value_set=values,
        mostly=round(1 - allowed, 9),  # 1 - 0.18 is above 0.82, which 41 of 50 are
        severity="critical",
        description=sentence.format(f"at least {1 - allowed:.1%}"),
    )
    return [known, strict, bound]


def no_null(column: str, sentence: str, severity: str = "critical") -> Any:
    """Expect a value in every row: all other expectations pass over nulls."""
    expectation = great_expectations().expectations.ExpectColumnValuesToNotBeNull
    return expectation(column=column, severity=severity, description=sentence)


def _difficulty() -> list[Any]:
    e = great_expectations().expectations
    sentence = f"every difficulty is one of {', '.join(DIFFICULTIES)}"
    return [
        e.ExpectColumnValuesToNotBeNull(
            column="difficulty",
            severity="warning",
            description="every question has a difficulty, as others have",
        ),
        e.ExpectColumnValuesToBeInSet(
            column="difficulty",
            value_set=list(DIFFICULTIES),
            severity="warning",
            description=sentence,
        ),
    ]
