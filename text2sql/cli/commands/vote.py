"""``text2sql vote``: let several predictions of each question vote."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from text2sql.cli.options.asked import usable
from text2sql.cli.options.types import FILE, STDOUT, IntegerRange, timeout_option
from text2sql.cli.options.usage import require_apart
from text2sql.cli.output.evaluate_output import report_pairing, report_unusable, require_forms
from text2sql.common.counting import counted
from text2sql.common.files import file_digest, require_writable, write_whole
from text2sql.datasets.reading.files import gold_beside
from text2sql.datasets.reading.questions import file_key, read_records
from text2sql.errors import InfrastructureError
from text2sql.evaluation.predictions.score import question_id
from text2sql.evaluation.predictions.systems import prediction_files
from text2sql.evaluation.predictions.vote import (
    VotedQuestion,
    read_samples,
    split_samples,
    vote_predictions,
)
from text2sql.evaluation.predictions.writing import write_predictions
from text2sql.evaluation.statistics import wilson
from text2sql.evaluation.vote_curve import CurvePoint, curve
from text2sql.sandbox import Limits, Sandbox, Status


@click.command()
@click.option("--questions", required=True, type=FILE, help="BIRD's dev.json, or a file like it.")
@click.option("--databases", required=True, type=FILE, help="Folder with the SQLite files.")
@click.option(
    "--predictions",
    required=True,
    type=FILE,
    metavar="FILE [FILE...]",
    help="Files with one prediction a question, a folder of them, or one JSON object of id to a "
    "list of SQL.",
)
@click.argument("more", type=FILE, nargs=-1, metavar="")
@click.option(
    "--out",
    type=FILE,
    multiple=True,
    callback=require_forms,
    metavar="FILE",
    help="Write the winners: in BIRD's format if FILE ends with .json, in Spider's if with .sql "
    "or .txt.",
)
@timeout_option
@click.option("--jobs", type=IntegerRange(min=1), help="Worker processes; default: one per core.")
@click.option(
    "--json", "json_path", type=FILE, help="Also write the result as JSON; '-' prints only this."
)
def command(
    questions: Path,
    databases: Path,
    predictions: Path,
    more: tuple[Path, ...],
    out: tuple[Path, ...],
    timeout: float,
    jobs: int | None,
    json_path: Path | None,
) -> None:
    """Let several predictions of each question vote, and write the winners.

    The result that most of a question's predictions return wins; failing ones and empty results
    have no vote. With gold it also prints, for votes of k of them, how many would be right (vote@k)
    and how many have at least one right prediction (pass@k), over all choices of k.

    \b
    Exit status:
      0  done
      1  an error you can fix: a file, a database
      2  wrong usage
      6  a worker or a database failed; run it again
    """
    json_file = None if json_path == STDOUT else json_path
    for file in filter(None, [*out, json_file]):
        file.parent.mkdir(parents=True, exist_ok=True)
        require_writable(file)
    gold = gold_beside(questions)
    records = read_records(questions, databases, "dev", gold, needs_gold=False)
    asked = usable(records, questions, databases, "voted on", "a question and its database")
    files = list(prediction_files([predictions, *more]).values())
    require_apart([json_file, *out], [questions, *files, *(one.database for one in asked)])
    keys = [file_key(record.question.key, record.reason) for record in records]
    with TemporaryDirectory() as place, Sandbox(jobs) as sandbox:
        samples = read_samples(split_samples(files, Path(place)), asked, keys)
        found = vote_predictions(asked, list(samples.values()), sandbox, Limits(seconds=timeout))
    write_predictions(out, {one.question.key: one.vote.sql for one in found}, records)
    result = _as_object(found, questions, len(samples))
    text = json.dumps(result, indent=1)
    if json_file is not None:
        write_whole(json_file, f"{text}\n")
    report_unusable(records)
    for name, sql in samples.items():
        report_pairing(sql, name)
    click.echo(text if json_path == STDOUT else _as_text(result))
    lost = result["predictions"].get(Status.INFRASTRUCTURE.value, 0)
    golds = sum(one.gold_lost for one in found)
    if lost or golds:
        raise InfrastructureError(
            f"Predictions that could not be run, and had no vote: {lost}; gold queries: {golds}. "
            "Run it again."
        )


def _as_object(found: Sequence[VotedQuestion], questions: Path, k: int) -> dict[str, Any]:
    ends: Counter[str] = Counter()
    for one in found:
        ends.update(one.ends)
    result: dict[str, Any] = {
        "questions_sha256": file_digest(questions),
        "k": k,
        "count": len(found),
        "with_winner": sum(one.vote.consensus for one in found),
        "ties": sum(one.vote.tie for one in found),
        "predictions": dict(ends),
        "votes": [
            {
                "question_id": question_id(one.question),
                "sql": one.vote.sql or None,
                "votes": one.vote.votes,
                "share": one.vote.share,
                "tie": one.vote.tie,
                **({} if one.is_right is None else {"right": one.is_right}),
            }
            for one in found
        ],
    }
    known = [one for one in found if one.ballots is not None]
    if known:
        right = sum(bool(one.is_right) for one in known)
        points: Sequence[CurvePoint] = curve(
            "", "all", "all", [one.ballots for one in known if one.ballots]
        ).points
        result |= {
            "judged": len(known),
            "accuracy": right / len(known),
            "interval": list(wilson(right, len(known))),
            "curve": [asdict(point) for point in points],
        }
    return result


def _as_text(result: dict[str, Any]) -> str:
    k = result["k"]
    verb = "has" if result["with_winner"] == 1 else "have"
    ends = ", ".join(f"{count} {name}" for name, count in result["predictions"].items())
    lines = [
        f"{result['with_winner']} of {counted(result['count'], 'question')} {verb} a winner among "
        f"{k} predictions; {counted(result['ties'], 'tie')}",
        f"predictions: {ends}",
    ]
    if "curve" in result:
        low, high = result["interval"]
        lines.append(
            f"execution accuracy of the winners {result['accuracy']:.2%} of "
            f"{counted(result['judged'], 'question')} (95 % interval {low:.2%} to {high:.2%})"
        )
        for point in result["curve"]:
            if point["k"] in (1, 2, 4, 8, 16, 32, 64, k):
                vote = f"{point['vote']:.2%} [{point['vote_low']:.2%}, {point['vote_high']:.2%}]"
                best = f"{point['ceiling']:.2%} [{point['ceiling_low']:.2%}, "
                best += f"{point['ceiling_high']:.2%}]"
                lines.append(f"  k = {point['k']:<3} vote {vote}  pass {best}")
    return "\n".join(lines)
