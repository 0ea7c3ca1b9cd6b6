"""What ``text2sql evaluate`` prints and writes; its warnings go to standard error."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from text2sql import __version__
from text2sql.common.counting import counted
from text2sql.common.files import file_digest
from text2sql.common.render import aligned, neutral
from text2sql.datasets.gold.flags import GoldFlag
from text2sql.datasets.gold.run import explain_failure
from text2sql.datasets.reading.questions import Reason, Record
from text2sql.evaluation.predictions.reading import Predictions
from text2sql.evaluation.predictions.score import PredictionScores
from text2sql.evaluation.predictions.writing import FORMS
from text2sql.evaluation.rule_scores import DEFINITIONS, RuleScore, score_rules
from text2sql.evaluation.statistics import p_equals
from text2sql.judge.rules import Values
from text2sql.judge.verdicts import Verdict
from text2sql.questions import Question
from text2sql.sandbox import Limits, cut_suffix

_REASONS = {
    Reason.DB_MISSING: "the folder has no such database",
    Reason.EMPTY_FIELD: "question, db_id or gold SQL is empty",
    Reason.DUPLICATE_ROW: "each repeats an earlier row; BIRD's script counts it again",
    Reason.DUPLICATE_ID: "an earlier, different row has the same id",
    Reason.BROKEN_TEXT: "a text ends or begins with half a character, as if cut",
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

_NAMED = 10  # questions whose gold fails; the JSON has all


def require_forms(
    context: click.Context, parameter: click.Parameter, files: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Refuse an option's prediction file if its name does not end with a known suffix."""
    for file in files:
        if file.suffix.lower() not in FORMS:
            raise click.BadParameter(
                f"{file} must end with .json for BIRD's format, or .sql or .txt for Spider's."
            )
    return files


def rules_object(asked: Sequence[Question], values: Values) -> dict[str, Any]:
    """Return each rule's score, over all questions and by difficulty if the file has some."""

    def shown(score: RuleScore) -> dict[str, Any]:
        return {"value": score.value, "interval": [score.low, score.high], "n": score.n}

    found = {
        name: shown(score) | {"definition": DEFINITIONS[name]}
        for name, score in score_rules(values).items()
    }
    keys: dict[str, list[str]] = {}
    for question in asked:
        keys.setdefault(question.difficulty or "unknown", []).append(question.key)
    for difficulty, its in keys.items() if set(keys) != {"unknown"} else ():
        scores = score_rules({key: values[key] for key in its if key in values})
        for name, score in scores.items():
            found[name].setdefault("by_difficulty", {})[difficulty] = shown(score)
    return found


