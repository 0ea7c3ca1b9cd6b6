"""Aggregates in gold queries that compare numbers as text, join in no order, or pick any row.

Each probe is the aggregate's own query with other columns. Queries that cannot be read, or that
have casts which the parser would change, have no probes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sqlglot import exp

from text2sql.common.render import folded
from text2sql.datasets.gold.flags import Finding, Flag, rows_of, show
from text2sql.datasets.gold.limits import Unreadable, add_visible_ctes, column_at, spell_out_order
from text2sql.datasets.gold.sql import (
    PARSER_ERRORS,
    number_in,
    parsed,
    projections,
    unknown_casts,
    without_marks,
    written,
)
from text2sql.sandbox import QueryResult

Probe = tuple[str, Callable[[QueryResult], list[Finding]]]
"""A query that looks for a problem in a gold query, and what finds it in the result."""


def aggregate_probes(sql: str) -> list[Probe]:
    """Return the probes of a query's aggregates, and of those in queries inside it."""
    if unknown_casts(sql):
        return []
    try:
        tree = parsed(sql)
    except PARSER_ERRORS:
        return []
    found: list[Probe] = []
    for probes in (_extremes, _concatenations, _bare_columns):
        # What one kind of probe cannot express must not cost the others.
        try:
            found += list(probes(tree))
        except (*PARSER_ERRORS, Unreadable):
            continue
    return found


def counted_conditions(sql: str) -> list[Finding]:
    """Return a finding for each COUNT of a condition: it counts the rows where that is false, too.

    That is a comparison, or a CASE or IIF whose every outcome is a value. Empty for a query that
    cannot be read.
    """
    if "count" not in sql.lower():
        return []
    try:
        nodes = [node.this for node in parsed(sql).find_all(exp.Count)]
        texts = dict.fromkeys(written(node) for node in nodes if _is_never_left_out(node))
    except PARSER_ERRORS:
        return []
    return [(Flag.COUNTS_EVERY_ROW, f"COUNT({text}) leaves out no row") for text in texts]


def _is_never_left_out(node: exp.Expr) -> bool:
    node = node.unnest()
    if isinstance(node, exp.Case | exp.If):
        branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        outcomes = [branch.args.get("true") for branch in branches]
        outcomes.append(node.args.get("default") or node.args.get("false"))
        return all(isinstance(one, exp.Literal | exp.Boolean) for one in outcomes)
    return isinstance(node, exp.Predicate | exp.Is | exp.Connector | exp.Not)


def _extremes(tree: exp.Expr) -> Iterator[Probe]:
    """Yield a probe for each MIN and MAX that a SELECT returns outside of a window.

    It selects a group's extreme as SQLite finds it (as text, '9' is more than '100') and by
    number, and how many values are words.
    """
    queries: dict[str, None] = {}
    for node in tree.find_all(exp.Max, exp.Min):
        if node.expressions or not _is_returned(node):
            continue
        value = _argument(node)
        number = without_marks(value)
        name = "MAX" if isinstance(node, exp.Max) else "MIN"
        is_number = (
            f"typeof({value}) = 'text' AND {value} GLOB '*[0-9]*' "
            f"AND LTRIM(RTRIM({number}), ' +-') NOT GLOB '*[^0-9.]*'"
        )
        columns = (
            f"{name}({value}), {name}(CAST({number} AS REAL)), "
            f"SUM(TRIM({value}) <> '' AND NOT ({is_number}))"
        )
        queries[_own_query(node, columns)] = None
    yield from ((query, _compared_as_text) for query in queries)


def _is_returned(node: exp.Expr) -> bool:
    """Whether an aggregate is in a SELECT's own columns, and in no window."""
    inside: exp.Expr | None = node
    while inside is not None and not isinstance(inside.parent, exp.Select | exp.Window):
        inside = inside.parent
    if inside is None or isinstance(inside.parent, exp.Window):
        return False
    return inside.arg_key == "expressions"


