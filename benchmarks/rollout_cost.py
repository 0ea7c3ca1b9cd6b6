"""What a rollout of four calls costs in processor time, and what 256 at once need of memory.

The server answers at once from a process of its own, so that only the client is measured.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from benchmarks.measuring import cpu_seconds, resident_mb
from benchmarks.rollout_server import RolloutServer
from benchmarks.rollout_setting import Drawing, build, golds_of, questions_on
from text2sql.agent.loop import run_episode
from text2sql.agent.settings import AgentSettings
from text2sql.agent.tool_calls import TOOL_SCHEMAS
from text2sql.common.progress import show_progress
from text2sql.policy.base import Sampling
from text2sql.policy.served.server import ServerPolicy
from text2sql.questions import Question
from text2sql.rollouts.draw import RolloutPlan
from text2sql.rollouts.store import RolloutStore
from text2sql.sandbox import Sandbox

CALLS = 4
_SETTINGS = AgentSettings()
_SAMPLING = Sampling(temperature=1.0)
_POINTS = 20

Work = Callable[[], Awaitable[Any]]


def processor_time(
    folder: Path, count: int = 1000, rounds: int = 3, together: int = 64
) -> dict[str, Any]:
    """Measure milliseconds of processor time a rollout; the median of some rounds counts.

    ``agent`` is the chat loop alone, ``stored`` judges and stores each rollout as well,
    ``requests_bare`` sends the same requests with aiohttp and reads the answers.
    """
    questions = questions_on(build(folder), count)
    with RolloutServer() as server, Sandbox(1) as sandbox:
        found = asyncio.run(_rounds(folder, server.url, sandbox, questions, rounds, together))
    ratio = found["agent"]["client_ms"] / found["requests_bare"]["client_ms"]
    return {
        "rollouts": count,
        "calls": CALLS,
        "concurrency": together,
        **found,
        "agent_to_bare": round(ratio, 2),
    }


async def _rounds(
    folder: Path, url: str, sandbox: Sandbox, questions: list[Question], rounds: int, together: int
) -> dict[str, Any]:
    import aiohttp

    policy = ServerPolicy(url, "bench")
    golds = golds_of(questions, sandbox)
    bodies = await _bodies(questions[0], policy, sandbox)
    workers = [worker.process.pid for worker in sandbox._alive]
    stores = iter(RolloutStore(folder / f"cost-{number}.jsonl") for number in range(rounds))

    async def agent() -> None:
        await _each(questions, together, lambda q: _episode(q, policy, sandbox))

    async def stored() -> None:
        plan = RolloutPlan(policy, sandbox, _SETTINGS, _SAMPLING, golds=golds, concurrency=together)
        await plan.rollouts(questions, next(stores))

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def bare() -> None:
            await _each(questions, together, lambda q: _post_all(session, url, bodies))

        works = {"agent": agent, "stored": stored, "requests_bare": bare}
        found = {
            name: [await _cost(work, workers) for _ in range(rounds)]
            for name, work in works.items()
        }
    await policy.close()
    return {name: _median(costs, len(questions)) for name, costs in found.items()}


async def _cost(work: Work, workers: list[int]) -> dict[str, float]:
    wall, own, theirs = perf_counter(), process_time(), cpu_seconds(workers)
    await work()
    return {
        "client_ms": process_time() - own,
        "sandbox_workers_ms": cpu_seconds(workers) - theirs,
        "wall_ms": perf_counter() - wall,
    }


def _median(costs: list[dict[str, float]], count: int) -> dict[str, float]:
    return {name: round(median(cost[name] for cost in costs) / count * 1e3, 2) for name in costs[0]}


async def _each(
    questions: list[Question], together: int, work: Callable[[Question], Awaitable[Any]]
) -> None:
    """Do something for each question, some at a time."""
    queue = iter(questions)

    async def some() -> None:
        for question in queue:
            await work(question)

    await asyncio.gather(*(some() for _ in range(together)))


async def _episode(question: Question, policy: ServerPolicy, sandbox: Sandbox) -> Any:
    episode = await run_episode(question, policy, sandbox, _SETTINGS, _SAMPLING)
    assert (episode.stop_reason, len(episode.tool_log)) == ("submit", CALLS)
    return episode


async def _bodies(question: Question, policy: ServerPolicy, sandbox: Sandbox) -> list[bytes]:
    """Return the requests of one rollout as they are sent."""
    messages = (await _episode(question, policy, sandbox)).messages
    ends = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    about = {"model": "bench", "temperature": 1.0, "top_p": 1.0, "max_tokens": 2048}
    return [
        json.dumps({**about, "messages": messages[:end], "tools": TOOL_SCHEMAS}).encode()
        for end in ends
    ]


async def _post_all(session: Any, url: str, bodies: list[bytes]) -> None:
    for body in bodies:
        async with session.post(f"{url}/chat/completions", data=body) as response:
            await response.read()


def memory(folder: Path, count: int = 10_000, together: int = 256) -> dict[str, Any]:
    """Measure the memory of this process while many rollouts run at once, the server 0.2 s late.

    ``growth_kb`` is what one more finished rollout adds after the first quarter.
    """
    seen: list[tuple[int, float]] = []
    with RolloutServer("--delay", "0.2") as server, show_progress("memory", print) as bar:

        def note(done: int, total: int) -> None:
            bar(done, total)
            if done % max(1, total // _POINTS) == 0:
                seen.append((done, resident_mb()))

        drawing = Drawing(folder, server.url, "memory.jsonl", count // 20, 20, together)
        started = perf_counter()
        drawing.run(note)
        seconds = perf_counter() - started
    quarter, end = seen[len(seen) // 4], seen[-1]
    growth = (end[1] - quarter[1]) * 1024 / (end[0] - quarter[0])
    return {
        "rollouts": end[0],
        "concurrency": together,
        "seconds": round(seconds, 1),
        "resident_mb": {str(done): round(mb, 1) for done, mb in seen},
        "growth_kb_a_rollout": round(growth, 2),
        "store_mb": round(drawing.path.stat().st_size / 1e6, 1),
    }
