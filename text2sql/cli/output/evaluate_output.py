"""What ``text2sql evaluate`` tells people; its warnings go to standard error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from text2sql.common.counting import counted
from text2sql.common.render import neutral
from text2sql.datasets.gold.dialects import told
from text2sql.datasets.reading.bird import Reason, Record
from text2sql.evaluation.predictions.reading import Predictions
from text2sql.evaluation.predictions.score import PredictionScores, accuracy
from text2sql.evaluation.rule_scores import RuleScore
from text2sql.judge.verdicts import Verdict
from text2sql.sandbox import cut_suffix

_REASONS = {
    Reason.DB_MISSING: "the folder has no database of theirs",
    Reason.EMPTY_FIELD: "question, db_id or gold SQL is empty",
    Reason.DUPLICATE_ROW: "each repeats an earlier row; BIRD's script counts it again",
    Reason.DUPLICATE_ID: "their id belongs to an earlier, other row",
    Reason.BROKEN_TEXT: "a text has half a character, as one cut in the middle has",
}

_FAILURES = {
    Verdict.ERROR: ("prediction fails", "predictions fail"),
    Verdict.WRITE: (
        "prediction would change something and is not run",
        "predictions would change something and are not run",
    ),
    Verdict.TIMEOUT: ("prediction takes too long", "predictions take too long"),
    Verdict.TOO_LARGE: ("prediction returns too much", "predictions return too much"),
}
_FENCE = "```"


def report(
    records: list[Record], sql: Predictions, scores: PredictionScores, used: Mapping[str, Any]
) -> None:
    """Say on standard error what has to be known of the numbers; ``used`` are known issues."""
    _report_left_out(records, sql)
    _report_golds(scores)
    _report_issues(used)
    _report_failures(scores, sql)


def _report_left_out(records: list[Record], sql: Predictions) -> None:
    """Say which questions and predictions do not count, and why."""
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
    """Say on standard error how many rows of a questions file are left out, and why."""
    first = {r.reason: r for r in reversed(records)}
    for reason, count in Counter(r.reason for r in records if r.reason is not None).items():
        detail = "" if "duplicate" in reason else f": {first[reason].detail}"
        one, why = neutral(f"{first[reason].question.key}{detail}"), _REASONS[reason]
        many = counted(count, "question")
        click.echo(f"left out: {many} ({reason}: {why}); the first is {one}", err=True)


def _doubts(records: list[Record], sql: Predictions) -> Iterator[str]:
    """Say what makes it doubtful that these are predictions of these questions."""
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
            f"database than the question does; the first is of {neutral(sql.elsewhere[0])}: are "
            "they of another file, or shifted?"
        )
    if sql.missing and sql.missing[0].endswith("/0") and list(sql.unknown) == [str(len(records))]:
        yield "the questions are counted from 0, the predictions from 1: they may be shifted by one"
    if asked[1:] and all(sql[question.key] == cut_suffix(question.sql) for question in asked):
        yield (
            "every prediction is the text of its gold query; where gold and prediction stand in "
            "one row, name the prediction predicted_sql"
        )


def _report_golds(scores: PredictionScores) -> None:
    """Warn of gold that makes a verdict say little: it fails, or returns nothing."""
    failing = [gold for gold in scores.golds if gold.failing]
    empty = [gold for gold in scores.golds if gold.empty]
    if failing:
        sql = {item.question.key: item.question.sql for item in scores.scored}
        reason = told(failing[0], sql.get(failing[0].key, "")) or failing[0].status
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
    """Say on standard error how many of the known issues count, by kind, and how many do not."""
    counts = [f"{count} {kind}" for kind, count in used.items() if kind != "sha256" and count]
    if used:
        click.echo(f"known issues: {', '.join(counts) or 'none'}", err=True)


def _report_failures(scores: PredictionScores, sql: Mapping[str, str]) -> None:
    """Say on standard error how the first of the queries that fail, in each way, does so."""
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
            f"note: {many} a Markdown fence ({_FENCE}), an error to official evaluators too; take "
            "the query out of it",
            err=True,
        )


def print_scores(scores: PredictionScores, paired: Mapping[str, Any]) -> None:
    """Print accuracies and verdicts, and how many rows of the questions file are left out."""
    found = scores.to_dict()
    total = _percent(accuracy(scores.scored))
    low, high = scores.interval
    sure = f"95 % interval {low:.2%} to {high:.2%}"
    click.echo(f"execution accuracy {total} of {_count(found)} ({scores.rule}; {sure})")
    if corrected := found.get("corrected"):
        click.echo(f"{_part('corrected', corrected)} (known issues)")
    for title in ("by_gold", "by_difficulty", "by_database"):
        parts = found.get(title, {})
        for name, part in parts.items() if set(parts) != {"unknown"} else ():
            click.echo(_part(neutral(name), part))
    verdicts = Counter(item.verdict.value for item in scores.scored)
    click.echo("  " + ", ".join(f"{name} {count}" for name, count in verdicts.most_common()))
    if left_out := paired["left_out"]:
        why = ", ".join(f"{reason} {count}" for reason, count in left_out.items())
        click.echo(
            f"  left out {sum(left_out.values())} of {counted(paired['rows'], 'row')}: {why}"
        )


def _part(name: str, part: Mapping[str, Any]) -> str:
    """Return a part's line: accuracy, count and 95 % interval."""
    share, sure = _percent(part["execution_accuracy"]), _interval(*part["interval"])
    return f"  {name:<24} {share:>7} of {_count(part)} {sure}"


def _interval(low: float, high: float) -> str:
    return f"[{low:.2%}, {high:.2%}]"


def _count(part: Mapping[str, Any]) -> str:
    """Say of how many questions an accuracy is."""
    return f"{part['judged']} judged" if "judged" in part else str(part["count"])


def print_rules(
    rules: Mapping[str, RuleScore], by_difficulty: Mapping[str, Mapping[str, RuleScore]]
) -> None:
    """Print what the other rules give, each with its interval, and of each difficulty."""
    for name, score in rules.items():
        if name != "official":
            click.echo(_rule(f"by {name}", score))
            for part, found in by_difficulty.items():
                if name in found:
                    click.echo(_rule(f"  {neutral(part)}", found[name]))


def _rule(name: str, score: RuleScore) -> str:
    sure = _interval(score.low, score.high)
    return f"  {name:<24} {_percent(score.value):>7} of {score.n} {sure}"


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{share:.2%}"
