"""``text2sql evaluate``: score predicted SQL by execution accuracy."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import click

from text2sql.datasets.bird import Record, file_key, read_records
from text2sql.datasets.predictions import read_predictions
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge import Rule, Verdict
from text2sql.known_results import KnownResults
from text2sql.sandbox import Limits, Sandbox
from text2sql.scoring import PredictionScores, accuracy, score_predictions

_FILE = click.Path(path_type=Path)


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
@click.option("--json", "json_path", type=_FILE, help="Write the result here as well.")
def command(
    questions: Path,
    databases: Path,
    predictions: Path,
    rule: Rule,
    timeout: float,
    jobs: int | None,
    cache: bool,
    json_path: Path | None,
) -> None:
    """Score a file of predicted SQL by execution accuracy, as BIRD does.

    Predictions are paired by question id; a question without one counts as not matched.
    """
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
    _report_left_out(records, sql.missing, sql.unknown)
    _print(scores)
    if json_path is not None:
        _write(json_path, scores)
    lost = sum(item.verdict is Verdict.INFRASTRUCTURE for item in scores.scored)
    if lost:
        raise InfrastructureError(f"{lost} questions could not be judged; run again.")


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


def _report_left_out(
    records: list[Record], missing: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    for reason, count in Counter(r.reason for r in records if r.reason is not None).items():
        click.echo(f"left out: {count} questions ({reason})", err=True)
    if missing:
        click.echo(f"missing: {len(missing)} questions have no prediction", err=True)
    if unknown:
        click.echo(f"unknown: {len(unknown)} predictions belong to no question", err=True)


def _print(scores: PredictionScores) -> None:
    found = scores.to_dict()
    share = accuracy(scores.scored)
    click.echo(f"execution accuracy {_percent(share)} of {found['count']} ({scores.rule})")
    for title in ("by_difficulty", "by_database"):
        for name, part in found[title].items():
            click.echo(f"  {name:<24} {_percent(part['execution_accuracy']):>7} of {part['count']}")
    verdicts = Counter(item.verdict.value for item in scores.scored)
    click.echo("  " + ", ".join(f"{name} {count}" for name, count in verdicts.most_common()))


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{share:.2%}"


def _write(path: Path, scores: PredictionScores) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(json.dumps(scores.to_dict(), indent=1) + "\n", encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise Text2SqlError(f"Cannot write {path}: {error.strerror}.") from error
