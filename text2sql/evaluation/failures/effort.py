"""What answers cost: turns, tool calls, tokens and time, and how often they were cut short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, quantiles
from typing import Any

from text2sql.judge.verdicts import Verdict
from text2sql.rollouts.store import Rollout


def effort(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Sum up some rollouts; tokens and seconds are per rollout, shares 0 to 1.

    ``truncated`` is the share that ran into the limit of a reply or of the context; ``turns``
    counts rollouts by their turns.
    """
    if not rollouts:
        return {}
    seconds = [one.seconds for one in rollouts]
    turns = Counter(one.turns for one in rollouts)
    slow = quantiles(seconds, n=20, method="inclusive")[-1] if seconds[1:] else seconds[0]
    return {
        "rollouts": len(rollouts),
        "turns": dict(sorted(turns.items())),
        "mean_turns": fmean(turns.elements()),
        "truncated": fmean(one.verdict == Verdict.TRUNCATED for one in rollouts),
        "prompt_tokens": fmean(one.prompt_tokens for one in rollouts),
        "completion_tokens": fmean(one.completion_tokens for one in rollouts),
        "median_seconds": median(seconds),
        "p95_seconds": slow,
        "stop_reasons": dict(Counter(one.stop_reason for one in rollouts).most_common()),
    }


def tool_use(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Count the calls of each tool in whole rollouts: how many, how they ended, how long."""
    calls = [call for row in rows for call in row["calls"]]
    found = []
    for name in sorted({call["name"] for call in calls}):
        its = [call for call in calls if call["name"] == name]
        ends = Counter(str(call.get("status", "")) or "unknown" for call in its)
        mean, ended = fmean(call["seconds"] for call in its), dict(ends.most_common())
        found.append({"tool": name, "calls": len(its), "mean_seconds": mean, "ended": ended})
    return found
