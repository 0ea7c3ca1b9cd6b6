"""The page of benchmarks: which numbers of ``benchmarks/results`` it shows, in tables.

``python -m benchmarks.page`` writes ``docs/benchmarks.md``; a test fails if that is out of date.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from text2sql.common.checkout import CHECKOUT

RESULTS = CHECKOUT / "benchmarks" / "results"
PAGE = CHECKOUT / "docs" / "benchmarks.md"

_TOP = """# Benchmarks

`make bench` runs all of them and writes this page; `python -m benchmarks.all --only sandbox` runs
one, and `--quick` a short form of each, which writes to `build/benchmarks` and not here. Compare
ratios, not seconds, between machines. The full results are in `benchmarks/results/`.

| benchmark | what | value |
|---|---|---|
"""
_ABOUT = """
## How it was measured

The load includes programs of idle priority, which run only when a core is free.

| benchmark | command | date | machine |
|---|---|---|---|
"""


TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class Row:
    """One number: what it is, where it lies in the result, and its unit."""

    what: str
    path: str
    unit: str = ""


@dataclass(frozen=True)
class Section:
    """The numbers of one result file."""

    result: str
    title: str
    rows: tuple[Row, ...]


_TYPED = (
    "13 prediction files in one",
    "1,534 distinct pairs",
    "13 runs, a file of 52 pairs each",
    "Spider's light pairs",
)
_HOW = {
    "official_to_one_worker": "one worker",
    "official_to_two_workers": "two workers",
    "official_to_known": "results known",
}


def _evaluation() -> Iterator[Row]:
    for place, processes in enumerate(("1 process", "2 processes")):
        for clock in ("wall_clock", "processor"):
            setup = f"{processes}, {clock.replace('_', ' ')}"
            path = f"evaluation/{place}/{clock}"
            yield Row(f"BIRD's style to ours ({setup})", f"{path}/official_to_ours", TIMES)
            yield Row(f"ours to each query once ({setup})", f"{path}/ours_to_floor", TIMES)
    yield Row("pairs judged, verdicts identical to BIRD's", "evaluation/0/identical_verdicts")
    yield Row("`text2sql evaluate` starts in", "evaluation_command/start_up_seconds/ours", "s")
    for name in _TYPED:
        for key, how in _HOW.items():
            path = f"evaluation_command/rows/{name}/{key}"
            yield Row(f"as typed, {name}: official style to ours, {how}", path, TIMES)
    for name in _TYPED[1], _TYPED[3]:  # the others repeat queries, which the floor runs again
        path = f"evaluation_command/rows/{name}/own_ms_a_pair"
        yield Row(f"as typed, {name}: our own cost a pair", path, "ms")


def _reports() -> Iterator[Row]:
    for kind, name in (("sqlite", "SQLite"), ("postgresql", "PostgreSQL")):
        yield Row(f"200 questions, 8 votes, one run ({name})", f"one_run/{kind}/seconds", "s")
        yield Row(
            f"memory per question on a second day ({name})",
            f"memory/{kind}/second_day/growth_kb_a_question",
            "kB",
        )
        yield Row(f"kills, answers lost ({name})", f"kills/{kind}/lost")
        yield Row(f"kills, answers stored twice ({name})", f"kills/{kind}/twice_at_the_end")


SECTIONS = (
    Section(
        "sandbox",
        "Sandbox, judge and vote",
        (
            *_evaluation(),
            Row("open, query, close to one query in the sandbox", "query/open_to_execute", TIMES),
            Row("the same, with many queries in one batch", "query/open_to_execute_many", TIMES),
            Row(
                "a late query ends after its limit, at most",
                "late_query/one_scalar_function/over_limit_ms_max",
                "ms",
            ),
            Row(
                "scoring and voting of stored rollouts, the most", "stored_rollouts/-1/seconds", "s"
            ),
            Row("number of those rollouts", "stored_rollouts/-1/rollouts"),
            Row("their highest memory", "stored_rollouts/-1/memory_peak_mb", "MB"),
        ),
    ),
    Section(
        "rollouts",
        "Rollouts",
        (
            Row(
                "a rollout of 4 calls, the client's processor time",
                "processor_time/agent/client_ms",
                "ms",
            ),
            Row("relative to the same requests alone", "processor_time/agent_to_bare", TIMES),
            Row("memory per rollout, 256 at once", "memory/growth_kb_a_rollout", "kB"),
            Row("20 % broken replies, judged differently", "faults/judged_otherwise"),
            Row("20 kills, rollouts lost", "kills/lost"),
            Row("20 kills, rollouts repeated", "kills/repeated"),
        ),
    ),
    Section(
        "ingestion",
        "Ingestion",
        (
            Row("databases", "corpus/megabytes", "MB"),
            Row(
                "time relative to copying, hashing, and running each gold once",
                "seconds/ingestion_to_floor",
                TIMES,
            ),
            Row("a rerun without changes", "seconds/nothing_changed", "s"),
            Row("highest memory", "memory/-1/peak_megabytes", "MB"),
        ),
    ),
    Section(
        "difficulty",
        "Difficulty filter",
        (
            Row("questions", "sizes/-1/questions"),
            Row("rollouts per second", "sizes/-1/sample/rollouts_per_second"),
            Row("highest memory while sampling", "sizes/-1/sample/memory_peak_mb", "MB"),
            Row("counting and filtering", "sizes/-1/filter/seconds", "s"),
            Row("highest memory while filtering", "sizes/-1/filter/memory_peak_mb", "MB"),
        ),
    ),
    Section("reports", "Scheduled answers", tuple(_reports())),
    Section(
        "evaluation_report",
        "Evaluation report",
        (
            Row("rollouts", "rollouts"),
            Row("reading, scoring, reporting", "seconds/all", "s"),
            Row("highest memory", "peak_mb", "MB"),
        ),
    ),
    Section(
        "training_kills",
        "Training",
        (
            Row("random moments at which a run was stopped", "kills/moments"),
            Row("moments at which prime-rl's programs ran", "kills/running"),
            Row("a process left 20 s after the grace period of 10 s", "kills/left"),
            Row(
                "from cancelling until every process is gone, at most",
                "kills/seconds/cancel/most",
                "s",
            ),
            Row(
                "the same, if nothing reacts to SIGTERM",
                "kills/seconds/cancel one that ignores it/most",
                "s",
            ),
            Row("from prime-rl's row to Dagster's line, at most", "progress/seconds/most", "s"),
            Row("memory of following 10,000 steps", "memory/10000_steps_mib", "MiB"),
        ),
    ),
    Section(
        "operations",
        "Dagster",
        (
            Row("loading the code location, median", "load_time/median_s", "s"),
            Row("its processor time", "load_time/processor_s", "s"),
            Row("importing dagster alone", "load_time/import_dagster_alone_processor_s", "s"),
            Row("memory of an idle web interface and daemon", "idle_memory/private_mb", "MB"),
            Row("processor over a script, without training", "overhead/more_cpu_percent", "%"),
            Row("wall clock over a script, without training", "overhead/more_wall_percent", "%"),
            Row("cancelled in every stage, processes left", "cancels/processes_left"),
            Row("reruns after that which failed", "cancels/reruns_failed"),
            Row("lifecycles in a row on SQLite", "runs_in_a_row/runs"),
            Row("failed lifecycles", "runs_in_a_row/failed"),
            Row("lifecycles that the promotion gate ended", "runs_in_a_row/refused_by_gate"),
            Row("lock errors", "runs_in_a_row/lock_errors"),
        ),
    ),
    Section(
        "strength",
        "Reward strength",
        (
            Row("questions of the pocket corpus with a score", "scored"),
            Row("mean strength", "mean"),
            Row("seconds", "seconds", "s"),
        ),
    ),
)


GAINS = {
    "pocket_gain": "Gain of the pocket policy",
    "pocket_gain_control": "The same with random rewards",
}
"""Results that are scores, and the titles of their tables."""


def page() -> str:
    """Return the page for the results that exist."""
    found = {name: _read(name) for name in (*(one.result for one in SECTIONS), *GAINS)}
    results = {name: values for name, values in found.items() if values}
    lines = [line for one in SECTIONS for line in _lines(one, results.get(one.result, {}))]
    about = [line for name, values in results.items() for line in _measured(name, values)]
    gains = [_gain(title, results[name]) for name, title in GAINS.items() if name in results]
    return "".join([_TOP, *lines, _ABOUT, *about, *gains])


def _read(name: str) -> dict[str, Any]:
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _lines(section: Section, found: dict[str, Any]) -> Iterator[str]:
    for row in section.rows:
        value = _at(found, row.path)
        if value is not None:
            shown = f"{_shown(value)} {row.unit}".strip()
            yield f"| {section.title} | {row.what} | {shown} |\n"


def _measured(name: str, found: dict[str, Any]) -> Iterator[str]:
    """Yield the command, date and machine of a result, and of parts that were measured again."""
    yield _measured_by(name, found.get("measured", found))
    for part, about in found.get("again", {}).items():
        yield _measured_by(f"{name}: {part}", about)


def _measured_by(name: str, about: dict[str, Any]) -> str:
    on = [f"{kind} {about[kind]}" for kind in ("python", "sqlite") if kind in about]
    on += [f"load before {about['load_before']}"] if "load_before" in about else []
    where = ", ".join([f"{about['cores']} cores", about["machine"], *on])
    return f"| {name} | `{about['command']}` | {about['date'][:10]} | {where} |\n"


def _at(found: Any, path: str) -> Any:
    """Return the value at a path; None where there is none."""
    for name in path.split("/"):
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return found


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _gain(title: str, found: dict[str, Any]) -> str:
    """Show what the pocket policy gains by GRPO, a line for each training run and setting."""
    lines = [f"\n## {title}\n\n| training run | setting | base | trained |\n|---|---|---|---|\n"]
    for run, scores in found["scores"].items():
        whole = [one for one in scores["scores"] if one["part"] == "all"]
        for setting in dict.fromkeys(one["setting"] for one in whole):
            values = [_percent(one) for one in whole if one["setting"] == setting]
            lines.append(f"| {run} | {setting} | {' | '.join(values)} |\n")
    return "".join(lines)


def _percent(score: dict[str, Any]) -> str:
    low, high = 100 * score["low"], 100 * score["high"]
    return f"{100 * score['value']:.1f} [{low:.1f}, {high:.1f}] n={score['n']}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
