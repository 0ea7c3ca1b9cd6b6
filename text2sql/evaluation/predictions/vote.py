"""Let several predictions of each question vote: their winner, and how good votes of k would be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from text2sql.errors import Text2SqlError
from text2sql.evaluation.predictions.reading import Predictions, read_predictions
from text2sql.evaluation.vote_curve import Ballots, ballots
from text2sql.judge.known_results import execute_known
from text2sql.judge.verdicts import NOTHING_SUBMITTED, Verdict, gold_result, verdict_of
from text2sql.judge.voting import Submission, Vote, vote
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status, cut_suffix


@dataclass(frozen=True)
class VotedQuestion:
    """A question's vote, and how its predictions ended by status: ``ok``, ``empty``, ``error``, …

    ``ballots`` and ``is_right``, whether the winner matches gold, are None without gold, and where
    the infrastructure failed gold (``gold_lost``).
    """

    question: Question
    vote: Vote
    ends: Mapping[str, int]
    ballots: Ballots | None = None
    is_right: bool | None = None
    gold_lost: bool = False


def split_samples(files: Sequence[Path], folder: Path) -> dict[str, Path]:
    """Return files with one prediction a question each, by their names.

    A JSON object that maps ids to lists of SQL, the samples of one system, becomes one file in
    ``folder`` for each place in the lists. Raises Text2SqlError for lists of different lengths.
    """
    found: dict[str, Path] = {}
    for file in files:
        try:
            content = json.loads(file.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError):
            content = None  # whoever reads the predictions says what is wrong
        samples = content if isinstance(content, dict) else {}
        lists = [value for value in samples.values() if isinstance(value, list)]
        if not lists:
            found[str(file)] = file
            continue
        if len(lists) < len(samples):
            raise Text2SqlError(
                f"{file} has a list of predictions for some questions and a single one for others; "
                "give each question a list of the same length."
            )
        sizes = {len(texts) for texts in lists}
        if len(sizes) > 1:
            raise Text2SqlError(
                f"{file} has {min(sizes)} to {max(sizes)} predictions a question; give each "
                "question as many, with an empty text where there is none."
            )
        for place in range(sizes.pop()):
            part = folder / f"{len(found)}.json"
            part.write_text(json.dumps({key: texts[place] for key, texts in samples.items()}))
            found[f"{file}, place {place}"] = part
    return found


def read_samples(
    files: Mapping[str, Path], questions: Sequence[Question], keys: Sequence[str]
) -> dict[str, Predictions]:
    """Read the files of ``split_samples``; an error names the file that was given."""
    found = {}
    for name, file in files.items():
        try:
            found[name] = read_predictions(file, questions, keys)
        except Text2SqlError as error:
            raise Text2SqlError(str(error).replace(str(file), name)) from error
    return found


def vote_predictions(
    questions: Sequence[Question],
    samples: Sequence[Mapping[str, str]],
    sandbox: Sandbox,
    limits: Limits,
) -> list[VotedQuestion]:
    """Run each question's predictions and its gold, if it has some, and let the results vote.

    ``samples`` map question keys to SQL; a missing or empty one has no vote. Raises Text2SqlError
    for fewer than two samples, or a database that cannot be read.
    """
    if len(samples) < 2:
        raise Text2SqlError(
            f"A vote needs at least two predictions a question, not {len(samples)}."
        )
    found = []
    for question in questions:
        texts = [cut_suffix(sample.get(question.key)) for sample in samples]
        queries = [(question.database, text) for text in (question.sql, *texts) if text]
        ran = iter(execute_known(queries, sandbox, limits))
        gold_ran = next(ran) if question.sql else NOTHING_SUBMITTED
        own = [next(ran) if text else NOTHING_SUBMITTED for text in texts]
        votes = [
            Submission(place, text, result.near, result.row_count, result.status is Status.OK)
            for place, (text, result) in enumerate(zip(texts, own, strict=True))
        ]
        winner = vote(votes)
        ends: dict[str, int] = {}
        for result in own:
            ends[_end(result)] = ends.get(_end(result), 0) + 1
        gold = gold_result(question.key, question.sql, gold_ran)
        if not question.sql or gold.lost:
            found.append(VotedQuestion(question, winner, ends, gold_lost=gold.lost))
            continue
        right = [verdict_of(result, gold) is Verdict.MATCH for result in own]
        kept = [one.digest if one.has_vote else "" for one in votes]
        is_right = winner.consensus and right[winner.index]
        counts = ballots(list(zip(kept, right, strict=True)))
        found.append(VotedQuestion(question, winner, ends, counts, is_right))
    return found


def _end(result: QueryResult) -> str:
    if result.status is Status.OK:
        return "ok" if result.row_count else "empty"
    return result.status.value