def as_object(
    questions: Path,
    gold: Path | None,
    records: Sequence[Record],
    sql: Predictions,
    limits: Limits,
    databases: Mapping[str, str],
    scores: PredictionScores,
    rules: Mapping[str, Any],
    timed_runs: int | None,
    known_issues: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what ``--json`` writes: the scores, and everything that they depend on.

    ``gold`` is the file of gold queries if it is not the questions file; ``databases`` are sha256
    by db_id.
    """
    left_out = Counter(one.reason.value for one in records if one.reason is not None)
    return {
        "questions_sha256": file_digest(questions),
        **({"gold_sha256": file_digest(gold)} if gold else {}),
        "databases_sha256": databases,
        "rows": len(records),
        "left_out": left_out,
        **pairing_object(sql),
        "timeout_seconds": limits.seconds,
        "sqlite_version": sqlite3.sqlite_version,
        "text2sql_version": __version__,
        **scores.to_dict(),
        **({"known_issues": known_issues} if known_issues else {}),
        **({"rules": rules} if rules else {}),
        **({"timed_runs": timed_runs} if timed_runs else {}),
    }


def add_to_verdicts(
    found: Mapping[str, Any],
    scores: PredictionScores,
    values: Values,
    flags: Mapping[str, Sequence[GoldFlag]],
) -> None:
    """Add to each verdict what every rule gives, and the flags of its gold query."""
    for row, item in zip(found["verdicts"], scores.scored, strict=True):
        key = item.question.key
        if key in values:
            row["rules"] = values[key]
        if key in flags:
            row["gold_flags"] = [one.flag.value for one in flags[key]]


def report_flags(flags: Mapping[str, Sequence[GoldFlag]]) -> None:
    """Print on standard error how many gold queries have a flag, and which flags."""
    if flags:
        kinds = Counter(one.flag.value for its in flags.values() for one in its)
        words = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        many = counted(len(flags), "gold query has a flag", "gold queries have a flag")
        first = next(iter(flags))
        note("note", f"{many} ({words}); text2sql gold flags lists them", first)


def report(
    records: list[Record], sql: Predictions, scores: PredictionScores, used: Mapping[str, Any]
) -> None:
    """Print on standard error what limits the numbers; ``used`` counts the known issues."""
    report_unusable(records)
    report_pairing(sql)
    _report_doubts(records, sql)
    _report_golds(scores)
    if used:
        counts = [f"{count} {kind}" for kind, count in used.items() if kind != "sha256" and count]
        click.echo(f"known issues: {', '.join(counts) or 'none'}", err=True)
    report_failures(scores)
    if fenced := sum("```" in sql.get(item.question.key, "") for item in scores.scored):
        many = counted(fenced, "prediction has", "predictions have")
        click.echo(
            f"note: {many} a Markdown fence (```), an error to official evaluators too; remove it",
            err=True,
        )


def report_failures(scores: PredictionScores, file: str = "") -> None:
    """Print on standard error how many predictions failed, and how; ``file`` is one of several."""
    of = f" ({file})" if file else ""
    for verdict, words in _FAILURES.items():
        failed = [item for item in scores.scored if item.verdict is verdict]
        if failed:
            first = f"{failed[0].question.key}: {failed[0].error or verdict}"
            note("note", counted(len(failed), *words) + of, first)


def report_pairing(sql: Predictions, file: str = "") -> None:
    """Print on standard error what of a file could not be paired; ``file`` names one of several."""
    empty = [key for key, text in sql.items() if not text.strip()]
    for name, keys, one, several in (
        ("missing", sql.missing, "question has no prediction", "questions have no prediction"),
        ("empty", empty, "prediction has no SQL", "predictions have no SQL"),
        ("unknown", sql.unknown, "prediction matches no question", "predictions match no question"),
    ):
        if keys:
            of = f" ({file})" if file else ""
            note(name, counted(len(keys), one, several) + of, keys[0])


def pairing_object(sql: Predictions) -> dict[str, Any]:
    """Return what of a file could not be paired, or names another database, as JSON values."""
    return {
        "without_prediction": len(sql.missing),
        "unknown_predictions": len(sql.unknown),
        "db_mismatch": list(sql.elsewhere),
    }


def note(kind: str, sentence: str, first: str) -> None:
    """Print on standard error how many of a file's entries are special, and name the first."""
    click.echo(f"{kind}: {sentence}; the first is {neutral(first)}", err=True)


def report_unusable(records: Sequence[Record]) -> None:
    """Print on standard error how many rows of a questions file are left out, and why."""
    first = {r.reason: r for r in reversed(records)}
    for reason, count in Counter(r.reason for r in records if r.reason is not None).items():
        detail = "" if "duplicate" in reason else f": {first[reason].detail}"
        many = f"{counted(count, 'question')} ({reason}: {_REASONS[reason]})"
        note("left out", many, f"{first[reason].question.key}{detail}")


def _report_doubts(records: list[Record], sql: Predictions) -> None:
    """Warn if these may not be the predictions of these questions."""
    asked = [record.question for record in records if record.question.key in sql]
    if sql.no_text:
        many = counted(len(sql.no_text), "prediction is", "predictions are")
        note(
            "warning",
            f"{many} neither text nor null, counted as not matched",
            f"id {sql.no_text[0]}",
        )
    if sql.elsewhere:
        many = counted(len(sql.elsewhere), "prediction names", "predictions name")
        note(
            "warning",
            f"{many} another database than the question does, and run on the question's, as in "
            "the official evaluator: are they from another file, or shifted?",
            sql.elsewhere[0],
        )
    if sql.missing and sql.missing[0].endswith("/0") and list(sql.unknown) == [str(len(records))]:
        click.echo(
            "warning: the questions are counted from 0, the predictions from 1: they may be "
            "shifted by one",
            err=True,
        )
    if asked[1:] and all(sql[question.key] == cut_suffix(question.sql) for question in asked):
        click.echo(
            "warning: every prediction is the text of its gold query; if gold and prediction are "
            "in one row, name the prediction predicted_sql",
            err=True,
        )


def _report_golds(scores: PredictionScores) -> None:
    """Warn of gold that makes verdicts less meaningful: it fails, or returns nothing."""
    failing = [gold for gold in scores.golds if gold.failing]
    empty = [gold for gold in scores.golds if gold.empty]
    if failing:
        sql = {item.question.key: item.question.sql for item in scores.scored}
        reason = explain_failure(failing[0], sql.get(failing[0].key, "")) or failing[0].status
        many = counted(len(failing), "question")
        keys = ", ".join(neutral(gold.key) for gold in failing[:_NAMED])
        more = f" and {len(failing) - _NAMED:,} more" if len(failing) > _NAMED else ""
        about = f"the gold SQL of {many} does not run, so nothing matches it ({keys}{more})"
        note("warning", about, f"{failing[0].key}: {reason}")
    if empty:
        many = counted(len(empty), "question")
        about = f"the gold SQL of {many} returns no row, so any query that returns none matches"
        note("warning", about, empty[0].key)


def systems_text(found: Mapping[str, Any]) -> str:
    """Return the tables of several systems: their accuracies, best first, and every two of them."""
    systems = sorted(
        found["systems"].items(), key=lambda item: -(item[1]["execution_accuracy"] or 0.0)
    )
    lines = [f"execution accuracy ({found['rule']}; 95 % intervals)"]
    rows = [(name, _percent(one["execution_accuracy"]), f"of {_count(one)}", _interval(one))
            for name, one in systems]  # fmt: skip
    lines += aligned([tuple(map(neutral, row)) for row in rows])
    ruled = [(name, one["rules"]) for name, one in systems if one.get("rules")]
    if ruled:
        others = [rule for rule in ruled[0][1] if rule != "official"]
        lines += ["", f"the same by {', '.join(others)}"]
        rows = [(name, *(_percent(rules[rule]["value"]) for rule in others))
                for name, rules in ruled]  # fmt: skip
        lines += aligned([tuple(map(neutral, row)) for row in rows])
    lines += ["", "second minus first, with McNemar's exact p adjusted for all pairs (Holm)"]
    pairs = [
        (pair["first"], pair["second"], f"{100 * pair['difference']:+.2f}",
         f"[{100 * pair['low']:+.2f}, {100 * pair['high']:+.2f}]",
         f"gained {pair['won']}, lost {pair['lost']}", p_equals(pair["p_holm"]))
        for pair in found["pairs"]
    ]  # fmt: skip
    return "\n".join([*lines, *aligned([tuple(map(neutral, row)) for row in pairs])])


def _interval(group: Mapping[str, Any]) -> str:
    low, high = group["interval"]
    return f"[{low:.2%}, {high:.2%}]"


def print_scores(found: Mapping[str, Any]) -> None:
    """Print the accuracies, verdicts and rows left out of an ``as_object``."""
    low, high = found["interval"]
    total = f"execution accuracy {_percent(found['execution_accuracy'])} of {_count(found)}"
    click.echo(f"{total} ({found['rule']}; 95 % interval {low:.2%} to {high:.2%})")
    if corrected := found.get("corrected"):
        click.echo(f"{_group('corrected', corrected)} (known issues)")
    for title in ("by_gold", "by_difficulty", "by_database"):
        groups = found.get(title, {})
        for name, group in groups.items() if set(groups) != {"unknown"} else ():
            click.echo(_group(neutral(name), group))
    verdicts = Counter(item["verdict"] for item in found["verdicts"])
    click.echo("  " + ", ".join(f"{name} {count}" for name, count in verdicts.most_common()))
    if left_out := found["left_out"]:
        why = ", ".join(f"{reason} {count}" for reason, count in left_out.items())
        click.echo(f"  left out {sum(left_out.values())} of {counted(found['rows'], 'row')}: {why}")
    for name, rule in found.get("rules", {}).items():
        if name != "official":
            click.echo(_group(f"by {name}", rule))
            for difficulty, group in rule.get("by_difficulty", {}).items():
                click.echo(_group(f"  {neutral(difficulty)}", group))


def _group(name: str, group: Mapping[str, Any]) -> str:
    """Return the line of a group or of a rule: accuracy, count and 95 % interval."""
    low, high = group["interval"]
    share = _percent(group["value"] if "value" in group else group["execution_accuracy"])
    return f"  {name:<24} {share:>7} of {_count(group)} [{low:.2%}, {high:.2%}]"


def _count(group: Mapping[str, Any]) -> str:
    """Say how many questions an accuracy is over."""
    if "judged" in group:
        return f"{group['judged']} judged"
    return str(group["n"] if "n" in group else group["count"])


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{share:.2%}"
