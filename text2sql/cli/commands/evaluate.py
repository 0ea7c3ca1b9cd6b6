"""``text2sql evaluate``: score predicted SQL by execution accuracy."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import click

from text2sql.cli.options.asked import usable
from text2sql.cli.options.types import FILE, STDOUT, IntegerRange, timeout_option
from text2sql.cli.options.usage import require_apart
from text2sql.cli.output import evaluate_output as output
from text2sql.common.counting import counted
from text2sql.common.files import file_digest, require_writable, write_whole
from text2sql.datasets.gold.flags import GoldFlag
from text2sql.datasets.reading.files import gold_beside
from text2sql.datasets.reading.questions import Record, file_key, read_records
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.evaluation.known_issues import Issue, issues_of, read_issues, run_corrections
from text2sql.evaluation.predictions.reading import read_predictions
from text2sql.evaluation.predictions.score import PredictionScores, score_predictions
from text2sql.evaluation.predictions.systems import prediction_files, systems_object
from text2sql.evaluation.predictions.writing import export_predictions
from text2sql.judge.equality import Rule
from text2sql.judge.known_results import KnownResults, database_digests
from text2sql.judge.rules import Values, efficiency_values, rule_values
from text2sql.judge.verdicts import Verdict
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox


@click.command()
@click.option("--questions", required=True, type=FILE, help="BIRD's dev.json, or a file like it.")
@click.option("--databases", required=True, type=FILE, help="Folder with the SQLite files.")
@click.option(
    "--predictions",
    required=True,
    type=FILE,
    metavar="FILE [FILE...]",
    help="Predicted SQL: JSON, JSONL, .sql. Several files, or a folder of them, are compared.",
)
@click.argument("more", type=FILE, nargs=-1, metavar="")
@click.option(
    "--rule",
    type=click.Choice(get_args(Rule)),
    default="official",
    help="Compare results as sets, as multisets, or as lists where the gold SQL sorts.",
)
@timeout_option
@click.option("--jobs", type=IntegerRange(min=1), help="Worker processes; default: one per core.")
@click.option(
    "--cache/--no-cache",
    default=True,
    help="Reuse the results of earlier runs with the same database, query and limits.",
)
@click.option(
    "--all-rules",
    is_flag=True,
    help="Also score by the other rules and Soft-F1; runs every query once more.",
)
@click.option(
    "--gold-flags",
    is_flag=True,
    help="Also flag gold queries whose answer the data does not determine; runs variants of them.",
)
@click.option(
    "--efficiency",
    type=IntegerRange(min=1, max=1000),
    metavar="RUNS",
    help="Also compute VES and R-VES: times each match and its gold RUNS times; slow.",
)
@click.option(
    "--known-issues",
    "issues_path",
    type=FILE,
    help="A list of wrong gold queries (docs/known-issues.md): adds the corrected accuracy.",
)
@click.option(
    "--export",
    type=FILE,
    multiple=True,
    callback=output.require_forms,
    metavar="FILE",
    help="Also write the predictions for official evaluators: in BIRD's format if FILE ends with "
    ".json, in Spider's if with .sql or .txt.",
)
@click.option(
    "--json", "json_path", type=FILE, help="Also write the result as JSON; '-' prints only this."
)
def command(
    questions: Path,
    databases: Path,
    predictions: Path,
    more: tuple[Path, ...],
    rule: Rule,
    timeout: float,
    jobs: int | None,
    cache: bool,
    all_rules: bool,
    gold_flags: bool,
    efficiency: int | None,
    issues_path: Path | None,
    export: tuple[Path, ...],
    json_path: Path | None,
) -> None:
    """Score predicted SQL by execution accuracy, as BIRD does.

    Predictions and questions are paired by id. If the ids of the predictions are exactly 0 to n-1,
    and those of the n questions are not, they count as positions in the questions file, as in
    BIRD's own prediction files. Predictions without ids (a list of texts, or a .sql or .txt file
    with one query per line, like Spider's) need one entry for each row of the questions file. A
    question without a prediction, or with one that is not text, counts as not matched.

    If the questions have no SQL, the gold queries are read from a file beside them, dev_gold.sql
    for dev.json: on each line the SQL, a tab, and the database.

    With several files (systems), each gold query runs once. A table shows each accuracy with its
    95 % interval, and every two systems are compared with McNemar's exact test, adjusted for the
    number of pairs (Holm).

    The JSON identifies the questions file, the gold file and the databases by their sha256: only
    compare numbers for which these are equal. Query results are cached in ~/.cache/text2sql (or
    below XDG_CACHE_HOME) for later runs.

    \b
    Exit status:
      0  scored
      1  an error you can fix: a file, a database, no prediction for any question
      2  wrong usage
      6  scored, but a worker or a database failed for some questions
    """
    out = None if json_path == STDOUT else json_path
    if out is not None:
        require_writable(out)
    gold = gold_beside(questions)
    records = read_records(questions, databases, "dev", gold)
    asked = usable(records, questions, databases, "scored", "a gold SQL and its database")
    files = prediction_files([predictions, *more])
    read = [questions, gold, *files.values(), issues_path, *(one.database for one in asked)]
    require_apart([out, *export], read)
    keys = [file_key(record.question.key, record.reason) for record in records]
    if len(files) > 1:
        if export or efficiency or issues_path:
            raise click.UsageError(
                "--export, --efficiency and --known-issues are for one prediction file: leave "
                "them out, or give one file."
            )
        _compare_systems(
            files, questions, gold, records, asked, keys, Limits(seconds=timeout), jobs, rule,
            cache, all_rules, gold_flags, json_path,
        )  # fmt: skip
        return
    sql = read_predictions(predictions := next(iter(files.values())), asked, keys)
    export_predictions(export, predictions, records)
    limits = Limits(seconds=timeout)
    with Sandbox(jobs) as sandbox, _known_results(cache) as known:
        corrections, used = None, {}
        if issues_path is not None:
            issues = _issues(issues_path, questions, records)
            corrections = run_corrections(issues, asked, sandbox, limits)
            kinds = Counter(one.issue.kind for one in corrections.values())
            unused = len(issues) - len(corrections)
            used = {"sha256": file_digest(issues_path), **kinds, "not used": unused}
        scores = score_predictions(asked, sql, sandbox, limits, rule, known, corrections)
        values = rule_values(asked, [sql], sandbox, limits)[0] if all_rules else {}
        flags = _flags(asked, scores, sandbox, limits) if gold_flags else {}
        digests = database_digests(asked, sandbox, known)
    if efficiency:
        judged = [one for one in scores.scored if one.verdict is not Verdict.INFRASTRUCTURE]
        matched = {one.question.key for one in judged if one.verdict is Verdict.MATCH}
        asked_again = [one.question for one in judged]
        timed = efficiency_values(asked_again, sql, matched, efficiency, limits)
        for key, row in timed.items():
            values.setdefault(key, {}).update(row)
    rules = output.rules_object(asked, values)
    found = output.as_object(
        questions, gold, records, sql, limits, digests, scores, rules, efficiency, used
    )
    output.add_to_verdicts(found, scores, values, flags)
    if out is not None:  # before printing, which fails if the reader closes the pipe
        write_whole(out, f"{json.dumps(found, indent=1)}\n")
    output.report(records, sql, scores, used)
    output.report_flags(flags)
    if json_path == STDOUT:
        click.echo(json.dumps(found, indent=1))
    else:
        output.print_scores(found)
    failed = [item.error for item in scores.scored if item.verdict is Verdict.INFRASTRUCTURE]
    if failed:
        raise InfrastructureError(
            f"The accuracy leaves out {len(failed)} of {counted(len(scores.scored), 'question')} "
            f"that could not be judged; the first: {failed[0]}. Run it again."
        )


def _compare_systems(
    files: Mapping[str, Path],
    questions: Path,
    gold: Path | None,
    records: list[Record],
    asked: Sequence[Question],
    keys: Sequence[str],
    limits: Limits,
    jobs: int | None,
    rule: Rule,
    cache: bool,
    all_rules: bool,
    gold_flags: bool,
    json_path: Path | None,
) -> None:
    """Score several prediction files, and compare every two."""
    predicted = {name: read_predictions(path, asked, keys) for name, path in files.items()}
    with (
        Sandbox(jobs) as sandbox,
        TemporaryDirectory() as place,  # without the user's cache gold still runs once for all
        closing(KnownResults(Path(place))) as own,
        _known_results(cache) as users,
    ):
        known = users or own
        scores = {
            name: score_predictions(asked, sql, sandbox, limits, rule, known)
            for name, sql in predicted.items()
        }
        digests = database_digests(asked, sandbox, known)
        values: list[Values] = [{}] * len(files)
        if all_rules:
            values = rule_values(asked, list(predicted.values()), sandbox, limits)
        first = next(iter(scores.values()))
        flags = _flags(asked, first, sandbox, limits) if gold_flags else {}
    found = {
        "questions_sha256": file_digest(questions),
        **({"gold_sha256": file_digest(gold)} if gold else {}),
        "databases_sha256": digests,
        "rows": len(records),
        "timeout_seconds": limits.seconds,
        "rule": rule,
        **systems_object(scores, files),
    }
    for (name, sql), its in zip(predicted.items(), values, strict=True):
        system = found["systems"][name]
        system |= output.pairing_object(sql)
        if its:
            system["rules"] = output.rules_object(asked, its)
        output.add_to_verdicts(system, scores[name], its, flags)
    text = json.dumps(found, indent=1)
    if json_path not in (None, STDOUT):
        assert json_path is not None
        write_whole(json_path, f"{text}\n")
    output.report_unusable(records)
    for name, sql in predicted.items():
        output.report_pairing(sql, name)
        output.report_failures(scores[name], name)
    output.report_flags(flags)
    click.echo(text if json_path == STDOUT else output.systems_text(found))
    lost = [
        one.error
        for its in scores.values()
        for one in its.scored
        if one.verdict is Verdict.INFRASTRUCTURE
    ]
    if lost:
        raise InfrastructureError(
            f"The accuracies leave out {counted(len(lost), 'prediction')} that could not be "
            f"judged; the first: {lost[0]}. Run it again."
        )


def _issues(path: Path, questions: Path, records: Sequence[Record]) -> dict[str, Issue]:
    """Return the known issues of a questions file; raise Text2SqlError where it has no entry."""
    found = issues_of(read_issues(path), questions, [record.question.key for record in records])
    if found is None:
        raise Text2SqlError(
            f"{path} has no entry for {questions}, whose sha256 is {file_digest(questions)}; "
            "correct questions_sha256, or omit --known-issues."
        )
    return found


def _flags(
    asked: Sequence[Question], scores: PredictionScores, sandbox: Sandbox, limits: Limits
) -> dict[str, list[GoldFlag]]:
    """Return the flags of gold by question key."""
    from text2sql.datasets.gold.find import flag_golds  # sqlglot takes a while to import

    found: dict[str, list[GoldFlag]] = {}
    for one in flag_golds(asked, {gold.key: gold for gold in scores.golds}, sandbox, limits):
        found.setdefault(one.key, []).append(one)
    return found


def _known_results(cache: bool) -> AbstractContextManager[KnownResults | None]:
    """Open the results of earlier runs in the user's cache folder ($XDG_CACHE_HOME)."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    try:
        return closing(KnownResults(Path(home) / "text2sql")) if cache else nullcontext()
    except Text2SqlError as error:  # the cache only saves time
        click.echo(f"note: {error}", err=True)
        return nullcontext()
