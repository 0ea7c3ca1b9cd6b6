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

from sqlglot import exp

from text2sql.datasets.gold.aggregates import aggregate_probes, counted_conditions
from text2sql.datasets.gold.flags import Finding, Flag, GoldFlag, show
from text2sql.datasets.gold.limits import MORE, MOST, Cut, Unreadable, cuts_of, limit_findings
from text2sql.datasets.gold.sql import PARSER_ERRORS, parsed, unknown_casts, written
from text2sql.judge.equality import same
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status
from text2sql.sandbox.sql.repeatable import asks_outside
from text2sql.sandbox.sql.tokens import tokens_of

_BATCH = 256
_DETAIL_CHARS = 300
_LIMIT = re.compile(r"\blimit\b", re.IGNORECASE)
_ROW_BY_ROW = re.compile(r"\b(?:row_number|first_value|nth_value|lag|lead)\s*\(", re.IGNORECASE)
_FUNCTIONS = (exp.RowNumber, exp.FirstValue, exp.NthValue, exp.Lag, exp.Lead)
"""Functions that distinguish rows which sort alike."""

Query = tuple[Path, str]
"""A database, and the gold query that runs on it."""

T = TypeVar("T")


def flag_golds(
    questions: Sequence[Question], golds: Mapping[str, GoldResult], sandbox: Sandbox, limits: Limits
) -> list[GoldFlag]:
    """Return the flags of every gold query that ran, in the order of the questions.

    Each distinct query with a LIMIT is run once more, with the rows beyond it; one that sorts
    numeric text a second time; one that returns a MIN, MAX or GROUP_CONCAT, or a column beside an
    aggregate, once for each; one whose window goes row by row three times. Raises Text2SqlError
    if a database cannot be read at all.
    """
    ran = [q for q in questions if q.key in golds and golds[q.key].ran]
    wanted = {(one.database, one.sql): golds[one.key].digest for one in ran}
    spelled = _spelled_out(wanted, sandbox, limits)
    digests = {spelled[query]: digest for query, digest in wanted.items()}
    found: dict[Query, list[Finding]] = {}
    for query in digests:
        casts = [(Flag.UNKNOWN_CAST_TYPE, sentence) for sentence in unknown_casts(query[1])]
        outside = [(Flag.ASKS_OUTSIDE, "the answer changes by itself")]
        found[query] = [*casts, *(outside if asks_outside(query[1]) else [])]
        found[query] += counted_conditions(query[1])
    for query, findings in chain(
        _limits(digests, sandbox, limits),
        _aggregates(digests, sandbox, limits),
        _windows(digests, sandbox, limits),
    ):
        found[query] += findings
    return [
        GoldFlag(one.key, flag, detail[:_DETAIL_CHARS])
        for one in ran
        for flag, detail in dict.fromkeys(found[spelled[one.database, one.sql]])
    ]


def _spelled_out(
    digests: Mapping[Query, str], sandbox: Sandbox, limits: Limits
) -> dict[Query, Query]:
    """Map each query to itself with the texts in double quotes, which SQLite allows, in single.

    A probe would warn of them, and its answer would not count.
    """
    found = {query: query for query in digests}
    doubtful = [query for query in digests if '"' in query[1]]
    changed: dict[Query, Query] = {}
    for query, result in zip(doubtful, sandbox.execute_many(doubtful, limits), strict=True):
        texts = {warning.partition(" is not a column")[0] for warning in result.warnings}
        sql, parts = query[1], []
        at = 0
        for token in tokens_of(sql):
            if token.text in texts:
                text = token.text[1:-1].replace('""', '"').replace("'", "''")
                parts += [sql[at : token.start], f"'{text}'"]
                at = token.end
        if parts:
            changed[query] = query[0], "".join([*parts, sql[at:]])
    results = sandbox.execute_many(list(changed.values()), limits)
    for query, result in zip(changed, results, strict=True):
        if same(result, digests[query]):
            found[query] = changed[query]
    return found


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
        for sql in _tie_breaks(query[1])
    ]
    found: dict[Query, list[QueryResult]] = defaultdict(list)
    for query, _, result in _run(probes, sandbox, bounds):
        found[query].append(result)
    yield from ((query, _window_findings(found[query], digests[query])) for query in found)


def _run(
    probes: Sequence[tuple[Query, str, T]], sandbox: Sandbox, limits: Limits
) -> Iterator[tuple[Query, T, QueryResult]]:
    """Run (query, probe, anything) in batches, since the rows of all would not fit into memory."""
    for start in range(0, len(probes), _BATCH):
        batch = probes[start : start + _BATCH]
        results = sandbox.execute_many([(query[0], sql) for query, sql, _ in batch], limits)
        for (query, _, anything), result in zip(batch, results, strict=True):
            yield query, anything, result


def _tie_breaks(sql: str) -> list[str]:
    """Return a query as it is, and with its windows' ties broken upwards and downwards.

    If the three results differ, the data does not determine the answer. Empty if no window goes
    row by row, or the query cannot be read.
    """
    if not _ROW_BY_ROW.search(sql) or unknown_casts(sql):
        return []
    try:
        return [_with_ties_broken(sql, descending) for descending in (None, False, True)]
    except PARSER_ERRORS:
        return []


def _window_findings(results: Sequence[QueryResult], digest: str) -> list[Finding]:
    """Compare the results of ``_tie_breaks``; ``digest`` is that of the gold query's result."""
    failed = [result.error for result in results if result.status is not Status.OK]
    if failed or not same(results[0], digest):
        reason = failed[0] if failed else "the parser changed the query"
        return [(Flag.UNCHECKED, f"the rows that a window goes through: {reason}")]
    if all(same(result, results[0]) for result in results):
        return []
    everywhere = set.intersection(*(set(result.rows) for result in results))
    seen = (row for result in results for row in result.rows if row not in everywhere)
    example = next(seen, None)  # none if the rows that were kept are the same
    detail = "a window takes rows that sort alike; in another order of them the answer changes"
    such = f", such as by {show(example)}" if example else ""
    return [(Flag.LIMIT_CUTS_TIE, detail + such)]


def _with_ties_broken(sql: str, descending: bool | None) -> str:
    tree = parsed(sql)
    for number in list(tree.find_all(*_FUNCTIONS)) if descending is not None else []:
        window, select = number.find_ancestor(exp.Window), number.find_ancestor(exp.Select)
        if window is None or select is None or window.find_ancestor(exp.Select) is not select:
            continue
        order = window.args.get("order")
        terms = [term.copy() for term in order.expressions] if order else []
        # BINARY compares letter for letter, whatever collation the column's table declares.
        binary = exp.to_identifier("BINARY")
        breaks = [
            exp.Ordered(
                this=exp.Collate(this=exp.paren(one), expression=binary.copy()), desc=descending
            )
            for one in _columns(select)
        ]
        if breaks:
            window.set("order", exp.Order(expressions=[*terms, *breaks]))
    return written(tree)


def _columns(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield what distinguishes the rows of a SELECT: its own columns, or its tables' row ids."""
    joins = [join.this for join in select.args.get("joins") or []]
    sources = [select.args["from_"].this, *joins] if select.args.get("from_") else joins
    tables = [source.alias_or_name for source in sources if isinstance(source, exp.Table)]
    for column in select.expressions:
        if column.is_star:
            yield from (exp.column("rowid", table=table) for table in tables)
        elif column.find(exp.Window) is None:
            yield column.unalias().copy()
