"""Greedy answers scored by the other rules, beside the official number.

Stored rollouts have no rows, so the queries run again, equal ones once. Those that cannot match
(errors, writes, time-outs) do not run and count 0 everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import get_args

from text2sql.evaluation.predictions.writing import submitted_sql
from text2sql.evaluation.scores import Score
from text2sql.evaluation.slices import RULE
from text2sql.evaluation.statistics import mean_interval, wilson
from text2sql.judge.equality import Rule
from text2sql.judge.rules import DEFINITIONS as RULE_DEFINITIONS
from text2sql.judge.rules import (
    EFFICIENCY_DEFINITIONS,
    HIGHEST,
    Values,
    efficiency_values,
    rule_values,
)
from text2sql.judge.verdicts import Verdict
from text2sql.questions import Question
from text2sql.rollouts.store import Rollout
from text2sql.sandbox import Limits, Sandbox

DEFINITIONS = RULE_DEFINITIONS | EFFICIENCY_DEFINITIONS
_RAN = (Verdict.MATCH, Verdict.WRONG)


@dataclass(frozen=True)
class RuleScore:
    """A rule's mean over ``n`` questions; ``low`` and ``high`` end its 95 % interval."""

    value: float
    low: float
    high: float
    n: int


def score_rules(values: Values) -> dict[str, RuleScore]:
    """Return the mean of every rule over the questions that have a value.

    Shares of right questions have Wilson's interval, means of other values (Soft-F1, VES, R-VES)
    the normal one.
    """
    found: dict[str, list[float]] = {}
    for its in values.values():
        for rule, value in its.items():
            found.setdefault(rule, []).append(value)
    scores = {}
    for rule in DEFINITIONS:
        if rule in found:
            row, n = found[rule], len(found[rule])
            most = HIGHEST.get(rule, max(1.0, *row))
            ends = wilson(sum(row), n) if rule in get_args(Rule) else mean_interval(row, most)
            scores[rule] = RuleScore(fmean(row), *ends, n)
    return scores


@dataclass(frozen=True)
class RuleResults:
    """The rules' values, by policy and question key.

    ``changed`` names the questions whose stored verdict the second run does not confirm: their
    queries depend on time or chance. ``repeats`` is the number of timed runs.
    """

    values: Mapping[str, Values]
    changed: Mapping[str, Sequence[str]]
    repeats: int = 0

    def scores(self) -> list[Score]:
        """Return each rule's mean with its 95 % interval over the questions."""
        return [
            Score(policy, "greedy", RULE, rule, one.value, one.low, one.high, one.n)
            for policy, values in self.values.items()
            for rule, one in score_rules(values).items()
        ]


def measure_rules(
    questions: Sequence[Question],
    greedy: Mapping[str, Sequence[Rollout]],
    sandbox: Sandbox,
    repeats: int = 0,
    limits: Limits = Limits(),
) -> RuleResults:
    """Judge policies' greedy rollouts by every rule; with ``repeats`` also by their time.

    Invalid rollouts have no values. Raises Text2SqlError when a database cannot be read at all.
    """
    queries = {
        name: submitted_sql(one for one in rollouts if one.verdict in _RAN)
        for name, rollouts in greedy.items()
    }
    found = rule_values(questions, list(queries.values()), sandbox, limits)
    values: dict[str, Values] = {}
    changed = {}
    for (name, rollouts), rows in zip(greedy.items(), found, strict=True):
        valid = {rollout.key for rollout in rollouts if rollout.valid}
        matched = {rollout.key for rollout in rollouts if rollout.verdict == Verdict.MATCH}
        values[name] = kept = {key: row for key, row in rows.items() if key in valid and row}
        changed[name] = [
            key for key, row in kept.items() if bool(row["official"]) != (key in matched)
        ]
        if repeats:
            judged = [question for question in questions if question.key in kept]
            again = {key for key, row in kept.items() if row["official"]}
            timed = efficiency_values(judged, queries[name], again, repeats, limits)
            for key, row in timed.items():
                kept[key] |= row
    return RuleResults(values, changed, repeats)
