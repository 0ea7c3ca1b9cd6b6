"""Everything that a report shows, as plain JSON values, from scores and rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from text2sql.evaluation.failures.classes import classify, count_classes
from text2sql.evaluation.failures.effort import effort, tool_use
from text2sql.evaluation.failures.examples import choose, transcript
from text2sql.evaluation.report.tables import is_bird_dev
from text2sql.evaluation.rule_scores import RuleResults
from text2sql.evaluation.scores import BASE, SINGLE_TURN, TRAINED, Comparison, Scores
from text2sql.judge.verdicts import Verdict
from text2sql.questions import Question
from text2sql.rollouts.located import LocatedRollouts, whole_rows

Classes = Mapping[str, Sequence[str]]
"""The classes of failure of each failed question, by its key."""
_QUESTION = ("key", "db_id", "difficulty", "subset", "question", "evidence")


@dataclass(frozen=True)
class Evaluated:
    """One policy's rollouts and where they are stored.

    ``greedy`` has one rollout per question, ``single_turn`` one without tools.
    """

    name: str
    greedy: LocatedRollouts
    sampled: LocatedRollouts
    single_turn: LocatedRollouts = field(default_factory=LocatedRollouts)

    @property
    def sets(self) -> dict[str, LocatedRollouts]:
        """The rollouts by the name of their set."""
        return {"greedy": self.greedy, "sampled": self.sampled, SINGLE_TURN: self.single_turn}


@dataclass(frozen=True)
class PreviousChampion:
    """The champion that the trained policy is compared with, and the questions that differ."""

    training_run: str
    comparison: Comparison
    gained: Sequence[str]
    lost: Sequence[str]


def details_of(
    run: str,
    questions: Sequence[Question],
    scores: Scores,
    policies: Sequence[Evaluated],
    root: Path,
    before: PreviousChampion | None = None,
    rules: RuleResults | None = None,
) -> dict[str, Any]:
    """Return what the report of a training run shows.

    ``policies`` are the base and the trained one; places are relative to ``root``. ``rules`` are
    the results of the other rules, if they were scored.
    """
    by_key = {question.key: question for question in questions}
    classes, counts = {}, {}
    for policy in policies:
        found = classes[policy.name] = classify(policy.greedy.rollouts, by_key)
        verdicts = {rollout.key: rollout.verdict for rollout in policy.greedy.rollouts}
        counts[policy.name] = count_classes(found, verdicts)
    rows: list[dict[str, Any]] = [
        {name: getattr(one, name) for name in _QUESTION} | {"gold": one.sql} for one in questions
    ]
    for policy in policies:
        _add_answers(rows, policy, classes[policy.name], root)
    return {
        "run": run,
        "same_as_published": is_bird_dev(questions),
        "scores": scores.to_dict(),
        "classes": counts,
        "effort": {policy.name: _effort(policy) for policy in policies},
        "questions": rows,
        "examples": _examples(policies[1], rows, classes[TRAINED], root),
        "before": asdict(before) if before else None,
        "rules": {"changed": rules.changed, "timed_runs": rules.repeats} if rules else None,
    }


def _add_answers(
    rows: Sequence[dict[str, Any]], policy: Evaluated, classes: Classes, root: Path
) -> None:
    """Add a policy's answer to each question; ``solved`` counts its matching samples."""
    greedy = {one.rollout.key: one for one in policy.greedy}
    sampled: dict[str, list[bool]] = {}
    for rollout in policy.sampled.rollouts:
        if rollout.valid:
            sampled.setdefault(rollout.key, []).append(rollout.verdict == Verdict.MATCH)
    for row in rows:
        found = greedy.get(row["key"])
        samples = sampled.get(row["key"], [])
        row[policy.name] = {
            "verdict": found.rollout.verdict if found else "missing",
            "sql": (found.rollout.sql if found else "") or "",
            "error": found.rollout.error if found else "",
            "place": found.place.below(root) if found else "",
            "classes": list(classes.get(row["key"], ())),
            "solved": sum(samples),
            "samples": len(samples),
        }


def _effort(policy: Evaluated) -> dict[str, Any]:
    rows = (row for _, row in whole_rows(one.place for one in policy.greedy))
    return {
        name: effort([one for one in located.rollouts if one.valid])
        for name, located in policy.sets.items()
    } | {"tools": tool_use(rows)}


def _examples(
    policy: Evaluated, rows: Sequence[Mapping[str, Any]], classes: Classes, root: Path
) -> list[dict[str, Any]]:
    """Return failed rollouts with transcripts; the base's correct ones come first."""
    lost = {row["key"] for row in rows if row[BASE]["verdict"] == Verdict.MATCH}
    chosen = choose(classes, lost)
    places = {one.place: one.rollout.key for one in policy.greedy if one.rollout.key in chosen}
    found = {
        places[place]: {"place": place.below(root), "transcript": transcript(row["messages"])}
        for place, row in whole_rows(places)
    }
    return [{"key": key} | found[key] for key in chosen]
