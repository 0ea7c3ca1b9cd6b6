"""A server that spoils a share of its replies: what that does to the rollouts' verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.rollout_server import RolloutServer
from benchmarks.rollout_setting import Drawing
from text2sql.policy.served.server import Retry
from text2sql.rollouts.store import Rollout

_REQUEST_SECONDS = 2.0


def measure(
    folder: Path, count: int = 400, share: float = 0.2, seed: int = 0, retry: Retry | None = None
) -> dict[str, Any]:
    """Draw the same rollouts without faults, with them, and once more what they spoilt.

    ``judged_otherwise`` counts the valid rollouts whose verdict, SQL or result differ from those
    without faults, ``unaccounted`` those that have neither a verdict nor a reason.
    """
    with RolloutServer() as server:
        plain = _draw(folder, server, "plain.jsonl", count, retry)
    with RolloutServer("--faults", str(share), "--seed", str(seed)) as server:
        started = perf_counter()
        faulty = _draw(folder, server, "faulty.jsonl", count, retry)
        seconds = perf_counter() - started
        seen = server.seen()
        again = _draw(folder, server, "faulty.jsonl", count, retry)
    return {
        "rollouts": count,
        "share": share,
        "seed": seed,
        "requests": seen["requests"],
        "faults": seen["faults"],
        "seconds": round(seconds, 1),
        "verdicts_without_faults": _verdicts(plain),
        "verdicts": _verdicts(faulty),
        "verdicts_after_asking_again": _verdicts(again),
        "judged_otherwise": _differing(plain, faulty) + _differing(plain, again),
        "unaccounted": sum(not r.verdict or not (r.valid or r.error) for r in faulty),
    }


def _draw(
    folder: Path, server: RolloutServer, store: str, count: int, retry: Retry | None
) -> list[Rollout]:
    seconds = _REQUEST_SECONDS
    drawing = Drawing(folder, server.url, store, count, retry=retry, request_seconds=seconds)
    return drawing.run()


def _verdicts(rollouts: Sequence[Rollout]) -> dict[str, int]:
    return dict(Counter(rollout.verdict for rollout in rollouts).most_common())


def _differing(plain: Sequence[Rollout], others: Sequence[Rollout]) -> int:
    return sum(
        other.valid
        and (one.verdict, one.sql, one.digest) != (other.verdict, other.sql, other.digest)
        for one, other in zip(plain, others, strict=True)
    )
