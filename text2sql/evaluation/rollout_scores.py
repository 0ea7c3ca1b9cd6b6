"""From rollouts to scores: greedy, voting, pass@k and mean, with intervals, by slice of a split.

Rollouts that infrastructure failures invalidated count nowhere; a question without enough valid
ones is missing in that setting, never wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import fmean

from text2sql.evaluation.known_issues import Correction, judge_again
from text2sql.evaluation.scores import SINGLE_TURN, Comparison, Outcomes, Score, Scores, compare
from text2sql.evaluation.slices import (
    ALL,
    CORRECTED,
    DATABASE,
    DIFFICULTY,
    Slice,
    Strengths,
    slices_of,
)
from text2sql.evaluation.statistics import mean_interval, wilson
from text2sql.evaluation.vote_curve import Curve, ballots, curve
from text2sql.judge.verdicts import Verdict
from text2sql.questions import Question
from text2sql.rollouts.draw import vote_of
from text2sql.rollouts.located import by_question
from text2sql.rollouts.origin import require_dataset, require_modes, require_policy
from text2sql.rollouts.store import Rollout

SAMPLED = "sampled"
_SAMPLED = ("vote", "pass", "mean")
_CURVES = (ALL, DIFFICULTY, DATABASE)


@dataclass(frozen=True)
class PolicyRollouts:
    """What one policy did on a split: one greedy rollout a question, and k sampled ones.

    ``revision`` is the policy's, ``dataset`` the fingerprint of what it was asked, empty if
    unknown. ``single_turn`` are greedy rollouts without tools: the schema, one reply. ``asked``
    are the keys that were to be ``sampled``, and those for ``single-turn``: a question among them
    without any rollout is missing. Without ``asked``, only the rollouts say what was asked.
    """

    name: str
    revision: str
    greedy: Sequence[Rollout]
    sampled: Sequence[Rollout] = ()
    dataset: str = ""
    single_turn: Sequence[Rollout] = ()
    asked: Mapping[str, Collection[str]] = field(default_factory=dict)

    def agentic(self) -> Iterator[Rollout]:
        """Yield the greedy and the sampled rollouts: those of the agent with its tools."""
        return chain(self.greedy, self.sampled)


def outcomes_of(policy: PolicyRollouts, k: int) -> dict[str, Outcomes]:
    """Return each question's outcome by setting: ``greedy``, ``vote@k`` and so on."""
    found: dict[str, Outcomes] = {"greedy": _single_outcomes(policy.greedy)}
    if policy.single_turn or policy.asked.get(SINGLE_TURN):
        found[SINGLE_TURN] = _single_outcomes(policy.single_turn)
    if policy.sampled or policy.asked.get(SAMPLED):
        votes, passes, means = (found.setdefault(f"{name}@{k}", {}) for name in _SAMPLED)
        for key, group in _complete(policy.sampled, k):
            right = [_is_right(rollout) for rollout in group]
            winner = vote_of(group).index
            votes[key] = max((_is_right(r) for r in group if r.sample == winner), default=0.0)
            passes[key], means[key] = max(right), fmean(right)
    return found


def _single_outcomes(rollouts: Iterable[Rollout]) -> Outcomes:
    """Return the outcome of each question with one rollout."""
    return {rollout.key: _is_right(rollout) for rollout in rollouts if rollout.valid}


def _complete(sampled: Sequence[Rollout], k: int) -> Iterator[tuple[str, list[Rollout]]]:
    """Yield the first ``k`` valid rollouts of every question that has so many."""
    for key, group in by_question(sampled):
        if len(group) >= k:
            yield key, group[:k]


def _is_right(rollout: Rollout) -> float:
    return 1.0 if rollout.verdict == Verdict.MATCH else 0.0


