"""When a trained policy may take over: the rules of the promotion gate."""

from __future__ import annotations

from dataclasses import dataclass

from text2sql.scores import TRAINED, Comparison, Scores


@dataclass(frozen=True)
class GateRules:
    """What a candidate must keep to.

    ``significance``: a loss against the base or the champion with a smaller p-value is real;
    ``write_rate``: the share of rollouts that may try to write; ``missing``: the share of
    questions that may lack a valid result.
    """

    significance: float = 0.05
    write_rate: float = 0.01
    missing: float = 0.01


def objections(
    scores: Scores, rules: GateRules, against_champion: Comparison | None = None
) -> list[str]:
    """Return what speaks against a candidate, a sentence each; none means it may take over."""
    found = []
    comparisons = {"the base": _greedy(scores), "the champion": against_champion}
    for rival, comparison in comparisons.items():
        if comparison and comparison.lost > comparison.won and comparison.p < rules.significance:
            found.append(
                f"It is worse than {rival}: {comparison.won} questions won, {comparison.lost} "
                f"lost of {comparison.n} (p = {comparison.p:.3g})."
            )
    if scores.write_rate[TRAINED] > rules.write_rate:
        found.append(f"It tries to write in {scores.write_rate[TRAINED]:.1%} of its rollouts.")
    if scores.missing[TRAINED] > rules.missing * scores.questions:
        found.append(f"Results are missing for {scores.missing[TRAINED]} questions.")
    return found


def _greedy(scores: Scores) -> Comparison | None:
    wanted = ("greedy", "all")
    return next((c for c in scores.comparisons if (c.setting, c.part) == wanted), None)