def _compared_as_text(result: QueryResult) -> list[Finding]:
    for text, number, words in rows_of(result):
        if not words and number_in(text) not in (None, number):
            detail = f"'{text}' is the extreme as text, {number:g} as a number"
            return [(Flag.TEXT_SORTED_AS_NUMBER, detail)]
    return []


def _concatenations(tree: exp.Expr) -> Iterator[Probe]:
    """Yield a probe for each GROUP_CONCAT and JSON_GROUP_ARRAY that a SELECT returns.

    Nothing if rows come sorted out of an inner query, for SQLite keeps that order.
    """
    if any(one.this.args.get("order") for one in tree.find_all(exp.Subquery, exp.CTE)):
        return
    queries: dict[str, None] = {}
    for node in tree.find_all(exp.GroupConcat, exp.JSONArrayAgg):
        select, window = node.find_ancestor(exp.Select), node.find_ancestor(exp.Window)
        if select is None or window is not None or isinstance(node.this, exp.Order):
            continue
        if any(node is one for projection in select.expressions for one in projection.walk()):
            value = _argument(node)
            if isinstance(node.parent, exp.Filter):
                value = f"CASE WHEN {written(node.parent.expression.this)} THEN {value} END"
            queries[_own_query(node, f"COUNT(DISTINCT {value})")] = None
    yield from ((query, _joins_several) for query in queries)


def _joins_several(result: QueryResult) -> list[Finding]:
    for (count,) in rows_of(result):
        if count > 1:
            detail = f"{count} values are joined in no particular order"
            return [(Flag.CONCAT_WITHOUT_ORDER, detail)]
    return []


def _argument(aggregate: exp.Expr) -> str:
    """Return an aggregate's argument as SQL, without its DISTINCT."""
    found = aggregate.this
    return written(found.expressions[0] if isinstance(found, exp.Distinct) else found)


def _own_query(aggregate: exp.Expr, columns: str) -> str:
    """Return an aggregate's own query with other columns: a row for each group, unsorted."""
    select = aggregate.find_ancestor(exp.Select)
    assert select is not None
    query = select.copy()
    add_visible_ctes(select, query)
    query.set("expressions", projections(columns))
    for clause in ("distinct", "order", "limit", "offset"):
        query.set(clause, None)
    return written(query)


def _bare_columns(tree: exp.Expr) -> Iterator[Probe]:
    """Yield probes for columns that are neither grouped nor aggregated: SQLite takes any value.

    With a single MIN or MAX it takes a row with the extreme; if several have it, any of them.
    (SQLite's documentation, "Bare columns in an aggregate query".)
    """
    for select in tree.find_all(exp.Select):
        functions = _own(select, exp.AggFunc, exp.Anonymous)
        aggregates = [node for node in functions if _aggregates(node)]
        grouped = _grouped(select)
        if not (aggregates or grouped) or next(_own(select, exp.Window), None) is not None:
            continue
        names = dict.fromkeys(
            written(column)
            for projection in select.expressions
            for column in _own(select, exp.Column, below=projection)
            if not column.is_star and not _is_covered(column, projection, grouped)
        )
        extremes = {written(one): one for one in aggregates if isinstance(one, exp.Min | exp.Max)}
        if any(isinstance(node.parent, exp.Filter) for node in extremes.values()):
            continue
        if names and len(extremes) < 2 and not isinstance(select.parent, exp.Exists):
            extreme = next(iter(extremes.values()), None)
            if query := _bare_query(select, list(names), grouped, extreme):
                yield query, partial(_several_values, list(names))


