"""An aggregate that a gold query selects, asked about within its own query."""

from __future__ import annotations

from sqlglot import exp

from text2sql.datasets.gold.limits import add_visible_ctes
from text2sql.datasets.gold.parsing import parsed, written


def argument_of(aggregate: exp.Expr) -> str:
    """Return what an aggregate is of, as SQL, without its DISTINCT."""
    found = aggregate.this
    return written(found.expressions[0] if isinstance(found, exp.Distinct) else found)


def probe_of(aggregate: exp.Expr, columns: str) -> str:
    """Return an aggregate's own query with other columns: a row for each group, in no order."""
    select = aggregate.find_ancestor(exp.Select)
    assert select is not None
    query = select.copy()
    add_visible_ctes(select, query)
    found = parsed(f"SELECT {columns}").expressions
    query.set("expressions", [column.copy() for column in found])
    for part in ("distinct", "order", "limit", "offset"):
        query.set(part, None)
    return written(query)
