"""When a trained policy may take over, and when it does: the promotion gate and its decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from text2sql.common.counting import counted
from text2sql.evaluation.promotion.candidate import SETTING, Candidate, Rival
from text2sql.evaluation.scores import BASE, TRAINED, Comparison, compare
from text2sql.evaluation.statistics import p_equals

ACCURACY, WRITES = "accuracy_holds", "writes_bounded"
COMPLETE, BACK_TEST = "evaluation_complete", "back_test"
"""The gate's checks, named as in Dagster."""


def _rule(default: Any, description: str, **bounds: float) -> Any:
    return field(default=default, metadata={"description": description, **bounds})


@dataclass(frozen=True)
class GateRules:
    """What a candidate must satisfy, and what makes it champion.

    The one definition of these settings: Dagster's resource ``gate`` and the options of ``text2sql
    champion promote`` take name, default, description and bounds (pydantic's names) from here.
    """

    significance: float = _rule(
        0.05,
        "A difference from the base or the champion with a smaller p-value (McNemar, exact) is "
        "beyond noise.",
        gt=0,
        lt=1,
    )
    write_rate: float = _rule(0.01, "Share of rollouts that may attempt a write.", ge=0, le=1)
    missing: float = _rule(0.01, "Share of dev questions that may lack a valid result.", ge=0, le=1)
    infrastructure: float = _rule(
        0.05, "Share of rollouts that failures of servers and workers may invalidate.", ge=0, le=1
    )
    promote: Literal["better", "not_worse"] = _rule(
        "better",
        "'better': a candidate replaces the champion only if it is better beyond noise; "
        "'not_worse': if it passes the gate.",
    )


@dataclass(frozen=True)
class Finding:
    """What one check of the gate found; ``passed`` is None where it was not run."""

    check: str
    passed: bool | None
    sentence: str


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
        return self.pairs.p < self.significance and self.pairs.won > self.pairs.lost

    @property
    def worse(self) -> bool:
        """Whether the candidate is worse beyond noise."""
        return self.pairs.p < self.significance and self.pairs.lost > self.pairs.won

    def __str__(self) -> str:
        """Return the verdict and its figures, without a full stop."""
        words = "worse" if self.worse else "better" if self.better else "not better"
        return (
            f"{words} beyond noise than {self.than}: {100 * self.mine:.1f} vs {100 * self.its:.1f},"
            f" {self.pairs.won} gained, {self.pairs.lost} lost of {self.pairs.n:,}"
            f" (McNemar exact, {p_equals(self.pairs.p)})"
        )


def run_checks(candidate: Candidate, rival: Rival | None, rules: GateRules) -> list[Finding]:
    """Run the gate's checks except for the back-test, which has to ask both policies."""
    scores = candidate.scores
    rate = scores.write_rate.get(TRAINED, 0.0)
    writes = f"{rate:.1%} of its rollouts attempted a write (limit {rules.write_rate:.1%})."
    missing, invalid = scores.missing.get(TRAINED, 0), scores.infrastructure.get(TRAINED, 0.0)
    lost = (
        f"Results are missing for {missing:,} of {counted(scores.questions, 'question')} "
        f"(limit {rules.missing:.1%}), and infrastructure failures invalidated {invalid:.1%} of "
        f"the rollouts (limit {rules.infrastructure:.1%})."
    )
    few = missing <= rules.missing * scores.questions and invalid <= rules.infrastructure
    return [
        _accuracy(candidate, rival, rules),
        Finding(WRITES, rate <= rules.write_rate, writes),
        Finding(COMPLETE, few and scores.questions > 0, lost),
    ]


def _accuracy(candidate: Candidate, rival: Rival | None, rules: GateRules) -> Finding:
    base = _against_base(candidate, rules)
    sentences, passed = ([f"{_capital(str(base))}."], not base.worse) if base else ([], True)
    if rival is None:
        sentences.append("There is no champion yet.")
    elif rival.revision == candidate.revision:
        sentences.append(f"It has the champion's own weights ({rival.name}).")
    elif different := rival.differs(candidate):
        passed = False
        sentences.append(_not_comparable(candidate.training_run, rival, different))
    else:
        standing = _against(candidate, rival, rules)
        sentences.append(f"{_capital(str(standing))}.")
        passed = passed and not standing.worse
        if standing.pairs.n < (1 - rules.missing) * candidate.scores.questions:
            passed = False
            sentences.append(
                f"Only {standing.pairs.n:,} of {counted(candidate.scores.questions, 'question')} "
                "have a result of both."
            )
    return Finding(ACCURACY, passed, " ".join(sentences))


