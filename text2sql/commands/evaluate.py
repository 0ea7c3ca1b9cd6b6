"""``text2sql evaluate``: score predicted SQL by execution accuracy."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

import click

from text2sql.datasets.bird import Record, file_key, read_records
from text2sql.datasets.digests import file_digest
from text2sql.datasets.predictions import Predictions, read_predictions
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge import Rule, Verdict
from text2sql.known_results import KnownResults
from text2sql.render import neutral
from text2sql.rules import DEFINITIONS, RuleScore, score_rules
from text2sql.sandbox import Limits, Sandbox, Status
from text2sql.scoring import PredictionScores, accuracy, score_predictions

_FILE = click.Path(path_type=Path)
_STDOUT = Path("-")


@click.command()
@click.option("--questions", required=True, type=_FILE, help="BIRD's dev.json or one like it.")
@click.option("--databases", required=True, type=_FILE, help="Folder of the SQLite files.")
@click.option("--predictions", required=True, type=_FILE, help="Predicted SQL, JSON or JSONL.")
@click.option(
    "--rule",
    type=click.Choice(get_args(Rule)),
    default="official",
    show_default=True,
    help="How results are compared: as sets, with duplicates, or with the row order too.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds one query may take.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Worker processes; default: the cores.")
@click.option(
    "--cache/--no-cache",
    default=True,
    show_default=True,
    help="Use the results of earlier runs where database, query and limits are the same.",
)
@click.option(
    "--all-rules", is_flag=True, help="Show the other rules and Soft-F1 beside it; runs all again."
)
@click.option(
    "--json", "json_path", type=_FILE, help="Write the result here as well; '-' prints only it."
)
def command(
    questions: Path,
    databases: Path,
    predictions: Path,
    rule: Rule,
    timeout: float,
    jobs: int | None,
    cache: bool,
    all_rules: bool,
    json_path: Path | None,
) -> None:
    """Score a file of predicted SQL by execution accuracy, as BIRD does.

    Predictions are paired by question id; ids that are exactly 0 to n-1, for a file of n questions
    with other ids, are positions in that file, as in BIRD's own prediction files. A question
    without a prediction, or with one that is no text, counts as not matched.

    The JSON names the questions file by its sha256: numbers of two different files must not be
    compared. Results of earlier runs are kept in ~/.cache/text2sql (or below XDG_CACHE_HOME).

    \b
    Exit status:
      0  scored
      1  something to mend: a file, a database, no prediction for any question
      2  wrong usage
      6  scored, but some questions could not be judged (a worker or a database failed)
    """
    printed = json_path == _STDOUT
    if json_path is not None and not printed:
        _require_writable(json_path)
    records = read_records(questions, databases, "dev")
    asked = [record.question for record in records if record.reason is None]
    if not asked:
        named = sorted({record.question.db_id for record in records})[:5]
        raise Text2SqlError(
            f"No question of {questions} can be scored with {databases}: it needs a gold SQL and "
            f"its database; the file names {', '.join(named) or 'no databases'}."
        )
    keys = [file_key(record.question.key, record.reason) for record in records]
    sql = read_predictions(predictions, asked, keys)
    limits = Limits(seconds=timeout)
    with Sandbox(jobs) as sandbox, _known_results(cache) as known:
        scores = score_predictions(asked, sql, sandbox, limits, rule, known)
        rules = score_rules(asked, sql, sandbox, limits) if all_rules else {}
    _report_left_out(records, sql)
    _report_golds(scores)
    if not printed:
        _print(scores)
        _print_rules(rules)
    if json_path is not None:
        found = {"questions_sha256": file_digest(questions)} | scores.to_dict() | _plain(rules)
        text = json.dumps(found, indent=1)
        click.echo(text) if printed else _write(json_path, text + "\n")
    lost = [item.error for item in scores.scored if item.verdict is Verdict.INFRASTRUCTURE]
    if lost:
        raise InfrastructureError(
            f"{len(lost)} of {len(scores.scored)} questions could not be judged and are left out "
            f"of the accuracy; the first: {lost[0]}. Run it again."
        )


@contextmanager
def _known_results(wanted: bool) -> Iterator[KnownResults | None]:
    """Open the results of earlier runs in the user's cache folder ($XDG_CACHE_HOME)."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    try:
        known = KnownResults(Path(home) / "text2sql") if wanted else None
    except Text2SqlError as error:
        click.echo(f"note: {error}", err=True)
        known = None
    try:
        yield known
    finally:
        if known is not None:
            known.close()


