"""Find gold queries whose answer the data does not determine; nothing is changed.

A correct query may get no reward if gold's LIMIT cuts a tie, takes a NULL for the smallest value,
or sorts numbers as text; and a cast to an unknown type rarely does what was meant.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

from text2sql.datasets.gold.aggregates import aggregate_probes
from text2sql.datasets.gold.flags import Finding, Flag, GoldFlag
from text2sql.datasets.gold.limits import MORE, MOST, Cut, Unreadable, cuts_of, limit_findings
from text2sql.datasets.gold.sql import unknown_casts
from text2sql.datasets.gold.windows import tie_breaks, window_findings
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox
from text2sql.sandbox.sql.repeatable import asks_outside

_BATCH = 256
_DETAIL_CHARS = 300
_LIMIT = re.compile(r"\blimit\b", re.IGNORECASE)

Query = tuple[Path, str]
"""A database, and the gold query that runs on it."""

T = TypeVar("T")


def flag_golds(
    questions: Sequence[Question],
    golds: Mapping[str, GoldResult],
    sandbox: Sandbox,
    limits: Limits,
) -> list[GoldFlag]:
    """Return the flags of every gold query that ran, in the order of the questions.

    Each distinct query with a LIMIT is run once more, with the rows beyond it; one that sorts
    numeric text a second time; one that returns a MIN, MAX or GROUP_CONCAT, or a column beside an
    aggregate, once for each; one whose window goes row by row three times. Raises Text2SqlError
    if a database cannot be read at all.
    """
    ran = [q for q in questions if q.key in golds and golds[q.key].ran]
    digests = {(one.database, one.sql): golds[one.key].digest for one in ran}
    found: dict[Query, list[Finding]] = {}
    for query in digests:
        casts = [(Flag.UNKNOWN_CAST_TYPE, sentence) for sentence in unknown_casts(query[1])]
        outside = [(Flag.ASKS_OUTSIDE, "the answer changes by itself")]
        found[query] = [*casts, *(outside if asks_outside(query[1]) else [])]
    for query, findings in chain(
        _limits(digests, sandbox, limits),
        _aggregates(digests, sandbox, limits),
        _windows(digests, sandbox, limits),
    ):
        found[query] += findings
    return [
        GoldFlag(one.key, flag, detail[:_DETAIL_CHARS])
        for one in ran
        for flag, detail in dict.fromkeys(found[one.database, one.sql])
    ]


def _limits(
    digests: Mapping[Query, str], sandbox: Sandbox, limits: Limits
) -> Iterator[tuple[Query, list[Finding]]]:
    bounds = Limits(seconds=limits.seconds, keep_rows=MOST + MORE)
    probes: list[tuple[Query, str, Cut]] = []
    for query in digests:
        if not _LIMIT.search(query[1]):
            continue
        try:
            probes += [(query, cut.probe, cut) for cut in cuts_of(query[1])]
        except Unreadable as error:
            yield query, [(Flag.UNCHECKED, str(error))]
    for query, cut, result in _run(probes, sandbox, bounds):
        run = partial(sandbox.execute, query[0], limits=bounds)
        yield query, limit_findings(cut, result, digests[query], run)


def _aggregates(
    queries: Mapping[Query, str], sandbox: Sandbox, limits: Limits
) -> Iterator[tuple[Query, list[Finding]]]:
    bounds = Limits(seconds=limits.seconds, keep_rows=MOST)
    probes = [(query, *probe) for query in queries for probe in aggregate_probes(query[1])]
    for query, findings, result in _run(probes, sandbox, bounds):
        yield query, findings(result)


def _windows(
    digests: Mapping[Query, str], sandbox: Sandbox, limits: Limits
) -> Iterator[tuple[Query, list[Finding]]]:
    bounds = Limits(seconds=limits.seconds, keep_rows=MOST)
    probes = [
        (query, sql, query)
        for query in digests
        if not asks_outside(query[1])
        for sql in tie_breaks(query[1])
    ]
    found: dict[Query, list[QueryResult]] = defaultdict(list)
    for query, _, result in _run(probes, sandbox, bounds):
        found[query].append(result)
    yield from ((query, window_findings(found[query], digests[query])) for query in found)


def _run(
    probes: Sequence[tuple[Query, str, T]], sandbox: Sandbox, limits: Limits
) -> Iterator[tuple[Query, T, QueryResult]]:
    """Run (gold query, probe, anything) and yield gold query, anything and result, in order.

    In batches, since the rows of all results would not fit into memory.
    """
    for start in range(0, len(probes), _BATCH):
        batch = probes[start : start + _BATCH]
        results = sandbox.execute_many([(query[0], sql) for query, sql, _ in batch], limits)
        for (query, _, anything), result in zip(batch, results, strict=True):
            yield query, anything, result
