"""Suites of Great Expectations: each passes on good rows and fails on rows that deserve it."""

from __future__ import annotations

import json
from typing import Any

import dagster as dg
import pandas as pd
import pytest

from assets.checks.expectations import EXAMPLES, SuiteResult, great_expectations, validate
from assets.checks.suites import (
    check_databases,
    check_databases_resolve,
    check_gold_answers,
    check_gold_runs,
    check_questions,
    check_tidiness,
)
from assets.checks.view import check_result, describe
from assets.reporting.checks import check_agreement, check_published
from assets.training.difficulty import check_prompts as prompts_of
from assets.training.difficulty import check_ratings

QUESTION = {
    "key": "dev/1",
    "db_id": "shop",
    "question": "How many?",
    "evidence": None,
    "sql": "SELECT 1",
    "difficulty": "simple",
    "status": "ok",
    "detail": "",
}
DATABASE = {"split": "dev", "db_id": "shop", "path": "p", "state": "ok", "tables": 2, "rows": 9}
DATABASE |= {"unread": ""}
GOLD = {"key": "dev/1", "db_id": "shop", "status": "ok", "error": "", "row_count": 1, "sql": "s"}
GOLD |= {"seconds": 0.1}
PROMPT = {"key": "train/1", "db_id": "shop", "question": "q?", "solved": 3, "valid": 8}
PROMPT |= {"row_count": 2, "database": "shop.sqlite", "database_found": True}
RATING = {"key": "train/1", "solved": 3, "valid": 8, "kind": "kept"}


def check_prompts(frame: pd.DataFrame) -> SuiteResult:
    return prompts_of(frame, minimum=1)


