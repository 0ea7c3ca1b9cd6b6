"""Score a file of predictions: run each and its gold query, compare, and sum up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from text2sql.evaluation.known_issues import Correction
from text2sql.evaluation.slices import gold_slice
from text2sql.evaluation.statistics import wilson
from text2sql.judge.equality import Rule
from text2sql.judge.known_results import KnownResults, execute_known
from text2sql.judge.verdicts import NOTHING_SUBMITTED, GoldResult, Verdict, gold_result, verdict_of
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox, Status, cut_suffix

_NO_ERROR = (Verdict.MATCH, Verdict.WRONG, Verdict.NO_SUBMISSION)
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")


@dataclass(frozen=True)
class ScoredPrediction:
    """One question's verdict; ``error`` says what failed, if anything did."""

    question: Question
    verdict: Verdict
    error: str = ""


@dataclass(frozen=True)
class PredictionScores:
    """The verdicts in the order of the questions.

    A question without a prediction counts as not matched. The verdict ``infrastructure`` says
    nothing about the prediction, so the accuracy leaves it out. ``golds`` are the questions' gold
    results. ``corrected`` are the verdicts by the known issues, without flagged questions; None
    without a list of issues.
    """

    rule: Rule
    scored: tuple[ScoredPrediction, ...]
    golds: tuple[GoldResult, ...] = field(default=(), compare=False)
    corrected: tuple[ScoredPrediction, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as plain JSON values; accuracies are shares between 0 and 1."""
        empty = {gold.key for gold in self.golds if gold.empty}
        failing = {gold.key for gold in self.golds if gold.failing}
        failing_golds = {
            gold.key: {"gold": f"gold_{gold.status.value}", "gold_error": gold.error}
            for gold in self.golds
            if gold.failing
        }
        by_gold = self._by(lambda question: gold_slice(question.key, empty, failing))
        return {
            "rule": self.rule,
            **_share(self.scored),
            **({} if self.corrected is None else {"corrected": _share(self.corrected)}),
            **({"by_gold": by_gold} if empty or failing else {}),
            "by_difficulty": self._by(lambda question: question.difficulty or "unknown"),
            "by_database": self._by(lambda question: question.db_id),
            "verdicts": [
                {"question_id": question_id(item.question), "verdict": item.verdict.value}
                | ({"error": item.error} if item.error else {})
                | failing_golds.get(item.question.key, {})
                for item in self.scored
            ],
        }

    def _by(self, name_of: Callable[[Question], str]) -> dict[str, Any]:
        groups: dict[str, list[ScoredPrediction]] = {}
        for item in self.scored:
            groups.setdefault(name_of(item.question), []).append(item)
        return {name: _share(items) for name, items in groups.items()}


def _share(scored: Sequence[ScoredPrediction]) -> dict[str, Any]:
    """Return accuracy, count and interval; if some could not be judged, also how many were."""
    judged = len(_judged(scored))
    return {
        "execution_accuracy": accuracy(scored),
        "count": len(scored),
        **({} if judged == len(scored) else {"judged": judged}),
        "interval": list(interval(scored)),
    }


def _judged(scored: Iterable[ScoredPrediction]) -> list[Verdict]:
    return [item.verdict for item in scored if item.verdict is not Verdict.INFRASTRUCTURE]


def interval(scored: Iterable[ScoredPrediction]) -> tuple[float, float]:
    """Return the accuracy's 95 % interval (Wilson's) over the questions with a verdict."""
    verdicts = _judged(scored)
    return wilson(verdicts.count(Verdict.MATCH), len(verdicts))


def accuracy(scored: Iterable[ScoredPrediction]) -> float | None:
    """Return the share of matches among the questions with a verdict; None without any."""
    verdicts = _judged(scored)
    return verdicts.count(Verdict.MATCH) / len(verdicts) if verdicts else None


def question_id(question: Question) -> int | str:
    """Return the id as the questions file has it: a number if it is written like one."""
    identity = question.key.split("/", 1)[-1]
    return int(identity) if _NUMBER.fullmatch(identity) else identity


def score_predictions(
    questions: Sequence[Question],
    predictions: Mapping[str, str],
    sandbox: Sandbox,
    limits: Limits = Limits(),
    rule: Rule = "official",
    known: KnownResults | None = None,
    corrections: Mapping[str, Correction] | None = None,
) -> PredictionScores:
    """Judge ``predictions`` (SQL by question key) with all of the sandbox's workers.

    Predictions run as they are written, fences and all, as in the official evaluator. ``limits``
    apply to each query. Equal queries run once, and those that are ``known`` not at all. With
    ``corrections`` (by question key, already run) there are corrected verdicts as well. Raises
    Text2SqlError when a database cannot be read at all.
    """
    texts = [cut_suffix(predictions.get(question.key)) for question in questions]
    queries = [(question.database, question.sql) for question in questions]
    queries += [(q.database, text) for q, text in zip(questions, texts, strict=True) if text]
    results = iter(execute_known(queries, sandbox, limits, known))
    golds = tuple(gold_result(q.key, q.sql, next(results)) for q in questions)
    scored, corrected = [], []
    for question, text, gold in zip(questions, texts, golds, strict=True):
        result = next(results) if text else NOTHING_SUBMITTED
        verdict = verdict_of(result, gold, rule)
        failed = gold if result.status is Status.OK else result
        error = "" if verdict in _NO_ERROR else failed.error
        scored.append(ScoredPrediction(question, verdict, error))
        correction = (corrections or {}).get(question.key)
        if accepted := correction.accepted(gold) if correction else (gold,):
            verdicts = [verdict_of(result, one, rule) for one in accepted]
            best = Verdict.MATCH if Verdict.MATCH in verdicts else verdicts[0]
            corrected.append(ScoredPrediction(question, best))
    checked = None if corrections is None else tuple(corrected)
    return PredictionScores(rule, tuple(scored), golds, checked)
