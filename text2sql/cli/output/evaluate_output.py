"""What ``text2sql evaluate`` prints and writes; its warnings go to standard error."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from text2sql import __version__
from text2sql.common.counting import counted
from text2sql.common.files import file_digest
from text2sql.common.render import neutral
from text2sql.datasets.gold.run import explain_failure
from text2sql.datasets.reading.questions import Reason, Record
from text2sql.evaluation.known_issues import Correction, Issue
from text2sql.evaluation.predictions.reading import Predictions
from text2sql.evaluation.predictions.score import PredictionScores, accuracy, interval
from text2sql.evaluation.predictions.writing import FORMS
from text2sql.evaluation.rule_scores import DEFINITIONS, RuleScore, score_rules
from text2sql.judge.rules import Values
from text2sql.judge.verdicts import Verdict
from text2sql.questions import Question
from text2sql.sandbox import Limits, cut_suffix

_REASONS = {
    Reason.DB_MISSING: "the folder has no such database",
    Reason.EMPTY_FIELD: "question, db_id or gold SQL is empty",
    Reason.DUPLICATE_ROW: "each repeats an earlier row; BIRD's script counts it again",
    Reason.DUPLICATE_ID: "their id belongs to an earlier, other row",
    Reason.BROKEN_TEXT: "a text has half a character, as if cut in the middle",
}

_FAILURES = {
    Verdict.ERROR: ("prediction fails", "predictions fail"),
    Verdict.WRITE: (
        "prediction would change something and is not run",
        "predictions would change something and are not run",
    ),
    Verdict.TIMEOUT: ("prediction times out", "predictions time out"),
    Verdict.TOO_LARGE: ("prediction returns too much", "predictions return too much"),
}
_FENCE = "```"


@dataclass(frozen=True)
class RuleSummary:
    """What the other rules give: over all questions, and by difficulty if the file has some."""

    all: Mapping[str, RuleScore]
    by_difficulty: Mapping[str, Mapping[str, RuleScore]]


def require_forms(
    context: click.Context, parameter: click.Parameter, files: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Refuse an option's prediction file whose ending stands for no form."""
    for file in files:
        if file.suffix.lower() not in FORMS:
            raise click.BadParameter(
                f"{file} must end with .json for BIRD's form, or .sql or .txt for Spider's."
            )
    return files


def issue_counts(
    file: Path | None,
    issues: Mapping[str, Issue] | None,
    corrections: Mapping[str, Correction] | None,
) -> dict[str, Any]:
    """Return a list's sha256, how many of its issues count by kind, and how many are not used.

    ``corrections`` are those of ``issues`` whose question is scored. Empty without a list.
    """
    if file is None or issues is None or corrections is None:
        return {}
    kinds = Counter(one.issue.kind for one in corrections.values())
    unused = {"not used": len(issues) - len(corrections)}
    return {"sha256": file_digest(file), **kinds, **unused}


def summarize_rules(asked: Sequence[Question], values: Values) -> RuleSummary:
    """Sum up each rule's values, over all questions and by difficulty."""
    keys: dict[str, list[str]] = {}
    for question in asked:
        keys.setdefault(question.difficulty or "unknown", []).append(question.key)
    by_difficulty = {
        name: score_rules({key: values[key] for key in found if key in values})
        for name, found in keys.items()
    }
    known = set(by_difficulty) - {"unknown"}
    return RuleSummary(score_rules(values), by_difficulty if known else {})


def pairing(records: Sequence[Record], sql: Predictions) -> dict[str, Any]:
    """Return how many rows the questions file has, and what of both files does not count."""
    left_out = Counter(one.reason.value for one in records if one.reason is not None)
    return {
        "rows": len(records),
        "left_out": dict(left_out),
        "without_prediction": len(sql.missing),
        "unknown_predictions": len(sql.unknown),
    }


