"""What ``text2sql evaluate --json`` writes: scores, and what they were made from."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from text2sql import __version__
from text2sql.common.files import file_digest
from text2sql.datasets.reading.questions import Record
from text2sql.evaluation.known_issues import Correction, Issue
from text2sql.evaluation.predictions.reading import Predictions
from text2sql.evaluation.predictions.score import PredictionScores
from text2sql.evaluation.rule_scores import DEFINITIONS, RuleScore, score_rules
from text2sql.judge.rules import Values
from text2sql.questions import Question
from text2sql.sandbox import Limits


@dataclass(frozen=True)
class RuleParts:
    """What the other rules give: over all questions, and by difficulty where the file has some."""

    all: Mapping[str, RuleScore]
    by_difficulty: Mapping[str, Mapping[str, RuleScore]]


def listed(
    file: Path | None,
    issues: Mapping[str, Issue] | None,
    corrections: Mapping[str, Correction] | None,
) -> dict[str, Any]:
    """Return a list's sha256, how many of its issues count by kind, and how many are not used.

    ``corrections`` are those of ``issues`` whose question is scored. Nothing without a list.
    """
    if file is None or issues is None or corrections is None:
        return {}
    kinds = Counter(one.issue.kind for one in corrections.values())
    unused = {"not used": len(issues) - len(corrections)}
    return {"sha256": file_digest(file), **kinds, **unused}


def rule_parts(asked: Sequence[Question], values: Values) -> RuleParts:
    """Sum up what each rule gives for each question."""
    keys: dict[str, list[str]] = {}
    for question in asked:
        keys.setdefault(question.difficulty or "unknown", []).append(question.key)
    parts = {
        name: score_rules({key: values[key] for key in part if key in values})
        for name, part in keys.items()
    }
    return RuleParts(score_rules(values), parts if set(parts) - {"unknown"} else {})


def pairing(records: Sequence[Record], sql: Predictions) -> dict[str, Any]:
    """Return how many rows the questions file has, and what of both files does not count."""
    left_out = Counter(one.reason.value for one in records if one.reason is not None)
    return {
        "rows": len(records),
        "left_out": dict(left_out),
        "without_prediction": len(sql.missing),
        "unknown_predictions": len(sql.unknown),
    }


def conditions(limits: Limits) -> dict[str, Any]:
    """Return what else a verdict may depend on: the time limit, SQLite, and this package."""
    return {
        "timeout_seconds": limits.seconds,
        "sqlite_version": sqlite3.sqlite_version,
        "text2sql_version": __version__,
    }


def as_object(
    questions: Path,
    gold: Path | None,
    about: Mapping[str, Any],
    databases: Mapping[str, str],
    scores: PredictionScores,
    rules: RuleParts,
    timed_runs: int | None,
    known_issues: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a result as plain JSON values.

    ``gold`` is the file of gold queries where it is not that of the questions, ``about`` what
    ``pairing`` and ``conditions`` say, ``databases`` are sha256 by db_id.
    """
    found: dict[str, Any] = {"questions_sha256": file_digest(questions)}
    found |= {"gold_sha256": file_digest(gold)} if gold else {}
    found |= {"databases_sha256": dict(databases), **about, **scores.to_dict()}
    if known_issues:
        found["known_issues"] = dict(known_issues)
    if rules.all:
        found["rules"] = {name: _rule(name, rules) for name in rules.all}
    return found | ({"timed_runs": timed_runs} if timed_runs else {})


def _rule(name: str, rules: RuleParts) -> dict[str, Any]:
    parts = {part: _score(of[name]) for part, of in rules.by_difficulty.items() if name in of}
    row = _score(rules.all[name]) | {"definition": DEFINITIONS[name]}
    return row | ({"by_difficulty": parts} if parts else {})


def _score(score: RuleScore) -> dict[str, Any]:
    return {"value": score.value, "interval": [score.low, score.high], "n": score.n}
