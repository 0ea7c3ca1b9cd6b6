"""One query through the sandbox against open, query, close; and how late a late query ends."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from text2sql.sandbox import Limits, Sandbox, Status

QUERY = "SELECT count(*) FROM t7 WHERE a > 3"
LATE = {
    "interruptible": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
    "SELECT count(*) FROM r",
    "one_scalar_function": "SELECT instr(hex(zeroblob(4000000)), hex(zeroblob(2000000)) || '1')",
}


def build(path: Path, tables: int = 60) -> Path:
    """Write a database of many small tables."""
    with sqlite3.connect(path) as connection:
        for number in range(tables):
            connection.execute(f"CREATE TABLE t{number} (a INTEGER, b TEXT, c REAL)")
            connection.executemany(
                f"INSERT INTO t{number} VALUES (?, ?, ?)", [(n, str(n), n / 2) for n in range(20)]
            )
    connection.close()
    return path


def open_query_close(database: Path) -> None:
    """Do what a plain evaluator does for each query."""
    connection = sqlite3.connect(database)
    connection.execute(QUERY).fetchall()
    connection.close()


def microseconds(work: Any, count: int) -> float:
    """Return the time of one of many calls."""
    started = perf_counter()
    for _ in range(count):
        work()
    return (perf_counter() - started) / count * 1e6


def query_cost(database: Path, count: int = 2000) -> dict[str, Any]:
    """Compare the cost of one small query; microseconds, wall clock, one at a time or many."""
    with Sandbox(1) as sandbox:
        sandbox.execute(database, QUERY)
        plain = microseconds(lambda: open_query_close(database), count)
        one = microseconds(lambda: sandbox.execute(database, QUERY), count)
        texts = [(database, f"{QUERY} -- {number}") for number in range(count)]
        many = microseconds(lambda: sandbox.execute_many(texts), 1) / count
    return {
        "open_query_close_us": round(plain, 1),
        "sandbox_execute_us": round(one, 1),
        "sandbox_execute_many_us": round(many, 1),
        "open_to_execute": round(plain / one, 2),
        "open_to_execute_many": round(plain / many, 2),
    }


def kill_latency(database: Path, limit: float = 0.5, times: int = 7) -> dict[str, Any]:
    """Return by how many milliseconds a query outlives its limit, and the next one's wait."""
    found: dict[str, Any] = {"limit_seconds": limit}
    with Sandbox(1) as sandbox:
        sandbox.execute(database, QUERY)
        for name, sql in LATE.items():
            over, next_ones = [], []
            for _ in range(times):
                started = perf_counter()
                result = sandbox.execute(database, sql, Limits(seconds=limit))
                ended = perf_counter()
                assert result.status is Status.TIMEOUT
                sandbox.execute(database, QUERY)
                over.append((ended - started - limit) * 1e3)
                next_ones.append((perf_counter() - ended) * 1e3)
            found[name] = {
                "over_limit_ms_median": round(median(over), 1),
                "over_limit_ms_max": round(max(over), 1),
                "next_query_ms_median": round(median(next_ones), 1),
            }
    return found