def score_policies(
    questions: Sequence[Question],
    base: PolicyRollouts,
    trained: PolicyRollouts,
    k: int,
    provenance: Mapping[str, str] | None = None,
    strengths: Strengths | None = None,
    corrections: Mapping[str, Correction] | None = None,
    empty: Collection[str] = (),
    failing: Collection[str] = (),
) -> Scores:
    """Score two policies on the same questions, everywhere with 95 % intervals.

    ``strengths`` adds slices of strong and weak questions, ``corrections`` the corrected accuracy.
    ``empty`` are the keys of questions whose gold returns no row, ``failing`` of those whose gold
    does not run; they are slices as well. Raises Text2SqlError where rollouts are of another
    policy revision, or datasets differ.
    """
    policies = (base, trained)
    require_dataset({policy.name: policy.dataset for policy in policies})
    for policy in policies:
        sets = (policy.greedy, policy.sampled, policy.single_turn)
        require_policy(policy.name, policy.revision, *sets)
        require_modes(policy.name, policy.agentic(), policy.single_turn)
    slices = slices_of(questions, strengths, empty, failing)
    scores, comparisons = _score_slices(policies, slices, k)
    if corrections:
        corrected = [
            replace(
                policy,
                greedy=list(judge_again(policy.greedy, corrections)),
                sampled=list(judge_again(policy.sampled, corrections)),
                single_turn=list(judge_again(policy.single_turn, corrections)),
            )
            for policy in policies
        ]
        flagged = {key for key, one in corrections.items() if one.issue.kind == "flagged"}
        unflagged = [question.key for question in questions if question.key not in flagged]
        more = _score_slices(corrected, [Slice(CORRECTED, CORRECTED, unflagged)], k)
        scores, comparisons = scores + more[0], comparisons + more[1]
    kinds = Counter(correction.issue.kind for correction in (corrections or {}).values())
    return Scores(
        k=k,
        questions=len(questions),
        revisions={policy.name: policy.revision for policy in policies},
        scores=scores,
        comparisons=comparisons,
        verdicts={
            policy.name: dict(Counter(str(one.verdict) for one in policy.greedy).most_common())
            for policy in policies
        },
        write_rate={
            policy.name: _share(bool(one.write_attempts) for one in policy.agentic() if one.valid)
            for policy in policies
        },
        missing={policy.name: _missing(policy, questions, k) for policy in policies},
        infrastructure={
            policy.name: _share(not one.valid for one in (*policy.agentic(), *policy.single_turn))
            for policy in policies
        },
        provenance=dict(provenance or {}),
        strong=strengths.bound if strengths else None,
        issues=dict(kinds),
        curves=[found for policy in policies for found in _curves(policy, slices, k)],
    )


def _score_slices(
    policies: Iterable[PolicyRollouts], slices: Sequence[Slice], k: int
) -> tuple[list[Score], list[Comparison]]:
    """Score two policies on some slices, and compare the second with the first."""
    outcomes = {policy.name: outcomes_of(policy, k) for policy in policies}
    scores = [
        _score(policy, setting, one, [found[key] for key in one.keys if key in found])
        for policy, settings in outcomes.items()
        for setting, found in settings.items()
        for one in slices
    ]
    base, trained = outcomes.values()
    comparisons = [
        compare(setting, one.kind, one.name, base[setting], trained[setting], one.keys)
        for setting in ("greedy", SINGLE_TURN, f"vote@{k}")
        if setting in base and setting in trained
        for one in slices
    ]
    return scores, comparisons


def _score(policy: str, setting: str, one: Slice, values: Sequence[float]) -> Score:
    value = fmean(values) if values else 0.0
    binary = all(value in (0.0, 1.0) for value in values) and not setting.startswith("mean")
    low, high = wilson(sum(values), len(values)) if binary else mean_interval(values)
    return Score(policy, setting, one.kind, one.name, value, low, high, len(values))


def _curves(policy: PolicyRollouts, slices: Sequence[Slice], k: int) -> list[Curve]:
    """Return a policy's curves over the questions with ``k`` valid sampled rollouts."""
    counted = {
        # A rollout without a vote stands with an empty digest.
        key: ballots(
            [(r.digest if r.submission.has_vote else "", _is_right(r) == 1.0) for r in group]
        )
        for key, group in _complete(policy.sampled, k)
    }
    if not counted:
        return []
    return [
        curve(policy.name, one.kind, one.name, [counted[key] for key in one.keys if key in counted])
        for one in slices
        if one.kind in _CURVES
    ]


def _missing(policy: PolicyRollouts, questions: Sequence[Question], k: int) -> int:
    """Count the questions that lack a valid rollout in a setting that they were asked in."""
    greedy = _single_outcomes(policy.greedy)
    sampled = {key: len(group) >= k for key, group in by_question(policy.sampled)}
    once = {rollout.key: False for rollout in policy.single_turn}
    once |= dict.fromkeys(_single_outcomes(policy.single_turn), True)
    lacking = set()
    for name, done in ((SAMPLED, sampled), (SINGLE_TURN, once)):
        lacking |= {key for key in (*policy.asked.get(name, ()), *done) if not done.get(key)}
    return sum(question.key not in greedy or question.key in lacking for question in questions)


def _share(found: Iterable[bool]) -> float:
    counts = Counter(found)
    return counts[True] / max(1, counts.total())