def _not_comparable(run: str, rival: Rival, different: str) -> str:
    """Say why a comparison with the champion is impossible, and what to do."""
    known = f"evaluated on {different}" if rival.dataset else "not asked these questions"
    return (
        f"It cannot be compared with {rival.name}, which was {known}. Materialize dev_rollouts "
        f"and dev_scores for {run} again, which also asks that champion. If the run's log says "
        "that the champion cannot be asked (it is gone, or was made for other agent settings and "
        f"so gets other prompts each time), only a person can decide: promote {run} whatever the "
        f"gate says, with text2sql champion promote {run} --reason WHY, or in the UI with "
        "champion_policy and the action promote_by_hand."
    )


def _against_base(candidate: Candidate, rules: GateRules) -> Standing | None:
    """Compare a candidate with the policy that it was trained from."""
    scores = candidate.scores
    mine, its = scores.find(TRAINED, SETTING), scores.find(BASE, SETTING)
    for pairs in scores.comparisons:
        if (pairs.setting, pairs.part) == (SETTING, "all") and mine and its:
            return Standing("the base", mine.value, its.value, pairs, rules.significance)
    return None


def _against(candidate: Candidate, rival: Rival, rules: GateRules) -> Standing:
    """Compare a candidate with the champion on the questions that both answered."""
    old, new = rival.outcomes, candidate.outcomes
    both = [key for key in new if key in old]
    mine, its = (sum(one[key] for key in both) / max(1, len(both)) for one in (new, old))
    pairs = compare(SETTING, "all", "", old, new, both)
    return Standing(rival.name, mine, its, pairs, rules.significance)


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


class Ruling(StrEnum):
    """What happens to a candidate."""

    PROMOTED = "promoted"
    KEPT = "champion kept"
    REFUSED = "refused"


@dataclass(frozen=True)
class Decision:
    """What happens to a candidate, and why, in a sentence or two."""

    ruling: Ruling
    sentence: str


def decide(
    candidate: Candidate, rival: Rival | None, findings: Sequence[Finding], rules: GateRules
) -> Decision:
    """Decide on a candidate; a check that failed or was not run refuses it."""
    run = candidate.training_run
    if bad := [finding.sentence for finding in findings if not finding.passed]:
        return Decision(Ruling.REFUSED, f"The training run {run} cannot take over. {' '.join(bad)}")
    if rival is None:
        base = _against_base(candidate, rules)
        words = f" It is {base}." if base else ""
        return Decision(Ruling.PROMOTED, f"{run} is the first champion.{words}")
    stays = f"{_capital(rival.name)} stays"
    if rival.revision == candidate.revision:
        return Decision(Ruling.KEPT, f"{stays}: {run} has the same weights.")
    standing = _against(candidate, rival, rules)
    if standing.better:
        return Decision(Ruling.PROMOTED, f"{run} is {standing}.")
    if rules.promote == "not_worse":
        why = f"{run} is promoted (promote: not_worse): it is {standing}."
        return Decision(Ruling.PROMOTED, why)
    return Decision(Ruling.KEPT, f"{stays}: {run} is {standing}.")


def objections(findings: Sequence[Finding]) -> str:
    """Say which checks a promotion by hand overrides, and which were not run."""
    failed = [finding.check for finding in findings if finding.passed is False]
    not_run = [finding.check for finding in findings if finding.passed is None]
    words = f"in spite of {', '.join(failed)}" if failed else "no check failed"
    return f"{words}; not run: {', '.join(not_run)}" if not_run else words


def recorded_back_test(
    record: Mapping[str, Any], champion: Mapping[str, Any], candidate: Candidate
) -> Finding:
    """Return what ``back_test.json`` says of this candidate against this champion."""
    if not champion:
        return Finding(BACK_TEST, True, "No champion to compare with yet.")
    revisions = (record.get("champion_revision"), record.get("candidate_revision"))
    if revisions != (champion["revision"], candidate.revision):
        return Finding(BACK_TEST, None, "The back-test was not run against this champion.")
    return Finding(BACK_TEST, bool(record["passed"]), str(record["sentence"]))
