"""Scoring a file of predictions: run each, run each gold, compare, and sum up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from text2sql.judge import NOTHING_SUBMITTED, Rule, Verdict, gold_result, verdict_of
from text2sql.known_results import KnownResults, execute_known
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox, cut_suffix


@dataclass(frozen=True)
class ScoredPrediction:
    """One question's verdict."""

    question: Question
    verdict: Verdict


@dataclass(frozen=True)
class PredictionScores:
    """The verdicts in the order of the questions.

    A question without a prediction counts as not matched. One whose verdict is
    ``infrastructure`` says nothing about its prediction and is left out of the accuracy.
    """

    rule: Rule
    scored: tuple[ScoredPrediction, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as plain JSON values; accuracies are shares between 0 and 1."""
        return {
            "rule": self.rule,
            "execution_accuracy": accuracy(self.scored),
            "count": len(self.scored),
            "by_difficulty": self._by(lambda question: question.difficulty or "unknown"),
            "by_database": self._by(lambda question: question.db_id),
            "verdicts": [
                {"question_id": question_id(item.question), "verdict": item.verdict.value}
                for item in self.scored
            ],
        }

    def _by(self, part: Callable[[Question], str]) -> dict[str, Any]:
        parts: dict[str, list[ScoredPrediction]] = {}
        for item in self.scored:
            parts.setdefault(part(item.question), []).append(item)
        return {
            name: {"count": len(items), "execution_accuracy": accuracy(items)}
            for name, items in parts.items()
        }


def accuracy(scored: Iterable[ScoredPrediction]) -> float | None:
    """Return the share of matches among the questions with a verdict; None without any."""
    verdicts = [item.verdict for item in scored if item.verdict is not Verdict.INFRASTRUCTURE]
    return verdicts.count(Verdict.MATCH) / len(verdicts) if verdicts else None


def question_id(question: Question) -> int | str:
    """Return the id as the questions file has it: a number where it is one."""
    identity = question.key.rpartition("/")[2]
    return int(identity) if identity.isdecimal() else identity


def score_predictions(
    questions: Sequence[Question],
    predictions: Mapping[str, str],
    sandbox: Sandbox,
    limits: Limits = Limits(),  # noqa: B008 - immutable
    rule: Rule = "official",
    known: KnownResults | None = None,
) -> PredictionScores:
    """Judge ``predictions`` (SQL by question key) with all of the sandbox's workers.

    Predictions are run as they are written, fences and all, as the official evaluator does.
    ``limits`` hold for a prediction and for its gold query each. Equal queries run once, and
    those that are ``known`` not at all. Raises Text2SqlError when a database cannot be read
    at all.
    """
    return score_many(questions, [predictions], sandbox, limits, rule, known)[0]


def score_many(
    questions: Sequence[Question],
    files: Sequence[Mapping[str, str]],
    sandbox: Sandbox,
    limits: Limits = Limits(),  # noqa: B008 - immutable
    rule: Rule = "official",
    known: KnownResults | None = None,
) -> list[PredictionScores]:
    """Do what ``score_predictions`` does for the predictions of several models at once."""
    places = [
        (question, cut_suffix(sql.get(question.key))) for sql in files for question in questions
    ]
    golds = [(question.database, question.sql) for question in questions]
    submitted = [(question.database, text) for question, text in places if text]
    results = execute_known([*golds, *submitted], sandbox, limits, known)
    answers = iter(results[len(golds) :])
    judged = [
        gold_result(question.key, result)
        for question, result in zip(questions, results, strict=False)
    ]
    scored = []
    for (question, text), gold in zip(places, judged * len(files), strict=True):
        result = next(answers) if text else NOTHING_SUBMITTED
        scored.append(ScoredPrediction(question, verdict_of(result, gold, rule)))
    count = len(questions)
    return [
        PredictionScores(rule, tuple(scored[at * count : (at + 1) * count]))
        for at in range(len(files))
    ]
