"""What must be true of questions, databases and gold results: suites of Great Expectations.

Critical is what would spoil training or scores; a warning is what a person should know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from assets.checks.expectations import SuiteResult, expect, no_null, validate
from text2sql.datasets.gold.flags import SENTENCES
from text2sql.datasets.ingest import repeated_databases, repeated_questions
from text2sql.datasets.reading.layout import SplitLayout
from text2sql.datasets.reading.questions import asked_databases
from text2sql.questions import Question

TRAIN, DEV = "train", "dev"
DIFFICULTIES = ("simple", "moderate", "challenging")
SLOW_SECONDS = 5.0
"""A slower gold query slows down every similar rollout."""

_NO_MATCH = "ColumnValuesToNotMatchRegex"


def check_questions(frame: pd.DataFrame, least: int = 1, most: int = 1_000_000) -> SuiteResult:
    """Check the rows of one split: how many there are, unique ids, and no empty field.

    Rows that merely repeat an earlier one are left to ``check_tidiness``.
    """
    size: dict[str, Any] = {"min_value": least, "max_value": most}
    expectations = [
        expect(
            "TableRowCountToBeBetween", f"the split has {least:,} to {most:,} questions", **size
        ),
        expect("ColumnValuesToBeUnique", "no two questions share an id", column="key"),
    ]
    texts = ("key", "db_id", "question", "sql")
    for column in texts:
        sentence = f"every question has a {column}"
        text: dict[str, Any] = {"column": column, "type_list": ["str"]}
        # A length or a type alone would pass a null.
        expectations += [
            expect("ColumnValuesToBeInTypeList", f"{column} is text", **text),
            no_null(column, sentence),
            expect("ColumnValueLengthsToBeBetween", sentence, column=column, min_value=1),
        ]
    # As objects, values are checked one by one; pandas 2 and 3 name string columns differently.
    distinct = frame[frame["status"] != "duplicate_row"].astype(dict.fromkeys(texts, object))
    return validate(distinct, expectations, (*texts, "detail"))


def check_databases_resolve(frame: pd.DataFrame, allowed: float = 0.0) -> SuiteResult:
    """Check that every db_id has a database; more than the share ``allowed`` is critical.

    One question of each database comes first, so that every missing one is among the examples.
    """
    again = frame["db_id"].duplicated()
    frame = pd.concat([frame[~again], frame[again]])
    sentence = "{} of the questions have their database"
    expectations = _rarely(frame, ["db_missing"], sentence, allowed, "missing_databases")
    return validate(frame, expectations, ("key", "db_id", "detail"))


def check_tidiness(frame: pd.DataFrame) -> SuiteResult:
    """Warn of repeated rows, unknown difficulties, and nulls that were written as words."""
    none, known = (
        "ColumnValuesToNotBeInSet",
        f"every difficulty is one of {', '.join(DIFFICULTIES)}",
    )
    nulls = r"(?i)^\s*(?:nan|none|null|<na>|n/a)\s*$"
    expectations = [
        _warn(none, "status", "no row repeats an earlier one", value_set=["duplicate_row"]),
        _warn(none, "status", "no text holds half a character", value_set=["broken_text"]),
        _warn(_NO_MATCH, "evidence", "no evidence is nan, none, null, <na> or n/a", regex=nulls),
    ]
    if frame["difficulty"].notna().any():
        expectations += [
            no_null("difficulty", "every question has a difficulty, as others have", "warning"),
            _warn("ColumnValuesToBeInSet", "difficulty", known, value_set=list(DIFFICULTIES)),
        ]
    return validate(frame, expectations, ("key", "db_id", "question", "evidence", "difficulty"))


def check_questions_apart(splits: Mapping[str, Iterable[Question]]) -> SuiteResult:
    """Warn of dev questions that are also in train: a model may know them by heart."""
    dev = list(splits.get(DEV, []))
    twins = repeated_questions(splits.get(TRAIN, []), dev)
    rows = [(one.key, one.db_id, one.question, twins.get(one.key, "")) for one in dev]
    shown = ("key", "db_id", "question", "in_train")
    return _none_in_train(pd.DataFrame(rows, columns=shown, dtype=object), "question", shown)


def check_databases(frame: pd.DataFrame) -> SuiteResult:
    """Check that every database opens, is sound, and has tables; warn of one without rows."""
    opens = "every database opens and passes SQLite's quick check"
    has_tables = "every database has a table"
    expectations = [
        expect(
            "TableRowCountToBeBetween", "there is at least one database", "warning", min_value=1
        ),
        expect("ColumnValuesToBeInSet", opens, column="state", value_set=["ok"]),
        no_null("state", opens),
        no_null("tables", has_tables),
        expect("ColumnValuesToBeBetween", has_tables, column="tables", min_value=1),
        _warn("ColumnValuesToBeBetween", "rows", "every database has rows", min_value=1),
        _empty("unread", "every table can be read without the program that made it"),
    ]
    shown = ("split", "db_id", "state", "tables", "rows", "unread", "path")
    return validate(frame, expectations, shown)


def check_databases_same(frame: pd.DataFrame) -> SuiteResult:
    """Warn of databases with other tables or rows than at the last ingestion of their source."""
    expectations = [_empty("changed", "every database has the tables and rows that it had before")]
    return validate(frame, expectations, ("split", "db_id", "changed"))


def check_descriptions(frame: pd.DataFrame) -> SuiteResult:
    """Warn of descriptions that match nothing in the database, or that are ambiguous."""
    expectations = [
        _empty("unmatched", "every description file and column matches the database"),
        _empty("doubts", "every description is in Unicode, and occurs once"),
    ]
    return validate(frame, expectations, ("split", "db_id", "unmatched", "doubts"))


def check_databases_apart(frame: pd.DataFrame, layouts: Mapping[str, SplitLayout]) -> SuiteResult:
    """Warn of dev databases whose content is also in train; rows of ``split, db_id, sha256``.

    Only databases that a split's questions name count: two splits may share a folder of them.
    """
    asked = {
        (split, db_id) for split, layout in layouts.items() for db_id in asked_databases(layout)
    }
    named = [pair in asked for pair in zip(frame["split"], frame["db_id"], strict=True)]
    frame = frame[pd.Series(named, index=frame.index, dtype=bool)]
    digests = {
        split: dict(zip(rows["db_id"], rows["sha256"], strict=True))
        for split, rows in frame.groupby("split")
    }
    twins = repeated_databases(digests.get(TRAIN, {}), digests.get(DEV, {}))
    dev = frame[frame["split"] == DEV]
    dev = dev.assign(in_train=[twins.get(db_id, "") for db_id in dev["db_id"]])
    return _none_in_train(dev, "database", ("db_id", "in_train"))


def check_gold_runs(frame: pd.DataFrame, allowed: float = 0.0) -> SuiteResult:
    """Check that the gold queries are reading statements that run within their limits.

    More failures than the share ``allowed`` are critical: those questions have no usable reward.
    """
    failing = ["error", "write", "no_statement", "timeout", "too_large", "infrastructure"]
    expectations = _rarely(frame, failing, "{} of the gold queries run", allowed, "failing")
    return validate(frame, expectations, ("key", "db_id", "status", "error", "sql"))


def check_gold_answers(frame: pd.DataFrame) -> SuiteResult:
    """Warn of gold queries that return no row, so that many wrong ones match, or are slow."""
    returns = "every gold query that runs returns a row"
    fast = f"every gold query that runs ends within {SLOW_SECONDS:g} s"
    expectations = [
        _warn("ColumnValuesToBeBetween", "row_count", returns, min_value=1),
        no_null("row_count", returns, "warning"),
        _warn("ColumnValuesToBeBetween", "seconds", fast, max_value=SLOW_SECONDS),
        no_null("seconds", fast, "warning"),
    ]
    ran = frame[frame["status"] == "ok"]
    return validate(ran, expectations, ("key", "db_id", "seconds", "row_count", "sql"))


def check_gold_determined(frame: pd.DataFrame) -> SuiteResult:
    """Warn of gold queries whose answer the data does not determine, or that guess at a type."""
    expectations = [
        _warn(_NO_MATCH, "flags", sentence, regex=rf"\b{flag.value}\b")
        for flag, sentence in SENTENCES.items()
    ]
    return validate(frame, expectations, ("key", "db_id", "found", "sql"))


def _warn(kind: str, column: str, sentence: str, **options: Any) -> Any:
    return expect(kind, sentence, "warning", column=column, **options)


def _empty(column: str, sentence: str) -> Any:
    """Warn of any text in a column."""
    return _warn("ColumnValueLengthsToBeBetween", column, sentence, max_value=0)


def _none_in_train(frame: pd.DataFrame, what: str, shown: tuple[str, ...]) -> SuiteResult:
    sentence = f"no {what} of the dev split is also in the train split"
    return validate(frame, [_empty("in_train", sentence)], shown)


def _rarely(
    frame: pd.DataFrame, values: list[str], sentence: str, allowed: float, setting: str
) -> list[Any]:
    """Expect that no row has one of these statuses; critical only beyond the share ``allowed``.

    The sentences name the share found and the ``setting`` that allows more.
    """
    kind = "ColumnValuesToNotBeInSet"
    none: dict[str, Any] = {"column": "status", "value_set": values}
    severity = "warning" if allowed else "critical"
    share = frame["status"].isin(values).mean() if len(frame) else 0.0
    found = f" ({share:.2%} do not; {setting} allows {allowed:.2%})" if share else ""
    expectations = [
        no_null("status", "the status of every row is known"),
        expect(kind, sentence.format("all") + found, severity, **none),
    ]
    if allowed:
        most = sentence.format(f"at least {1 - allowed:.1%}") + found
        # Rounded: 1 - 0.18 is above 0.82, the share of 41 of 50.
        expectations.append(expect(kind, most, mostly=round(1 - allowed, 9), **none))
    return expectations
