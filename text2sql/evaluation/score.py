"""From rollouts to scores: greedy, voting, pass@k, mean, with intervals, per part of a split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from text2sql.evaluation.known_issues import Correction, judge_again
from text2sql.evaluation.outcomes import (
    SAMPLED,
    PolicyRollouts,
    complete,
    is_right,
    outcomes_of,
    valid_ones,
)
from text2sql.evaluation.parts import (
    ALL,
    CORRECTED,
    DATABASE,
    DIFFICULTY,
    Part,
    Strengths,
    parts_of,
)
from text2sql.evaluation.scores import SINGLE_TURN, Comparison, Outcomes, Score, Scores, compare
from text2sql.evaluation.statistics import Proportion, mean_interval
from text2sql.evaluation.vote_curve import Ballots, Curve, ballots, curve
from text2sql.questions import Question
from text2sql.rollouts.origin import require_dataset, require_modes, require_policy
from text2sql.rollouts.packed import RolloutTable, by_question
from text2sql.rollouts.store import Rollout


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

    Rollouts that the infrastructure spoilt count nowhere; a question without enough valid
    ones is missing in that setting, never wrong. With ``strengths`` strong and weak questions
    are scored apart; with ``corrections`` corrected accuracy stands beside the official one.
    ``empty`` are the keys of questions whose gold returns no row, ``failing`` of those whose gold
    does not run: they are shown apart as well.
    Raises Text2SqlError where rollouts are of another policy revision, or datasets differ.
    """
    policies = (base, trained)
    require_dataset({policy.name: policy.dataset for policy in policies})
    for policy in policies:
        sets = (policy.greedy, policy.sampled, policy.single_turn)
        require_policy(policy.name, policy.revision, *sets)
        require_modes(policy.name, policy.agentic(), policy.single_turn)
    parts = parts_of(questions, strengths, empty, failing)
    views = [_view(policies, parts, k)]
    if corrections:
        judged = (_corrected(policy, corrections) for policy in policies)
        views.append(_view(judged, [_corrected_part(questions, corrections)], k))
    kinds = Counter(correction.issue.kind for correction in (corrections or {}).values())
    return Scores(
        k=k,
        questions=len(questions),
        revisions={policy.name: policy.revision for policy in policies},
        scores=[score for scores, _ in views for score in scores],
        comparisons=[one for _, comparisons in views for one in comparisons],
        verdicts={policy.name: _verdicts(policy.greedy) for policy in policies},
        write_rate={policy.name: _write_rate(policy) for policy in policies},
        missing={policy.name: _missing(policy, questions, k) for policy in policies},
        infrastructure={policy.name: _spoilt(policy) for policy in policies},
        provenance=dict(provenance or {}),
        strong=strengths.bound if strengths else None,
        issues=dict(kinds),
        curves=[found for policy in policies for found in _curves(policy, parts, k)],
    )


def _view(
    policies: Iterable[PolicyRollouts], parts: Sequence[Part], k: int
) -> tuple[list[Score], list[Comparison]]:
    """Score parts of a split, and compare the second policy with the first."""
    outcomes = {policy.name: outcomes_of(policy, k) for policy in policies}
    scores = [
        _score(policy, setting, part, [found[key] for key in part.keys if key in found])
        for policy, settings in outcomes.items()
        for setting, found in settings.items()
        for part in parts
    ]
    base, trained = outcomes.values()
    return scores, _compare(base, trained, parts, k)


CURVE_PARTS = (ALL, DIFFICULTY, DATABASE)


def _curves(policy: PolicyRollouts, parts: Sequence[Part], k: int) -> list[Curve]:
    """Return a policy's curves over the questions with ``k`` valid sampled rollouts."""
    counted = {key: _ballots(group) for key, group in complete(policy.sampled, k)}
    if not counted:
        return []
    return [
        curve(
            policy.name, part.part, part.name, [counted[key] for key in part.keys if key in counted]
        )
        for part in parts
        if part.part in CURVE_PARTS
    ]


def _ballots(group: Sequence[Rollout]) -> Ballots:
    return ballots([(_voted(rollout), bool(is_right(rollout))) for rollout in group])


def _voted(rollout: Rollout) -> str:
    """Return the result that a rollout votes for, empty where it has no vote."""
    return rollout.digest if rollout.submission.has_vote else ""


def _corrected(policy: PolicyRollouts, corrections: Mapping[str, Correction]) -> PolicyRollouts:
    def judged(rollouts: Sequence[Rollout]) -> RolloutTable:
        return RolloutTable(judge_again(rollouts, corrections), sql=False)

    return replace(
        policy,
        greedy=judged(policy.greedy),
        sampled=judged(policy.sampled),
        single_turn=judged(policy.single_turn),
    )


def _corrected_part(questions: Sequence[Question], corrections: Mapping[str, Correction]) -> Part:
    flagged = {key for key, one in corrections.items() if one.issue.kind == "flagged"}
    return Part(CORRECTED, CORRECTED, [q.key for q in questions if q.key not in flagged])


def _score(policy: str, setting: str, part: Part, values: Sequence[float]) -> Score:
    value = fmean(values) if values else 0.0
    binary = all(value in (0.0, 1.0) for value in values) and not setting.startswith("mean")
    whole = Proportion(int(sum(values)), len(values)).interval
    low, high = whole if binary else mean_interval(values)
    return Score(policy, setting, part.part, part.name, value, low, high, len(values))


def _compare(
    base: Mapping[str, Outcomes],
    trained: Mapping[str, Outcomes],
    parts: Sequence[Part],
    k: int,
) -> list[Comparison]:
    wanted = ("greedy", SINGLE_TURN, f"vote@{k}")
    settings = [name for name in wanted if name in base and name in trained]
    return [
        compare(setting, part.part, part.name, base[setting], trained[setting], part.keys)
        for setting in settings
        for part in parts
    ]


def _verdicts(rollouts: Iterable[Rollout]) -> dict[str, int]:
    return dict(Counter(str(rollout.verdict) for rollout in rollouts).most_common())


def _write_rate(policy: PolicyRollouts) -> float:
    tried = Counter(bool(rollout.write_attempts) for rollout in valid_ones(policy.agentic()))
    return tried[True] / max(1, tried.total())


def _missing(policy: PolicyRollouts, questions: Sequence[Question], k: int) -> int:
    """Count the questions that lack a valid rollout of a setting that they were asked in."""
    greedy = {rollout.key for rollout in valid_ones(policy.greedy)}
    sampled = {key: len(group) >= k for key, group in by_question(policy.sampled)}
    once = {rollout.key: False for rollout in policy.single_turn}
    once |= {rollout.key: True for rollout in valid_ones(policy.single_turn)}
    broken = set()
    for name, done in ((SAMPLED, sampled), (SINGLE_TURN, once)):
        broken |= {key for key in (*policy.asked.get(name, ()), *done) if not done.get(key)}
    return sum(question.key not in greedy or question.key in broken for question in questions)


def _spoilt(policy: PolicyRollouts) -> float:
    """Return the share of a policy's rollouts that the infrastructure spoilt."""
    counts = Counter(rollout.valid for rollout in policy.rollouts())
    return counts[False] / max(1, counts.total())
