"""Near-misses in a query's shape: DISTINCT, joins, aggregates, ORDER BY and LIMIT."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from text2sql.judge.strength.change import Change, Kind, replacement, shown
from text2sql.judge.strength.keys import Keys
from text2sql.judge.strength.nulls import outer_join_is_inner
from text2sql.judge.strength.scopes import (
    Node,
    column_of,
    is_row_once,
    is_taken_as_a_set,
    repeats_no_row,
    returns_one_row,
    source_of,
    use_of,
)

_SET = "a set of rows has none twice"
_UNIQUE_ROWS = "no row can occur twice"
_ONE_ROW = "the query returns one row"
_FIRST_ROW = "only the first row is taken"
_FILTERED = "a later condition rejects the unmatched rows"
_NO_ORDER = "a set of rows has no order"
_UNIQUE_VALUES = "no value can occur twice"


def distincts(tree: Node, keys: Keys) -> Iterator[Change]:
    """Add DISTINCT to each SELECT without it and drop it from each other."""
    for select in tree.find_all(exp.Select):
        neutral = _distinct_is_neutral(select, keys)
        if neutral is None:
            continue
        word = "without" if select.args.get("distinct") else "with"
        text = f"{word} DISTINCT in {_head(select)}"
        yield Change(Kind.DISTINCT, select, _turn_distinct, text, neutral)


def _turn_distinct(select: Node) -> None:
    select.set("distinct", None if select.args.get("distinct") else exp.Distinct())


def _distinct_is_neutral(select: exp.Select, keys: Keys) -> str | None:
    """Say why DISTINCT makes no difference; None where it only depends on the order of ties."""
    if repeats_no_row(select, keys):
        return _ONE_ROW if returns_one_row(select) else _UNIQUE_ROWS
    limit = _rows(select)
    if limit is None and is_taken_as_a_set(select):
        return _SET
    if use_of(select) == "value" or limit == 1:
        return _FIRST_ROW if _order_is_returned(select) and not _offset(select) else None
    return ""


def _order_is_returned(select: exp.Select) -> bool:
    """Whether rows that differ in ORDER BY differ in what they return."""
    order = select.args.get("order")
    columns = [projection.unalias() for projection in select.expressions]
    return order is not None and all(
        any(column == term.this for term in order.expressions) for column in columns
    )


def joins(tree: Node, keys: Keys) -> Iterator[Change]:
    """Make each inner join with a condition a left one, and the reverse."""
    for join in tree.find_all(exp.Join):
        select = join.parent
        conditional = join.args.get("using") or (join.args.get("on") not in (None, exp.true()))
        if not isinstance(select, exp.Select) or not conditional or join.side not in ("", "LEFT"):
            continue
        new = join.copy()
        new.set("side", None if join.side else "LEFT")
        new.set("kind", None)
        neutral = _FILTERED if outer_join_is_inner(select, join, keys) else ""
        yield replacement(Kind.JOIN, join, new, neutral)


def aggregates(tree: Node, keys: Keys) -> Iterator[Change]:
    """Put the aggregate that is taken by mistake into the place of each."""
    for node in tree.find_all(exp.Sum, exp.Avg, exp.Min, exp.Max):
        for other in _CONFUSED[type(node)]:
            yield replacement(Kind.AGGREGATE, node, other(this=node.this.copy()))
    for node in tree.find_all(exp.Count):
        changed = _counted(node)
        if changed is not None:
            neutral = _UNIQUE_VALUES if _counts_unique(node, keys) else ""
            yield replacement(Kind.AGGREGATE, node, exp.Count(this=changed), neutral)


_CONFUSED: dict[type[exp.Expr], tuple[type[exp.AggFunc], ...]] = {
    exp.Sum: (exp.Avg, exp.Count),
    exp.Avg: (exp.Sum,),
    exp.Min: (exp.Max,),
    exp.Max: (exp.Min,),
}


def _counted(node: exp.Count) -> Node | None:
    """Return what COUNT is given instead: with DISTINCT or without it."""
    argument = node.this
    if isinstance(argument, exp.Star) or isinstance(node.parent, exp.Window):
        return None
    if isinstance(argument, exp.Distinct):
        return argument.expressions[0].copy() if len(argument.expressions) == 1 else None
    return exp.Distinct(expressions=[argument.copy()])


def _counts_unique(node: exp.Count, keys: Keys) -> bool:
    argument = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
    found, column = source_of(argument, keys), column_of(argument, keys)
    if not isinstance(argument, exp.Column) or found is None or column is None:
        return False
    return column[1] in keys.unique and is_row_once(*found, keys)


def orders(tree: Node, keys: Keys) -> Iterator[Change]:
    """Turn the direction of each ORDER BY term that decides something, or the set rule hides."""
    for term in tree.find_all(exp.Ordered):
        query = term.parent.parent if isinstance(term.parent, exp.Order) else None
        if query is None or (use := _use_of_order(query)) is None:
            continue
        new = term.copy()
        new.set("desc", not term.args.get("desc"))
        if bool(term.args.get("nulls_first")) is not bool(term.args.get("desc")):
            new.set("nulls_first", not term.args.get("nulls_first"))  # SQLite's NULLs are small
        yield replacement(Kind.ORDER, term, new, use)


def _use_of_order(query: Node) -> str | None:
    """Say why an order makes no difference, empty where it does; None where that is not sure."""
    if isinstance(query, exp.Window):
        return ""
    if not isinstance(query, exp.Query):
        return None
    if returns_one_row(query):
        return _ONE_ROW
    if _rows(query) is not None or use_of(query) == "value":
        return ""
    return _NO_ORDER if use_of(query) in ("result", "in", "exists") else None


def limits(tree: Node, keys: Keys) -> Iterator[Change]:
    """Let each LIMIT return one row more, and drop it."""
    for limit in tree.find_all(exp.Limit):
        query = limit.parent
        number = _rows(query) if query is not None else None
        if query is None or not number:
            continue
        more = exp.Limit(expression=exp.Literal.number(number + 1))
        one = _ONE_ROW if returns_one_row(query) else ""
        first = _FIRST_ROW if use_of(query) in ("value", "exists") else ""
        yield replacement(Kind.LIMIT, limit, more, one or first)
        yield Change(
            Kind.LIMIT,
            query,
            _without_limit,
            f"without {shown(limit).strip()}",
            "" if _offset(query) else one or first,
        )


def _without_limit(query: Node) -> None:
    query.set("limit", None)
    query.set("offset", None)


def _rows(query: Node) -> int | None:
    """Return the rows of a LIMIT: None without one, 0 where it is no plain number."""
    limit = query.args.get("limit")
    if limit is None:
        return None
    text = limit.expression.name if isinstance(limit.expression, exp.Literal) else ""
    return int(text) if text.isdigit() else 0


def _offset(query: Node) -> bool:
    return query.args.get("offset") is not None


def _head(select: exp.Select) -> str:
    columns = ", ".join(shown(projection) for projection in select.expressions)
    return f"SELECT {columns}"
