"""Values that GROUP_CONCAT and JSON_GROUP_ARRAY put together in an order that nothing says."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.errors import SqlglotError

from text2sql.datasets.gold.aggregates import argument_of, probe_of
from text2sql.datasets.gold.casts import unknown_casts
from text2sql.datasets.gold.findings import Finding, Flag
from text2sql.datasets.gold.parsing import parsed, written
from text2sql.sandbox import QueryResult, Status

_HINT = re.compile(r"\b(?:group_concat|string_agg|json_group_array)\s*\(", re.IGNORECASE)


def concatenations_of(sql: str) -> list[str]:
    """Return a query for each such aggregate that is selected: how many different values it has.

    One whose rows come sorted out of a query inside has none, nor has a window's.
    """
    if not _HINT.search(sql) or unknown_casts(sql):
        return []
    try:
        tree = parsed(sql)
        if any(one.this.args.get("order") for one in tree.find_all(exp.Subquery, exp.CTE)):
            return []
        return list(dict.fromkeys(_probe(node) for node in _selected(tree)))
    except (SqlglotError, RecursionError, ValueError):
        return []


def several_parts_of(result: QueryResult) -> list[Finding]:
    """Return what the probe of an aggregate says: that it puts several values together."""
    for (count,) in result.rows if result.status is Status.OK and not result.warnings else ():
        if count > 1:
            detail = f"{count} values are put together, and nothing says in which order"
            return [(Flag.CONCAT_WITHOUT_ORDER, detail)]
    return []


def _selected(tree: exp.Expr) -> Iterator[exp.Expr]:
    for node in tree.find_all(exp.GroupConcat, exp.JSONArrayAgg):
        select, window = node.find_ancestor(exp.Select), node.find_ancestor(exp.Window)
        if select is None or window is not None or isinstance(node.this, exp.Order):
            continue
        if any(node is one for projection in select.expressions for one in projection.walk()):
            yield node


def _probe(node: exp.Expr) -> str:
    value = argument_of(node)
    if isinstance(node.parent, exp.Filter):
        condition = written(node.parent.expression.this)
        value = f"CASE WHEN {condition} THEN {value} END"
    return probe_of(node, f"COUNT(DISTINCT {value})")
