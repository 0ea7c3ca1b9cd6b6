"""Columns beside an aggregate that are neither grouped nor aggregated: SQLite takes any value.

With a single MIN or MAX in the query it is a row that has the extreme; where several have it, any
of them. (SQLite's documentation, "Bare columns in an aggregate query".)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from text2sql.datasets.gold.casts import unknown_casts
from text2sql.datasets.gold.findings import Finding, Flag, show
from text2sql.datasets.gold.limits import (
    Unreadable,
    add_visible_ctes,
    column_at,
    own_terms,
)
from text2sql.datasets.gold.parsing import AsWritten, parsed
from text2sql.datasets.gold.parsing import written as _written
from text2sql.sandbox import QueryResult, Status

_STATISTICS = (
    "MIN({0} COLLATE BINARY) AS lo_{1}",
    "MAX({0} COLLATE BINARY) AS hi_{1}",
    "COUNT({0}) AS n_{1}",
)
_SEVERAL = "lo_{0} IS NOT hi_{0} OR (n_{0} > 0 AND n_{0} < total)"


@dataclass(frozen=True)
class Bare:
    """A query that returns a row where bare columns have several values, and these columns.

    The row has the least, the greatest and the number of values of each, and the rows in all.
    """

    probe: str
    columns: tuple[str, ...]


def bare_columns_of(sql: str) -> list[Bare]:
    """Return what to look into, for a query and those inside it; a broken one has nothing."""
    if unknown_casts(sql):
        return []
    try:
        tree = parsed(sql)
        return [bare for node in tree.find_all(exp.Select) for bare in _bare(node)]
    except (SqlglotError, RecursionError, ValueError, Unreadable):
        return []


def several_values_of(bare: Bare, result: QueryResult) -> list[Finding]:
    """Return what the probe of bare columns says: a group in which one has several values."""
    for row in result.rows if result.status is Status.OK and not result.warnings else ():
        statistics = [row[at : at + 3] for at in range(0, len(row) - 1, 3)]
        for name, (least, most, count) in zip(bare.columns, statistics, strict=True):
            if least != most or 0 < count < row[-1]:
                others = show((least, most if least != most else None))
                detail = f"{name} is neither grouped nor aggregated, and may be any of {others}"
                return [(Flag.BARE_COLUMN, detail)]
    return []


def _bare(select: exp.Select) -> Iterator[Bare]:
    aggregates = [node for node in _own(select, exp.AggFunc, exp.Anonymous) if _aggregates(node)]
    grouped = _grouped(select)
    if not (aggregates or grouped) or next(_own(select, exp.Window), None) is not None:
        return
    found = {
        _written(column): column
        for projection in select.expressions
        for column in _own(select, exp.Column, below=projection)
        if not column.is_star and not _is_covered(column, projection, grouped)
    }
    extremes = {_written(node): node for node in aggregates if isinstance(node, exp.Min | exp.Max)}
    if any(isinstance(node.parent, exp.Filter) for node in extremes.values()):
        return
    if found and len(extremes) < 2 and not isinstance(select.parent, exp.Exists):
        extreme = next(iter(extremes.values()), None)
        probe = _probe(select, list(found.values()), grouped, extreme)
        if probe is not None:
            yield Bare(probe, tuple(found))


def _aggregates(node: exp.Expr) -> bool:
    """Whether a function is an aggregate; the parser does not know SQLite's TOTAL."""
    return isinstance(node, exp.AggFunc) or str(node.this).lower() == "total"


def _own(
    select: exp.Select, *kinds: type[exp.Expr], below: exp.Expr | None = None
) -> Iterator[exp.Expr]:
    """Yield nodes of some kinds that belong to a SELECT itself, not to one inside it."""
    for node in (below or select).find_all(*kinds):
        if node.find_ancestor(exp.Select) is select:
            yield node


def _grouped(select: exp.Select) -> list[exp.Expr]:
    """Return what is grouped by; a number or an alias stands for a column of the result.

    Raises Unreadable where a number stands for a column of a star.
    """
    group = select.args.get("group")
    aliases = {column.alias.lower(): column.unalias() for column in select.expressions}
    terms = []
    for term in group.expressions if group else []:
        if isinstance(term, exp.Literal) and not term.is_string:
            column = column_at(select, int(term.this))
            if column is None:
                raise Unreadable(f"column {term.this} is one of a star")
            terms.append(column)
        elif isinstance(term, exp.Column) and not term.table:
            terms += [term, *filter(None, [aliases.get(term.name.lower())])]
        else:
            terms.append(term)
    return terms


def _is_covered(column: exp.Expr, projection: exp.Expr, grouped: Sequence[exp.Expr]) -> bool:
    """Whether a column is aggregated, or part of what is grouped by."""
    node: exp.Expr | None = column
    while node is not None and node is not projection.parent:
        function = isinstance(node, exp.AggFunc | exp.Anonymous) and _aggregates(node)
        if function or isinstance(node, exp.Filter) or any(_is_same(node, one) for one in grouped):
            return True
        node = node.parent
    return False


def _is_same(node: exp.Expr, term: exp.Expr) -> bool:
    if isinstance(node, exp.Column) and isinstance(term, exp.Column):
        tables = {node.table.lower(), term.table.lower()} - {""}
        return node.name.lower() == term.name.lower() and len(tables) < 2
    return node == term


def _probe(
    select: exp.Select,
    columns: Sequence[exp.Expr],
    grouped: Sequence[exp.Expr],
    extreme: exp.Expr | None,
) -> str | None:
    query = select.copy()
    add_visible_ctes(select, query)
    query.set("distinct", None)
    names = [_written(column) for column in columns]
    if extreme is None:
        if not own_terms(query):
            return None
        query.set("expressions", _statistics(names))
    elif any(query.args.get(part) for part in ("having", "limit", "offset")):
        return None
    else:
        query = _of_extreme(query, names, grouped, extreme)
    several = " OR ".join(_SEVERAL.format(at) for at in range(len(names)))
    return f"SELECT * FROM ({_written(query)}) WHERE {several} LIMIT 1"


def _statistics(names: Sequence[str]) -> list[exp.Expr]:
    texts = [one.format(name, at) for at, name in enumerate(names) for one in _STATISTICS]
    statement = parse_one(f"SELECT {', '.join(texts)}, COUNT(*) AS total", dialect=AsWritten)
    return [column.copy() for column in statement.expressions]


def _of_extreme(
    query: exp.Select, names: Sequence[str], grouped: Sequence[exp.Expr], extreme: exp.Expr
) -> exp.Select:
    """Return the statistics of the rows that have the extreme of their group."""
    keys = [_written(term) for term in grouped]
    partition = f"PARTITION BY {', '.join(keys)}" if keys else ""
    value = _written(extreme.this)
    columns = [f"{key} AS g_{at}" for at, key in enumerate(keys)]
    columns += [f"{name} AS b_{at}" for at, name in enumerate(names)]
    columns += [f"{value} AS v", f"{_written(extreme)} OVER ({partition}) AS m"]
    inner = parse_one(f"SELECT {', '.join(columns)}", dialect=AsWritten)
    query.set("expressions", [column.copy() for column in inner.expressions])
    query.set("group", None)
    query.set("order", None)
    group = ", ".join(f"g_{at}" for at in range(len(keys)))
    text = f"SELECT 1 FROM ({_written(query)}) WHERE v IS m {'GROUP BY ' + group if keys else ''}"
    outer = parse_one(text, dialect=AsWritten)
    assert isinstance(outer, exp.Select)
    outer.set("expressions", _statistics([f"b_{at}" for at in range(len(names))]))
    return outer
