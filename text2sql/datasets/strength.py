"""Reward strength of an ingested dataset: stored rows, measured once for the same data and code."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from importlib.metadata import version as installed
from pathlib import Path
from statistics import fmean
from typing import Any

from text2sql.common.json_files import read_if_there, read_rows, write_json
from text2sql.common.provenance import fingerprint
from text2sql.datasets.stored import (
    Dataset,
    dataset_folder,
    load_all_golds,
    load_current,
    load_questions,
    split_folder,
    write_by_split,
)
from text2sql.errors import Text2SqlError
from text2sql.judge.known_results import KnownResults
from text2sql.judge.strength.changes import Kind
from text2sql.judge.strength.measure import NearMissOutcome, Strength, measure_strength
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox

STRENGTH, STATE, NEAR_MISSES = "strength.jsonl", "strength.json", "strength.parquet"
NEAR_MISS_COLUMNS = ["key", "db_id", "kind", "outcome", "change", "sql", "detail"]
WEAKEST = ["key", "db_id", "strength", "survived", "returns the same", "sql"]
UNSCORED = ["reason", "questions", "first"]
_PROGRESS_EVERY = 1_000


def current_strength(
    root: Path,
    dataset: Dataset,
    limits: Limits,
    code: str,
    open_sandbox: Callable[[], Sandbox],
    open_known: Callable[[], KnownResults],
    say: Callable[[str], None],
) -> list[Strength]:
    """Return the strength of every usable question, as stored for the same data and ``code``.

    Otherwise it is measured and stored; both ``open_`` are called only then. The known results
    are those of near-misses that an earlier run has run.
    """
    golds = load_all_golds(root, dataset) or {}
    version = fingerprint(
        data=dataset.fingerprint,
        golds=[[gold.key, gold.status, gold.digest] for gold in golds.values()],
        config={"seconds": limits.seconds},
        code=code,
        sqlite=sqlite3.sqlite_version,
        sqlglot=installed("sqlglot"),
    )
    state = dataset_folder(root, dataset) / STATE
    if read_if_there(state).get("version") == version:
        say("Reused the reward strength of an earlier run: nothing has changed.")
        files = [split_folder(root, dataset, split) / STRENGTH for split in dataset.splits]
        return [Strength.from_dict(row) for file in files for row in read_rows(file)]

    def report(done: int, of: int) -> None:
        if done == of or done % _PROGRESS_EVERY == 0:
            say(f"The near-misses of {done:,} of {of:,} gold queries have run.")

    questions = [q for split in dataset.splits for q in load_questions(root, split, dataset)]
    with closing(open_known()) as known, open_sandbox() as sandbox:
        found = list(measure_strength(questions, golds, sandbox, limits, known, report))
    write_by_split(root, dataset, STRENGTH, [one.to_dict() for one in found])
    # Without a version the next run measures again: an infrastructure failure is no result.
    retry = any(one.retry for one in found)
    write_json(state, {"version": "" if retry else version})
    return found


def near_miss_rows(
    questions: Iterable[Question], found: Iterable[Strength]
) -> Iterator[tuple[str, ...]]:
    """Yield a row for each near-miss, with ``NEAR_MISS_COLUMNS``."""
    databases = {question.key: question.db_id for question in questions}
    for one in found:
        for tried in one.tried:
            about = (tried.kind, str(tried.outcome), tried.change, tried.sql, tried.detail)
            yield one.key, databases[one.key], *about


def database_means(
    questions: Iterable[Question], scores: Mapping[str, float]
) -> dict[str, tuple[float, int]]:
    """Return mean strength and number of scored questions by database, the weakest first."""
    by_database: dict[str, list[float]] = defaultdict(list)
    for question in questions:
        if question.key in scores:
            by_database[question.db_id].append(scores[question.key])
    means = {name: (fmean(values), len(values)) for name, values in by_database.items()}
    return dict(sorted(means.items(), key=lambda item: item[1][0]))


def outcomes_by_kind(found: Iterable[Strength]) -> list[dict[str, Any]]:
    """Return how many near-misses of each kind had each outcome."""
    counts = Counter((tried.kind, tried.outcome) for one in found for tried in one.tried)
    return [
        {"kind": kind.value}
        | {out.value.replace("_", " "): counts[kind.value, out] for out in NearMissOutcome}
        for kind in Kind
    ]


def weakest(
    questions: Iterable[Question], found: Iterable[Strength], most: int
) -> list[tuple[Any, ...]]:
    """Return the questions with the lowest scores, with ``WEAKEST`` as columns."""
    asked = {question.key: question for question in questions}
    survived = NearMissOutcome.SURVIVED
    scored = [(one.score, one) for one in found if one.score is not None and one.score < 1]
    scored.sort(key=lambda item: (item[0], -item[1].count(survived)))
    return [
        (
            one.key,
            asked[one.key].db_id,
            f"{score:.2f}",
            one.count(survived),
            "; ".join(tried.change for tried in one.tried if tried.outcome is survived),
            asked[one.key].sql,
        )
        for score, one in scored[:most]
    ]


def unscored(found: Iterable[Strength]) -> list[tuple[str, int, str]]:
    """Return why questions have no score, with ``UNSCORED`` as columns."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for one in found:
        if one.score is None:
            reasons[one.reason].append(one.key)
    by_count = sorted(reasons.items(), key=lambda item: -len(item[1]))
    return [(reason, len(keys), ", ".join(keys[:5])) for reason, keys in by_count]


def load_strength(root: Path, split: str) -> dict[str, float | None]:
    """Return reward strength by key, None for one without a score; empty if it was not measured."""
    file = split_folder(root, load_current(root), split) / STRENGTH
    return {row["key"]: row["score"] for row in read_rows(file)} if file.is_file() else {}


def require_strength(root: Path, split: str) -> dict[str, float | None]:
    """Return the reward strength of a split's questions; raise if it was not measured."""
    found = load_strength(root, split)
    if not found:
        raise Text2SqlError(
            f"The reward strength of the {split} questions was not measured: materialize "
            "reward_strength first, or set minimum_strength to 0."
        )
    return found