def rows(base: dict[str, Any], *changes: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([base | {"key": f"dev/{n}"} | change for n, change in enumerate(changes)])


def sentences(outcome: SuiteResult) -> set[str]:
    return {failure.expectation for failure in outcome.failures}


@pytest.mark.parametrize(
    ("suite", "base"),
    [
        (check_questions, QUESTION),
        (check_databases_resolve, QUESTION),
        (check_tidiness, QUESTION),
        (check_databases, DATABASE),
        (check_gold_runs, GOLD),
        (check_gold_answers, GOLD),
    ],
)
def test_good_rows_pass(suite: Any, base: dict[str, Any]) -> None:
    outcome = suite(rows(base, {}, {}))
    assert outcome.success and not outcome.blocks
    assert outcome.checked == 2
    result = check_result("name", outcome)
    assert result.passed and result.description == "All expectations hold for 2 rows."


@pytest.mark.parametrize("column", ["db_id", "question", "sql", "key"])
@pytest.mark.parametrize("empty", [None, ""])
def test_an_empty_field_is_critical(column: str, empty: str | None) -> None:
    outcome = check_questions(rows(QUESTION, {}, {column: empty}))
    assert outcome.blocks
    assert sentences(outcome) == {f"every question has a {column}"}
    assert len(outcome.examples) == 1


def test_a_column_of_nulls_alone_fails() -> None:
    outcome = check_questions(rows(QUESTION, {"sql": None, "difficulty": None}))
    assert outcome.blocks
    assert not check_tidiness(
        rows(QUESTION, {"difficulty": "simple"}, {"difficulty": None})
    ).success


def test_repeated_ids_are_critical_and_repeated_rows_a_warning() -> None:
    repeated = rows(QUESTION, {"key": "dev/7"}, {"key": "dev/7", "status": "duplicate_row"})
    assert check_questions(repeated).success
    tidy = check_tidiness(repeated)
    assert not tidy.success and not tidy.blocks
    taken = rows(QUESTION, {"key": "dev/7"}, {"key": "dev/7", "status": "duplicate_id"})
    outcome = check_questions(taken)
    assert outcome.blocks and sentences(outcome) == {"no two questions share an id"}


@pytest.mark.parametrize(("least", "most"), [(3, 9), (0, 1)])
def test_row_counts_have_bounds(least: int, most: int) -> None:
    outcome = check_questions(rows(QUESTION, {}, {}), least, most)
    assert outcome.blocks
    assert outcome.failures[0].observed == "2"


def test_missing_databases_block_beyond_the_allowed_share() -> None:
    detail = "db_id 'movies_4' has no database; did you mean 'movie_4'?"
    missing = {"db_id": "movies_4", "status": "db_missing", "detail": detail}
    frame = rows(QUESTION, {}, {}, {}, missing)
    assert check_databases_resolve(frame).blocks
    refused = check_databases_resolve(frame, 0.2)
    assert refused.blocks
    said = str(check_result("db_ids_resolve", refused).description)
    assert "(25.00% do not; missing_databases allows 20.00%)" in said
    outcome = check_databases_resolve(frame, 0.25)
    assert not outcome.success and not outcome.blocks
    assert list(outcome.examples["db_id"]) == ["movies_4"]
    assert list(outcome.examples["detail"]) == [detail]
    result = check_result("db_ids_resolve", outcome)
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "1 row" in str(result.description)


@pytest.mark.parametrize(("of", "failing"), [(10, 7), (50, 9), (20, 17), (25, 21), (20, 1)])
def test_the_allowed_share_itself_does_not_block(of: int, failing: int) -> None:
    frame = rows(GOLD, *[{}] * (of - failing), *[{"status": "error"}] * failing)
    assert not check_gold_runs(frame, failing / of).blocks
    assert check_gold_runs(frame, (failing - 0.5) / of).blocks


@pytest.mark.parametrize(
    ("suite", "base", "column"),
    [
        (check_databases_resolve, QUESTION, "status"),
        (check_databases, DATABASE, "state"),
        (check_databases, DATABASE, "tables"),
        (check_gold_runs, GOLD, "status"),
        (check_gold_answers, GOLD, "row_count"),
        (check_gold_answers, GOLD, "seconds"),
        (check_prompts, PROMPT, "key"),
        (check_prompts, PROMPT, "solved"),
        (check_prompts, PROMPT, "valid"),
        (check_prompts, PROMPT, "database_found"),
        (check_prompts, PROMPT, "row_count"),
        (check_ratings, RATING, "kind"),
    ],
)
def test_a_null_is_never_passed_over(suite: Any, base: dict[str, Any], column: str) -> None:
    assert suite(rows(base, {}, {})).success
    outcome = suite(rows(base, {}, {column: None}))
    assert not outcome.success and len(outcome.examples) == 1


ANSWER = {"question": "q", "status": "answered", "share": 0.5, "error": None}
ANSWER |= {"minimum_share": 0.5, "sql": "SELECT 1", "row_count": 1}
REFUSED = {"status": "low_agreement", "sql": None, "row_count": None}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sql": None}, "a published answer has its SQL"),
        ({"sql": ""}, "a published answer has its SQL"),
        ({"row_count": None}, "a published answer has rows"),
        ({"row_count": 0}, "a published answer has rows"),
        ({"share": 0.4}, "a published answer reaches its minimum share"),
        ({"share": None}, "a published answer reaches its minimum share"),
        ({"share": "half"}, "a published answer reaches its minimum share"),
        (REFUSED | {"sql": "SELECT 1"}, "an unpublished answer has neither SQL nor rows"),
        (REFUSED | {"row_count": 2}, "an unpublished answer has neither SQL nor rows"),
    ],
)
def test_only_published_answers_have_sql_and_rows(change: dict[str, Any], sentence: str) -> None:
    assert check_published(rows(ANSWER, {}, REFUSED)).success
    outcome = check_published(rows(ANSWER, {}, change, REFUSED))
    assert outcome.blocks and sentences(outcome) == {sentence}
    assert outcome.failures[0].rows == len(outcome.examples) == 1


def test_the_required_mean_share_is_enough() -> None:
    thrice = rows(ANSWER, *[{"share": 0.7}] * 3)
    assert check_agreement(thrice, 0.7).success
    assert not check_agreement(thrice, 0.71).success


def test_nothing_to_check_is_reported() -> None:
    nothing = check_gold_runs(pd.DataFrame(columns=list(GOLD)))
    assert check_result("name", nothing).description == "Nothing to check."