def as_object(
    questions: Path,
    gold: Path | None,
    paired: Mapping[str, Any],
    limits: Limits,
    databases: Mapping[str, str],
    scores: PredictionScores,
    rules: RuleSummary,
    timed_runs: int | None,
    known_issues: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what ``--json`` writes: the scores, and everything that they depend on.

    ``gold`` is the file of gold queries if it is not the questions file, ``paired`` is what
    ``pairing`` returns, ``databases`` are sha256 by db_id.
    """
    found: dict[str, Any] = {"questions_sha256": file_digest(questions)}
    found |= {"gold_sha256": file_digest(gold)} if gold else {}
    found |= {
        "databases_sha256": dict(databases),
        **paired,
        "timeout_seconds": limits.seconds,
        "sqlite_version": sqlite3.sqlite_version,
        "text2sql_version": __version__,
        **scores.to_dict(),
    }
    if known_issues:
        found["known_issues"] = dict(known_issues)
    if rules.all:
        found["rules"] = {name: _rule_object(name, rules) for name in rules.all}
    return found | ({"timed_runs": timed_runs} if timed_runs else {})


def _rule_object(name: str, rules: RuleSummary) -> dict[str, Any]:
    def shown(score: RuleScore) -> dict[str, Any]:
        return {"value": score.value, "interval": [score.low, score.high], "n": score.n}

    by_difficulty = {
        difficulty: shown(scores[name])
        for difficulty, scores in rules.by_difficulty.items()
        if name in scores
    }
    row = shown(rules.all[name]) | {"definition": DEFINITIONS[name]}
    return row | ({"by_difficulty": by_difficulty} if by_difficulty else {})


def report(
    records: list[Record], sql: Predictions, scores: PredictionScores, used: Mapping[str, Any]
) -> None:
    """Print on standard error what limits the numbers; ``used`` counts the known issues."""
    _report_left_out(records, sql)
    _report_golds(scores)
    _report_issues(used)
    _report_failures(scores, sql)


def _report_left_out(records: list[Record], sql: Predictions) -> None:
    """Print which questions and predictions do not count, and why."""
    report_unusable(records)
    empty = [key for key, text in sql.items() if not text.strip()]
    for name, keys, words in (
        ("missing", sql.missing, ("question has", "questions have", "no prediction")),
        ("empty", empty, ("prediction holds", "predictions hold", "no SQL")),
        ("unknown", sql.unknown, ("prediction belongs", "predictions belong", "to no question")),
    ):
        if keys:
            first, many = neutral(keys[0]), counted(len(keys), *words[:2])
            click.echo(f"{name}: {many} {words[2]}; the first is {first}", err=True)
    for warning in _doubts(records, sql):
        click.echo(f"warning: {warning}", err=True)


def report_unusable(records: Sequence[Record]) -> None:
    """Print on standard error how many rows of a questions file are left out, and why."""
    first = {r.reason: r for r in reversed(records)}
    for reason, count in Counter(r.reason for r in records if r.reason is not None).items():
        detail = "" if "duplicate" in reason else f": {first[reason].detail}"
        one, why = neutral(f"{first[reason].question.key}{detail}"), _REASONS[reason]
        many = counted(count, "question")
        click.echo(f"left out: {many} ({reason}: {why}); the first is {one}", err=True)


def _doubts(records: list[Record], sql: Predictions) -> Iterator[str]:
    """Yield what suggests that these predictions are not of these questions."""
    asked = [record.question for record in records if record.question.key in sql]
    if sql.no_text:
        many = counted(len(sql.no_text), "prediction is", "predictions are")
        yield (
            f"{many} neither text nor null, counted as not matched; the first has the id "
            f"{neutral(sql.no_text[0])}"
        )
    if sql.elsewhere:
        yield (
            f"{counted(len(sql.elsewhere), 'prediction names', 'predictions name')} another "
            f"database than the question does; the first is of {neutral(sql.elsewhere[0])}: do "
            "they belong to another file, or are they shifted?"
        )
    if sql.missing and sql.missing[0].endswith("/0") and list(sql.unknown) == [str(len(records))]:
        yield "the questions are counted from 0, the predictions from 1: they may be shifted by one"
    if asked[1:] and all(sql[question.key] == cut_suffix(question.sql) for question in asked):
        yield (
            "every prediction is the text of its gold query; if gold and prediction are in one "
            "row, name the prediction predicted_sql"
        )


def _report_golds(scores: PredictionScores) -> None:
    """Warn of gold that makes verdicts less meaningful: it fails, or returns nothing."""
    failing = [gold for gold in scores.golds if gold.failing]
    empty = [gold for gold in scores.golds if gold.empty]
    if failing:
        sql = {item.question.key: item.question.sql for item in scores.scored}
        reason = explain_failure(failing[0], sql.get(failing[0].key, "")) or failing[0].status
        first = neutral(f"{failing[0].key}: {reason}")
        click.echo(
            f"warning: the gold SQL of {counted(len(failing), 'question')} does not run, so "
            f"nothing matches it; the first is {first}",
            err=True,
        )
    if empty:
        click.echo(
            f"warning: the gold SQL of {counted(len(empty), 'question')} returns no row, so any "
            f"query that returns none matches; the first is {neutral(empty[0].key)}",
            err=True,
        )


def _report_issues(used: Mapping[str, Any]) -> None:
    """Print how many known issues count, by kind, and how many are not used."""
    counts = [f"{count} {kind}" for kind, count in used.items() if kind != "sha256" and count]
    if used:
        click.echo(f"known issues: {', '.join(counts) or 'none'}", err=True)


def _report_failures(scores: PredictionScores, sql: Mapping[str, str]) -> None:
    """Print how many queries fail in each way, and how the first of them does."""
    for verdict, words in _FAILURES.items():
        failed = [item for item in scores.scored if item.verdict is verdict]
        if failed:
            first = neutral(f"{failed[0].question.key}: {failed[0].error or verdict}")
            many = counted(len(failed), *words)
            click.echo(f"note: {many}; the first is {first}", err=True)
    fenced = sum(_FENCE in sql.get(item.question.key, "") for item in scores.scored)
    if fenced:
        many = counted(fenced, "prediction has", "predictions have")
        click.echo(
            f"note: {many} a Markdown fence ({_FENCE}), an error to official evaluators too; "
            "remove it",
            err=True,
        )


def print_scores(scores: PredictionScores, paired: Mapping[str, Any], rules: RuleSummary) -> None:
    """Print accuracies, verdicts, what is left out, and what the other rules give."""
    found = scores.to_dict()
    low, high = interval(scores.scored)
    total = f"execution accuracy {_percent(accuracy(scores.scored))} of {_count(found)}"
    click.echo(f"{total} ({scores.rule}; 95 % interval {low:.2%} to {high:.2%})")
    if corrected := found.get("corrected"):
        click.echo(f"{_group('corrected', corrected)} (known issues)")
    for title in ("by_gold", "by_difficulty", "by_database"):
        groups = found.get(title, {})
        for name, group in groups.items() if set(groups) != {"unknown"} else ():
            click.echo(_group(neutral(name), group))
    verdicts = Counter(item.verdict.value for item in scores.scored)
    click.echo("  " + ", ".join(f"{name} {count}" for name, count in verdicts.most_common()))
    if left_out := paired["left_out"]:
        why = ", ".join(f"{reason} {count}" for reason, count in left_out.items())
        click.echo(
            f"  left out {sum(left_out.values())} of {counted(paired['rows'], 'row')}: {why}"
        )
    for name, score in rules.all.items():
        if name != "official":
            click.echo(_rule_line(f"by {name}", score))
            for difficulty, by_rule in rules.by_difficulty.items():
                if name in by_rule:
                    click.echo(_rule_line(f"  {neutral(difficulty)}", by_rule[name]))


def _group(name: str, group: Mapping[str, Any]) -> str:
    """Return a group's line: accuracy, count and 95 % interval."""
    share, interval = _percent(group["execution_accuracy"]), _interval(*group["interval"])
    return f"  {name:<24} {share:>7} of {_count(group)} {interval}"


def _rule_line(name: str, score: RuleScore) -> str:
    interval = _interval(score.low, score.high)
    return f"  {name:<24} {_percent(score.value):>7} of {score.n} {interval}"


def _interval(low: float, high: float) -> str:
    return f"[{low:.2%}, {high:.2%}]"


def _count(group: Mapping[str, Any]) -> str:
    """Say how many questions an accuracy is over."""
    return f"{group['judged']} judged" if "judged" in group else str(group["count"])


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{share:.2%}"
