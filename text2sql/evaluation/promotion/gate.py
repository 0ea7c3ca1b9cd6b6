"""When a trained policy may take over, and when it does: the promotion gate and its decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal

from text2sql.common.counting import counted
from text2sql.evaluation.promotion.candidate import SETTING, Candidate, Rival
from text2sql.evaluation.scores import BASE, TRAINED, Comparison, compare
from text2sql.evaluation.statistics import p_equals

ACCURACY, WRITES, COMPLETE, BACK_TEST = (
    "accuracy_holds",
    "writes_bounded",
    "evaluation_complete",
    "back_test",
)
"""The gate's checks, named as in Dagster."""


@dataclass(frozen=True)
class GateRules:
    """What a candidate must keep to, and what makes it champion.

    ``significance``: a difference to the base or the champion with a smaller p-value is real;
    ``write_rate``: the share of rollouts that may try to write; ``missing``: the share of
    questions that may lack a valid result; ``infrastructure``: the share of rollouts that may
    have been spoilt. ``promote``: whether a candidate has to be ``better`` than the champion
    beyond noise to replace it, or only ``not_worse``.
    """

    significance: float = 0.05
    write_rate: float = 0.01
    missing: float = 0.01
    infrastructure: float = 0.05
    promote: Literal["better", "not_worse"] = "better"


@dataclass(frozen=True)
class Finding:
    """What one check of the gate says; ``passed`` is None where it was not held."""

    check: str
    passed: bool | None
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Standing:
    """A candidate beside another policy on the same questions; shares lie between 0 and 1."""

    than: str
    mine: float
    its: float
    pairs: Comparison
    significance: float

    @property
    def better(self) -> bool:
        """Whether the candidate is better beyond noise."""
        return self._real and self.pairs.won > self.pairs.lost

    @property
    def worse(self) -> bool:
        """Whether the candidate is worse beyond noise."""
        return self._real and self.pairs.lost > self.pairs.won

    @property
    def _real(self) -> bool:
        return self.pairs.p < self.significance

    def __str__(self) -> str:
        """Return the verdict and its figures, without a full stop."""
        words = "worse" if self.worse else "better" if self.better else "not better"
        return (
            f"{words} beyond noise than {self.than}: {100 * self.mine:.1f} vs {100 * self.its:.1f},"
            f" {self.pairs.won} gained, {self.pairs.lost} lost of {self.pairs.n:,}"
            f" (McNemar exact, {p_equals(self.pairs.p)})"
        )


def hold_checks(candidate: Candidate, rival: Rival | None, rules: GateRules) -> list[Finding]:
    """Hold the gate's checks except for the back-test, which asks both policies."""
    return [
        _accuracy(candidate, rival, rules),
        _writes(candidate, rules),
        _complete(candidate, rules),
    ]


def _accuracy(candidate: Candidate, rival: Rival | None, rules: GateRules) -> Finding:
    base = against_base(candidate, rules)
    sentences, passed = ([_sentence(base)], not base.worse) if base else ([], True)
    if rival is None:
        sentences.append("There is no champion yet.")
    elif rival.revision == candidate.revision:
        sentences.append(f"It has the champion's own weights ({rival.name}).")
    elif different := rival.differs(candidate):
        passed = False
        sentences.append(_not_comparable(candidate.training_run, rival, different))
    else:
        standing = against(candidate, rival, rules)
        sentences.append(_sentence(standing))
        passed = passed and not standing.worse
        if standing.pairs.n < (1 - rules.missing) * candidate.scores.questions:
            passed = False
            sentences.append(
                f"Only {standing.pairs.n:,} of {counted(candidate.scores.questions, 'question')} "
                "got a result of both."
            )
    return Finding(ACCURACY, passed, " ".join(sentences))


def _not_comparable(run: str, rival: Rival, different: str) -> str:
    """Say why there is no comparison with the champion, and what can be done."""
    known = f"evaluated on {different}" if rival.dataset else "not asked these questions"
    return (
        f"It cannot be compared with {rival.name}, which was {known}. Materialize dev_rollouts "
        f"and dev_scores for {run} again, which asks that champion, too. Where the run's log says "
        "that it cannot be asked (it is gone, or was made for other agent settings and so gets "
        f"other prompts each time), only a person can decide: promote {run} whatever the gate "
        f"says, with text2sql champion promote {run} --reason WHY, or in the UI with "
        "champion_policy and the action promote_by_hand."
    )