def _several_values(names: Sequence[str], result: QueryResult) -> list[Finding]:
    """Report a bare column with several values in a group.

    A row has the least, the greatest and the number of values of each column, and the group's size.
    """
    for row in rows_of(result):
        statistics = [row[at : at + 3] for at in range(0, len(row) - 1, 3)]
        for name, (least, most, count) in zip(names, statistics, strict=True):
            if least != most or 0 < count < row[-1]:
                others = show((least, most if least != most else None))
                detail = f"{name} is neither grouped nor aggregated, and may be any of {others}"
                return [(Flag.BARE_COLUMN, detail)]
    return []


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
    """Return GROUP BY's terms as expressions; raise Unreadable for a column of a star."""
    group = select.args.get("group")
    aliases = {folded(column.alias): column.unalias() for column in select.expressions}
    terms = []
    for term in group.expressions if group else []:
        if isinstance(term, exp.Literal) and not term.is_string:
            column = column_at(select, int(term.this))
            if column is None:
                raise Unreadable(f"column {term.this} is one of a star")
            terms.append(column)
        elif isinstance(term, exp.Column) and not term.table:
            terms += [term, *filter(None, [aliases.get(folded(term.name))])]
        else:
            terms.append(term)
    return terms


def _is_covered(column: exp.Expr, projection: exp.Expr, grouped: Sequence[exp.Expr]) -> bool:
    """Whether a column is aggregated, or part of a GROUP BY term."""
    node: exp.Expr | None = column
    while node is not None and node is not projection.parent:
        function = isinstance(node, exp.AggFunc | exp.Anonymous) and _aggregates(node)
        if function or isinstance(node, exp.Filter) or any(_is_same(node, one) for one in grouped):
            return True
        node = node.parent
    return False


def _is_same(node: exp.Expr, term: exp.Expr) -> bool:
    if isinstance(node, exp.Column) and isinstance(term, exp.Column):
        tables = {folded(node.table), folded(term.table)} - {""}
        return folded(node.name) == folded(term.name) and len(tables) < 2
    return node == term


def _bare_query(
    select: exp.Select, names: list[str], grouped: Sequence[exp.Expr], extreme: exp.Expr | None
) -> str:
    """Return a query for a group with several values of a bare column; empty if impossible."""
    query = select.copy()
    add_visible_ctes(select, query)
    query.set("distinct", None)
    if extreme is None:
        if not spell_out_order(query):
            return ""
        query.set("expressions", _statistics(names))
        groups = written(query)
    elif any(query.args.get(clause) for clause in ("having", "limit", "offset")):
        return ""
    else:
        groups = _rows_with_extreme(query, names, grouped, extreme)
    several = " OR ".join(
        f"lo_{at} IS NOT hi_{at} OR (n_{at} > 0 AND n_{at} < total)" for at in range(len(names))
    )
    return f"SELECT * FROM ({groups}) WHERE {several} LIMIT 1"


def _statistics(names: Sequence[str]) -> list[exp.Expr]:
    texts = [
        f"MIN({name} COLLATE BINARY) AS lo_{at}, MAX({name} COLLATE BINARY) AS hi_{at}, "
        f"COUNT({name}) AS n_{at}"
        for at, name in enumerate(names)
    ]
    return projections(f"{', '.join(texts)}, COUNT(*) AS total")


def _rows_with_extreme(
    query: exp.Select, names: Sequence[str], grouped: Sequence[exp.Expr], extreme: exp.Expr
) -> str:
    """Return the statistics of the rows that have the extreme of their group."""
    keys = [written(term) for term in grouped]
    partition = f"PARTITION BY {', '.join(keys)}" if keys else ""
    columns = [f"{key} AS g_{at}" for at, key in enumerate(keys)]
    columns += [f"{name} AS b_{at}" for at, name in enumerate(names)]
    columns += [f"{written(extreme.this)} AS v", f"{written(extreme)} OVER ({partition}) AS m"]
    query.set("expressions", projections(", ".join(columns)))
    query.set("group", None)
    query.set("order", None)
    group = ", ".join(f"g_{at}" for at in range(len(keys)))
    statistics = _statistics([f"b_{at}" for at in range(len(names))])
    return (
        f"SELECT {', '.join(map(written, statistics))} FROM ({written(query)}) "
        f"WHERE v IS m {'GROUP BY ' + group if keys else ''}"
    )
