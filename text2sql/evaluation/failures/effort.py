"""What answers cost: turns, tool calls, tokens and time, and how often they were cut short."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import fmean, median, quantiles
from typing import Any

from text2sql.judge.verdicts import Verdict
from text2sql.rollouts.store import Rollout


def effort(rollouts: Iterable[Rollout]) -> dict[str, Any]:
    """Sum up some rollouts, read once; tokens and seconds are per rollout, shares 0 to 1.

    ``truncated`` is the share that ran into the limit of a reply or of the context; ``turns``
    counts rollouts by their turns.
    """
    seconds, prompt, completion = array("d"), array("q"), array("q")
    turns, verdicts, ends = Counter[int](), Counter[str](), Counter[str]()
    for rollout in rollouts:
        seconds.append(rollout.seconds)
        prompt.append(rollout.prompt_tokens)
        completion.append(rollout.completion_tokens)
        turns[rollout.turns] += 1
        verdicts[rollout.verdict] += 1
        ends[rollout.stop_reason] += 1
    if not seconds:
        return {}
    return {
        "rollouts": len(seconds),
        "turns": dict(sorted(turns.items())),
        "mean_turns": fmean(turns.elements()),
        "truncated": verdicts[Verdict.TRUNCATED] / len(seconds),
        "prompt_tokens": fmean(prompt),
        "completion_tokens": fmean(completion),
        "median_seconds": median(seconds),
        "p95_seconds": quantiles(seconds, n=20, method="inclusive")[-1]
        if seconds[1:]
        else seconds[0],
        "stop_reasons": dict(ends.most_common()),
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
