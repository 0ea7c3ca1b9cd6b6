"""Windows over rows that sort alike, as ROW_NUMBER's: which comes first is left to chance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError

from text2sql.datasets.gold.casts import unknown_casts
from text2sql.datasets.gold.findings import Finding, Flag, show
from text2sql.datasets.gold.parsing import parsed, written
from text2sql.judge.equality import same
from text2sql.sandbox import QueryResult, Status

_NUMBERING = re.compile(r"\b(?:row_number|first_value|nth_value|lag|lead)\s*\(", re.IGNORECASE)
_ONE_BY_ONE = (exp.RowNumber, exp.FirstValue, exp.NthValue, exp.Lag, exp.Lead)
"""Functions that tell rows apart which sort alike."""


def tie_breaks(sql: str) -> list[str]:
    """Return a query as it is, and with the ties of its windows broken upwards and downwards.

    Where the three have different results, the data does not determine the answer. Nothing is
    returned where no window goes row by row, or the query cannot be read.
    """
    if not _NUMBERING.search(sql) or unknown_casts(sql):
        return []
    try:
        return [_broken(sql, descending) for descending in (None, False, True)]
    except (SqlglotError, RecursionError, ValueError):
        return []


def numbering_of(results: Sequence[QueryResult], digest: str) -> list[Finding]:
    """Return what a query says as it is, and with the ties of its windows broken in two ways."""
    failed = [result.error for result in results if result.status is not Status.OK]
    if failed or not same(results[0], digest):
        reason = failed[0] if failed else "the parser gave another query"
        return [(Flag.UNCHECKED, f"the rows that a window goes through: {reason}")]
    if all(same(result, results[0]) for result in results):
        return []
    everywhere = set.intersection(*(set(result.rows) for result in results))
    seen = (row for result in results for row in result.rows if row not in everywhere)
    example = next(seen, None)  # none where the rows that are kept are the same
    detail = "a window takes rows that sort alike; in another order of them the answer changes"
    such = f", such as by {show(example)}" if example else ""
    return [(Flag.LIMIT_CUTS_TIE, detail + such)]


def _broken(sql: str, descending: bool | None) -> str:
    tree = parsed(sql)
    for number in list(tree.find_all(*_ONE_BY_ONE)) if descending is not None else []:
        window, select = number.find_ancestor(exp.Window), number.find_ancestor(exp.Select)
        if window is None or select is None or window.find_ancestor(exp.Select) is not select:
            continue
        order = window.args.get("order")
        terms = [term.copy() for term in order.expressions] if order else []
        breaks = [exp.Ordered(this=_exactly(one), desc=descending) for one in _columns(select)]
        if breaks:
            window.set("order", exp.Order(expressions=[*terms, *breaks]))
    return written(tree)


def _exactly(column: exp.Expr) -> exp.Expr:
    """Let a column be compared letter for letter, whatever its table declares."""
    return exp.Collate(this=exp.paren(column), expression=exp.to_identifier("BINARY"))


def _columns(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield what tells the rows of a SELECT apart: its own columns, or its tables' row ids."""
    for column in select.expressions:
        if column.is_star:
            yield from (exp.column("rowid", table=table) for table in _tables(select))
        elif column.find(exp.Window) is None:
            yield column.unalias().copy()


def _tables(select: exp.Select) -> list[str]:
    joins = [join.this for join in select.args.get("joins") or []]
    sources = [select.args["from_"].this, *joins] if select.args.get("from_") else joins
    return [source.alias_or_name for source in sources if isinstance(source, exp.Table)]