def test_every_missing_database_is_among_the_examples() -> None:
    names = [*["first"] * (EXAMPLES + 5), "second"]
    missing = [{"db_id": name, "status": "db_missing"} for name in names]
    outcome = check_databases_resolve(rows(QUESTION, *missing))
    assert set(outcome.examples["db_id"]) == {"first", "second"}


def test_hygiene_warns() -> None:
    frame = rows(QUESTION, {"difficulty": "easy"}, {"evidence": "NaN"}, {"evidence": "None of it"})
    outcome = check_tidiness(frame)
    assert not outcome.success and not outcome.blocks
    assert list(outcome.examples["key"]) == ["dev/0", "dev/1"]
    for word in ("<NA>", " n/a", "null", "none "):
        assert not check_tidiness(rows(QUESTION, {"evidence": word})).success
    assert check_tidiness(rows(QUESTION, {"difficulty": None})).success


def test_broken_databases_block_and_empty_ones_warn() -> None:
    broken = {"state": "file is not a database", "tables": 0, "rows": 0}
    assert check_databases(rows(DATABASE, {}, broken)).blocks
    assert check_databases(rows(DATABASE, {"tables": 0, "rows": 0})).blocks
    none = rows(DATABASE).reindex(columns=list(DATABASE))
    for outcome in (check_databases(none), check_databases(rows(DATABASE, {"rows": 0}))):
        assert not outcome.success and not outcome.blocks


@pytest.mark.parametrize(
    "status", ["error", "write", "no_statement", "timeout", "too_large", "infrastructure"]
)
def test_gold_that_does_not_run_blocks_beyond_the_allowed_share(status: str) -> None:
    frame = rows(GOLD, {}, {"status": status, "error": "no such table: Order Details"})
    refused = check_gold_runs(frame)
    assert refused.blocks
    assert "(50.00% do not; failing allows 0.00%)" in describe(refused)
    outcome = check_gold_runs(frame, 0.5)
    assert not outcome.success and not outcome.blocks
    assert list(outcome.examples["error"]) == ["no such table: Order Details"]


def test_whole_numbers_stay_whole_if_one_is_missing() -> None:
    many = {"seconds": 9.0, "row_count": 1_234_567}
    outcome = check_gold_answers(rows(GOLD, many, {"status": "error", "row_count": None}))
    assert "First: dev/0, shop, 9, 1234567, s" in describe(outcome)


def test_gold_without_rows_warns() -> None:
    failed = {"status": "error", "row_count": 0}
    outcome = check_gold_answers(rows(GOLD, {}, {"row_count": 0}, failed))
    assert not outcome.blocks and len(outcome.examples) == 1


def test_metadata_is_bounded() -> None:
    frame = rows(QUESTION, *[{"status": "db_missing", "detail": "long " * 200}] * 50_000)
    outcome = check_databases_resolve(frame)
    assert outcome.failures[0].rows == 50_000
    assert len(outcome.examples) == EXAMPLES
    metadata = check_result("name", outcome).metadata
    records = [record.data for record in metadata["failing rows"].records]
    assert 0 < len(records) <= EXAMPLES
    assert len(json.dumps(records)) < 20_000


def test_an_expectation_that_cannot_be_evaluated_fails_with_its_reason() -> None:
    expectation = great_expectations().expectations.ExpectColumnValuesToNotBeNull(
        column="absent", severity="critical", description="the column absent is filled"
    )
    outcome = validate(rows(QUESTION, {}), [expectation], ("key",))
    assert outcome.blocks
    assert "absent" in outcome.failures[0].observed


def test_text_is_recognised_whatever_pandas_calls_its_type() -> None:
    frame = rows(QUESTION, {}, {})
    for dtype in ("object", "str"):
        typed = frame.astype({"question": dtype, "sql": dtype})
        assert check_questions(typed).success
    outcome = check_questions(frame.assign(question=[1, 2]))
    assert outcome.blocks and sentences(outcome) == {"question is text"}
