"""``text2sql evaluate``: score predicted SQL by execution accuracy."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import click

from text2sql.cli.options.asked import usable
from text2sql.cli.options.numbers import IntegerRange, NumberRange
from text2sql.cli.options.usage import require_apart
from text2sql.cli.output.evaluate_output import (
    as_object,
    issue_counts,
    pairing,
    print_scores,
    report,
    require_forms,
    summarize_rules,
)
from text2sql.common.counting import counted
from text2sql.common.files import file_digest, require_writable, write_whole
from text2sql.datasets.reading.files import gold_beside
from text2sql.datasets.reading.questions import Record, file_key, read_records
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.evaluation.known_issues import Issue, issues_of, read_issues, run_corrections
from text2sql.evaluation.predictions.reading import read_predictions
from text2sql.evaluation.predictions.score import score_predictions
from text2sql.evaluation.predictions.writing import export_predictions
from text2sql.judge.equality import Rule
from text2sql.judge.known_results import KnownResults, database_digests
from text2sql.judge.rules import efficiency_values, rule_values
from text2sql.judge.verdicts import Verdict
from text2sql.sandbox import Limits, Sandbox

_FILE = click.Path(path_type=Path, readable=False)
_STDOUT = Path("-")


@click.command()
@click.option("--questions", required=True, type=_FILE, help="BIRD's dev.json or one like it.")
@click.option("--databases", required=True, type=_FILE, help="Folder of the SQLite files.")
@click.option("--predictions", required=True, type=_FILE, help="Predicted SQL: JSON, JSONL, .sql.")
@click.option(
    "--rule",
    type=click.Choice(get_args(Rule)),
    default="official",
    show_default=True,
    help="How results are compared: as sets, with duplicates, or in order where gold sorts.",
)
@click.option(
    "--timeout",
    type=NumberRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds one query may take.",
)
@click.option("--jobs", type=IntegerRange(min=1), help="Worker processes; default: the cores.")
@click.option(
    "--cache/--no-cache",
    default=True,
    show_default=True,
    help="Reuse results of earlier runs with equal database, query and limits.",
)
@click.option(
    "--all-rules", is_flag=True, help="Also score by the other rules and Soft-F1; runs all again."
)
@click.option(
    "--efficiency",
    type=IntegerRange(min=1, max=1000),
    metavar="RUNS",
    help="Also time each match and its gold RUNS times, in turns: VES and R-VES. Takes long.",
)
@click.option(
    "--known-issues",
    "issues_path",
    type=_FILE,
    help="List of wrong gold queries (docs/known-issues.md): adds the corrected accuracy.",
)
@click.option(
    "--export",
    type=_FILE,
    multiple=True,
    callback=require_forms,
    metavar="FILE",
    help="Also write the predictions as official evaluators read them: in BIRD's form if FILE ends "
    "with .json, in Spider's with .sql or .txt.",
)
@click.option(
    "--json", "json_path", type=_FILE, help="Also write the result as JSON; '-' prints only that."
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
    efficiency: int | None,
    issues_path: Path | None,
    export: tuple[Path, ...],
    json_path: Path | None,
) -> None:
    """Score a file of predicted SQL by execution accuracy, as BIRD does.

    Predictions are paired by question id. Ids that are exactly 0 to n-1, for a file of n questions
    with other ids, are positions in that file, as in BIRD's own prediction files. Predictions
    without ids (a list of texts, or a .sql or .txt file with one query a line, as Spider's) must
    be as many as the rows of the questions file. A question without a prediction, or with one that
    is not text, counts as not matched.

    If the questions have no SQL, their gold queries are read from a file beside them, dev_gold.sql
    for dev.json: on each line the SQL, a tab, and the database.

    The JSON identifies the questions file, the gold file and the databases by their sha256: do not
    compare numbers that differ in these. Results of earlier runs are stored in ~/.cache/text2sql
    (or below XDG_CACHE_HOME).

    \b
    Exit status:
      0  scored
      1  an error you can fix: a file, a database, no prediction for any question
      2  wrong usage
      6  scored, but some questions could not be judged (a worker or a database failed)
    """
    out = None if json_path == _STDOUT else json_path
    if out is not None:
        require_writable(out)
    gold = gold_beside(questions)
    records = read_records(questions, databases, "dev", gold)
    asked = usable(records, questions, databases, "scored", "a gold SQL and its database")
    read = [questions, gold, predictions, issues_path, *(one.database for one in asked)]
    require_apart([out, *export], read)
    keys = [file_key(record.question.key, record.reason) for record in records]
    sql = read_predictions(predictions, asked, keys)
    export_predictions(export, predictions, records)
    limits = Limits(seconds=timeout)
    with Sandbox(jobs) as sandbox, _known_results(cache) as known:
        issues = _issues(issues_path, questions, records)
        corrections = None if issues is None else run_corrections(issues, asked, sandbox, limits)
        scores = score_predictions(asked, sql, sandbox, limits, rule, known, corrections)
        values = rule_values(asked, [sql], sandbox, limits)[0] if all_rules else {}
        digests = database_digests(asked, sandbox, known)
    if efficiency:
        judged = [one for one in scores.scored if one.verdict is not Verdict.INFRASTRUCTURE]
        matched = {one.question.key for one in judged if one.verdict is Verdict.MATCH}
        questions_judged = [one.question for one in judged]
        timed = efficiency_values(questions_judged, sql, matched, efficiency, limits)
        for key, row in timed.items():
            values.setdefault(key, {}).update(row)
    used = issue_counts(issues_path, issues, corrections)
    rules, paired = summarize_rules(asked, values), pairing(records, sql)
    text = json.dumps(
        as_object(questions, gold, paired, limits, digests, scores, rules, efficiency, used),
        indent=1,
    )
    if out is not None:
        write_whole(out, f"{text}\n")  # before printing, which fails if the reader closes the pipe
    report(records, sql, scores, used)
    if json_path == _STDOUT:
        click.echo(text)
    else:
        print_scores(scores, paired, rules)
    failed = [item.error for item in scores.scored if item.verdict is Verdict.INFRASTRUCTURE]
    if failed:
        raise InfrastructureError(
            f"{len(failed)} of {counted(len(scores.scored), 'question')} could not be judged and "
            f"are left out of the accuracy; the first: {failed[0]}. Run it again."
        )


def _issues(
    path: Path | None, questions: Path, records: Sequence[Record]
) -> dict[str, Issue] | None:
    """Return the known issues of a questions file; raise Text2SqlError where it has no entry."""
    if path is None:
        return None
    found = issues_of(read_issues(path), questions, [record.question.key for record in records])
    if found is None:
        raise Text2SqlError(
            f"{path} has no entry for {questions}, whose sha256 is {file_digest(questions)}; "
            "correct questions_sha256, or omit --known-issues."
        )
    return found


@contextmanager
def _known_results(cache: bool) -> Iterator[KnownResults | None]:
    """Open the results of earlier runs in the user's cache folder ($XDG_CACHE_HOME)."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    try:
        known = KnownResults(Path(home) / "text2sql") if cache else None
    except Text2SqlError as error:
        click.echo(f"note: {error}", err=True)
        known = None
    try:
        yield known
    finally:
        if known is not None:
            known.close()