def _report_left_out(records: list[Record], sql: Predictions) -> None:
    for reason, count in Counter(r.reason for r in records if r.reason is not None).items():
        click.echo(f"left out: {count} questions ({reason})", err=True)
    if sql.missing:
        click.echo(f"missing: {len(sql.missing)} questions have no prediction", err=True)
    if sql.unknown:
        click.echo(f"unknown: {len(sql.unknown)} predictions belong to no question", err=True)
    if sql.no_text:
        click.echo(
            f"warning: {len(sql.no_text)} predictions are neither text nor null and count as not "
            f"matched; the first has the id {neutral(sql.no_text[0])}",
            err=True,
        )


def _report_golds(scores: PredictionScores) -> None:
    """Warn of gold that makes a verdict say little: it fails, or returns nothing."""
    ran = [gold for gold in scores.golds if gold.status is not Status.INFRASTRUCTURE]
    failing = [gold for gold in ran if not gold.usable]
    empty = [gold for gold in ran if gold.empty]
    if failing:
        first = neutral(f"{failing[0].key}: {failing[0].error or failing[0].status}")
        click.echo(
            f"warning: the gold SQL of {len(failing)} questions does not run, so nothing matches "
            f"it; the first is {first}",
            err=True,
        )
    if empty:
        click.echo(
            f"warning: the gold SQL of {len(empty)} questions returns no row, so any query that "
            f"returns none matches; the first is {neutral(empty[0].key)}",
            err=True,
        )


def _print(scores: PredictionScores) -> None:
    found = scores.to_dict()
    total = _percent(accuracy(scores.scored))
    click.echo(f"execution accuracy {total} of {_count(found)} ({scores.rule})")
    for title in ("by_difficulty", "by_database"):
        for name, part in found[title].items():
            share = _percent(part["execution_accuracy"])
            click.echo(f"  {neutral(name):<24} {share:>7} of {_count(part)}")
    verdicts = Counter(item.verdict.value for item in scores.scored)
    click.echo("  " + ", ".join(f"{name} {count}" for name, count in verdicts.most_common()))


def _count(part: Mapping[str, Any]) -> str:
    """Say of how many questions an accuracy is."""
    return f"{part['judged']} judged" if "judged" in part else str(part["count"])


def _print_rules(rules: Mapping[str, RuleScore]) -> None:
    others = [f"{name} {score.value:.2%}" for name, score in rules.items() if name != "official"]
    if others:
        click.echo(f"  beside it: {', '.join(others)}")


def _plain(rules: Mapping[str, RuleScore]) -> dict[str, Any]:
    """Return the rules as JSON values, each with its definition; nothing without any."""
    rows = {
        name: {"value": score.value, "n": score.n, "definition": DEFINITIONS[name]}
        for name, score in rules.items()
    }
    return {"rules": rows} if rows else {}


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{share:.2%}"


def _require_writable(path: Path) -> None:
    """Find out before the work whether its result can be written; what is there stays."""
    if path.exists() and not path.is_file():
        raise Text2SqlError(f"Cannot write {path}: it is no regular file.")
    with _writing(path) as partial:
        partial.touch()
        partial.unlink()


def _write(path: Path, text: str) -> None:
    with _writing(path) as partial:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)


@contextmanager
def _writing(path: Path) -> Iterator[Path]:
    """Name the file to write first; a failure is told in a sentence and leaves none behind."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield partial
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise Text2SqlError(f"Cannot write {path}: {error.strerror}.") from error