def against_base(candidate: Candidate, rules: GateRules) -> Standing | None:
    """Return how the candidate stands to the policy that it was trained from."""
    scores = candidate.scores
    mine, its = scores.find(TRAINED, SETTING), scores.find(BASE, SETTING)
    for pairs in scores.comparisons:
        if (pairs.setting, pairs.part) == (SETTING, "all") and mine and its:
            return Standing("the base", mine.value, its.value, pairs, rules.significance)
    return None


def against(candidate: Candidate, rival: Rival, rules: GateRules) -> Standing:
    """Return how the candidate stands to the champion, on the questions that both answered."""
    old, new = rival.outcomes, candidate.outcomes
    both = [key for key in new if key in old]
    mine, its = (sum(one[key] for key in both) / max(1, len(both)) for one in (new, old))
    pairs = compare(SETTING, "all", "", old, new, both)
    return Standing(rival.name, mine, its, pairs, rules.significance)


def _writes(candidate: Candidate, rules: GateRules) -> Finding:
    rate = candidate.scores.write_rate.get(TRAINED, 0.0)
    words = f"It tries to write in {rate:.1%} of its rollouts; {rules.write_rate:.1%} are allowed."
    return Finding(WRITES, rate <= rules.write_rate, words)


def _complete(candidate: Candidate, rules: GateRules) -> Finding:
    scores = candidate.scores
    missing, spoilt = scores.missing.get(TRAINED, 0), scores.infrastructure.get(TRAINED, 0.0)
    words = (
        f"Results are missing for {missing:,} of {counted(scores.questions, 'question')} "
        f"({rules.missing:.1%} are allowed), and the infrastructure spoilt {spoilt:.1%} of the "
        f"rollouts ({rules.infrastructure:.1%} are allowed)."
    )
    passed = missing <= rules.missing * scores.questions and spoilt <= rules.infrastructure
    return Finding(COMPLETE, passed and scores.questions > 0, words)


def _sentence(standing: Standing) -> str:
    return f"{_capital(str(standing))}."


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


class Outcome(StrEnum):
    """What becomes of a candidate."""

    PROMOTED = "promoted"
    KEPT = "champion kept"
    REFUSED = "refused"


@dataclass(frozen=True)
class Decision:
    """What becomes of a candidate, and why, in a sentence or two."""

    outcome: Outcome
    sentence: str


def decide(
    candidate: Candidate, rival: Rival | None, findings: Sequence[Finding], rules: GateRules
) -> Decision:
    """Decide on a candidate whose checks were held; a check that was not held refuses it."""
    run = candidate.training_run
    if bad := [finding.sentence for finding in findings if not finding.passed]:
        return Decision(
            Outcome.REFUSED, f"The training run {run} cannot take over. {' '.join(bad)}"
        )
    if rival is None:
        base = against_base(candidate, rules)
        words = f" It is {base}." if base else ""
        return Decision(Outcome.PROMOTED, f"{run} is the first champion.{words}")
    stays = f"{_capital(rival.name)} stays"
    if rival.revision == candidate.revision:
        return Decision(Outcome.KEPT, f"{stays}: {run} has the same weights.")
    standing = against(candidate, rival, rules)
    if standing.better:
        return Decision(Outcome.PROMOTED, f"{run} is {standing}.")
    if rules.promote == "not_worse":
        return Decision(Outcome.PROMOTED, f"{run} takes over, as not_worse asks: it is {standing}.")
    return Decision(Outcome.KEPT, f"{stays}: {run} is {standing}.")


def by_hand(findings: Sequence[Finding]) -> str:
    """Say which checks speak against a promotion by hand."""
    failed = [finding.check for finding in findings if finding.passed is False]
    not_held = [finding.check for finding in findings if finding.passed is None]
    words = f"in spite of {', '.join(failed)}" if failed else "no check that was held failed"
    return f"{words}; not held: {', '.join(not_held)}" if not_held else words


def remembered_back_test(
    record: Mapping[str, Any], champion: Mapping[str, Any], candidate: Candidate
) -> Finding:
    """Return what ``back_test.json`` says of this candidate against this champion."""
    if not champion:
        return Finding(BACK_TEST, True, "There is no champion yet that it could be worse than.")
    revisions = (record.get("champion_revision"), record.get("candidate_revision"))
    if revisions != (champion["revision"], candidate.revision):
        return Finding(BACK_TEST, None, "The back-test was not held against this champion.")
    return Finding(BACK_TEST, bool(record["passed"]), str(record["sentence"]))
