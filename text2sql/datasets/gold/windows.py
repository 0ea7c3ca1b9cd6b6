"""Windows over rows that sort alike, as ROW_NUMBER's: which comes first is left to chance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import exp

from text2sql.datasets.gold.flags import Finding, Flag, show
from text2sql.datasets.gold.sql import PARSER_ERRORS, parsed, unknown_casts, written
from text2sql.judge.equality import same
from text2sql.sandbox import QueryResult, Status

_ROW_BY_ROW = re.compile(r"\b(?:row_number|first_value|nth_value|lag|lead)\s*\(", re.IGNORECASE)
_FUNCTIONS = (exp.RowNumber, exp.FirstValue, exp.NthValue, exp.Lag, exp.Lead)
"""Functions that distinguish rows which sort alike."""


def tie_breaks(sql: str) -> list[str]:
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


def window_findings(results: Sequence[QueryResult], digest: str) -> list[Finding]:
    """Compare the results of ``tie_breaks``; ``digest`` is that of the gold query's result."""
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
