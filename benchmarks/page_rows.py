"""Which numbers the page of benchmarks shows, where each lies in its result, and its unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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


def _evaluation() -> Iterator[Row]:
    for place, processes in enumerate(("1 process", "2 processes")):
        for clock in ("wall_clock", "processor"):
            told = f"{processes}, {clock.replace('_', ' ')}"
            path = f"evaluation/{place}/{clock}"
            yield Row(f"BIRD's style to ours ({told})", f"{path}/official_to_ours", TIMES)
            yield Row(f"ours to each query once ({told})", f"{path}/ours_to_floor", TIMES)
    yield Row("pairs judged, verdicts identical to BIRD's", "evaluation/0/identical_verdicts")


def _reports() -> Iterator[Row]:
    for kind, name in (("sqlite", "SQLite"), ("postgresql", "PostgreSQL")):
        yield Row(f"200 questions, 8 votes, one run ({name})", f"one_run/{kind}/seconds", "s")
        yield Row(
            f"memory a question on a second day ({name})",
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
            Row("the same, many queries in one batch", "query/open_to_execute_many", TIMES),
            Row(
                "a late query ends after its limit, at most",
                "late_query/one_scalar_function/over_limit_ms_max",
                "ms",
            ),
            Row(
                "scoring and voting of stored rollouts, the most", "stored_rollouts/-1/seconds", "s"
            ),
            Row("how many those are", "stored_rollouts/-1/rollouts"),
            Row("their highest memory", "stored_rollouts/-1/memory_peak_mb", "MB"),
        ),
    ),
    Section(
        "rollouts",
        "Rollouts",
        (
            Row("a rollout of 4 calls, client's processor", "processor_time/agent/client_ms", "ms"),
            Row("to the same requests alone", "processor_time/agent_to_bare", TIMES),
            Row("memory a rollout, 256 at once", "memory/growth_kb_a_rollout", "kB"),
            Row("20 % spoilt replies, judged otherwise", "faults/judged_otherwise"),
            Row("20 kills, rollouts lost", "kills/lost"),
            Row("20 kills, rollouts repeated", "kills/repeated"),
        ),
    ),
    Section(
        "ingestion",
        "Ingestion",
        (
            Row("databases", "corpus/megabytes", "MB"),
            Row("to copying, hashing, and each gold once", "seconds/ingestion_to_floor", TIMES),
            Row("a rerun where nothing changed", "seconds/nothing_changed", "s"),
            Row("highest memory", "memory/-1/peak_megabytes", "MB"),
        ),
    ),
    Section(
        "difficulty",
        "Difficulty filter",
        (
            Row("questions, the most", "sizes/-1/questions"),
            Row("rollouts a second", "sizes/-1/sample/rollouts_per_second"),
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
            Row("prime-rl's programs ran at", "kills/running"),
            Row("something left 20 s after the grace of 10 s", "kills/left"),
            Row("cancelled, until all is gone, at most", "kills/seconds/cancel/most", "s"),
            Row(
                "the same, where nothing heeds SIGTERM",
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
            Row("of which importing dagster", "load_time/import_dagster_alone_processor_s", "s"),
            Row("memory of an idle web interface and daemon", "idle_memory/private_mb", "MB"),
            Row("processor, beside a script; training aside", "overhead/more_cpu_percent", "%"),
            Row("clock, beside a script; training aside", "overhead/more_wall_percent", "%"),
            Row("cancelled in every stage, processes left", "cancels/processes_left"),
            Row("run again after that, failed", "cancels/reruns_failed"),
            Row("lifecycles in a row on SQLite", "runs_in_a_row/runs"),
            Row("of which failed", "runs_in_a_row/failed"),
            Row("of which the promotion gate ended", "runs_in_a_row/refused_by_gate"),
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
    "pocket_gain_control": "The same with rewards that are dealt at random",
}
"""Results that are scores, and the titles of their tables."""
