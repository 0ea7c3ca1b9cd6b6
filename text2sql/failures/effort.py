"""What answers cost: turns, tool calls, tokens and time, and how often they were cut short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, quantiles
from typing import Any

from text2sql.judge import Verdict
from text2sql.rollout_store import Rollout


def effort(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Sum up some rollouts; tokens and seconds are per rollout, shares between 0 and 1.

    ``truncated`` is the share that ran into the limit of a reply or of the context; ``turns``
    counts rollouts by their turns.
    """
    if not rollouts:
        return {}
    seconds = [rollout.seconds for rollout in rollouts]
    cut = sum(rollout.verdict == Verdict.TRUNCATED for rollout in rollouts)
    return {
        "rollouts": len(rollouts),
        "turns": dict(sorted(Counter(rollout.turns for rollout in rollouts).items())),
        "mean_turns": fmean(rollout.turns for rollout in rollouts),
        "truncated": cut / len(rollouts),
        "prompt_tokens": fmean(rollout.prompt_tokens for rollout in rollouts),
        "completion_tokens": fmean(rollout.completion_tokens for rollout in rollouts),
        "median_seconds": median(seconds),
        "p95_seconds": quantiles(seconds, n=20, method="inclusive")[-1]
        if seconds[1:]
        else seconds[0],
        "stop_reasons": dict(Counter(rollout.stop_reason for rollout in rollouts).most_common()),
    }


def tool_use(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Count the calls of each tool in whole rollouts: how many, how they ended, how long."""
    calls = [call for row in rows for call in row["calls"]]
    found = []
    for name in sorted({call["name"] for call in calls}):
        its = [call for call in calls if call["name"] == name]
        ends = Counter(str(call.get("status", "")) or "unknown" for call in its)
        found.append(
            {
                "tool": name,
                "calls": len(its),
                "mean_seconds": fmean(call["seconds"] for call in its),
                "ended": dict(ends.most_common()),
            }
        )
    return found
