"""The changes that make near-misses: one thing in a query that a policy may get wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import partial
from itertools import chain

from sqlglot import exp

from text2sql.judge.strength import scopes
from text2sql.judge.strength.keys import Keys
from text2sql.judge.strength.scopes import Node

DIALECT = "sqlite"
_SWAPPED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.LTE,
    exp.LTE: exp.LT,
    exp.GT: exp.GTE,
    exp.GTE: exp.GT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
}
# Why a change is neutral
_IMPLIED = "the schema or another condition implies it"
_SET = "a set of rows has none twice"
_UNIQUE_ROWS = "no row can occur twice"
_ONE_ROW = "the query returns one row"
_FIRST_ROW = "only the first row is taken"
_FILTERED = "a later condition rejects the unmatched rows"
_NO_ORDER = "a set of rows has no order"
_UNIQUE_VALUES = "no value can occur twice"

_CONFUSED: dict[type[exp.Expr], tuple[type[exp.AggFunc], ...]] = {
    exp.Sum: (exp.Avg, exp.Count),
    exp.Avg: (exp.Sum,),
    exp.Min: (exp.Max,),
    exp.Max: (exp.Min,),
}
_RANGE = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
_EQUAL = (exp.EQ, exp.NEQ, exp.In)
_NUMBER = re.compile(r"\d{1,15}(\.\d{1,15})?\Z")
_YEAR = re.compile(r"[12]\d{3}(?!\d)|[12]\d{3}(?=\d\d\Z|\d{4}\Z)")


class Kind(StrEnum):
    """What a near-miss changes."""

    COMPARISON = "comparison"  # < and <=, > and >=, = and !=; BETWEEN without its ends
    DISTINCT = "distinct"  # DISTINCT of a SELECT, added or dropped
    JOIN = "join"  # an inner join made a left one, or the reverse
    AGGREGATE = "aggregate"  # SUM, AVG and COUNT, MIN and MAX, COUNT(x) and COUNT(DISTINCT x)
    ORDER = "order"  # the direction of one ORDER BY term
    LIMIT = "limit"  # one row more, or no LIMIT
    CONDITION = "condition"  # one condition dropped
    CONNECTIVE = "connective"  # AND and OR
    LITERAL = "literal"  # a number, a year or a LIKE pattern


@dataclass(frozen=True)
class Change:
    """A change: the place in the query's tree, and the edit of a copy of that place.

    ``text`` says it in words. ``neutral`` says why it cannot change the result as a set of rows,
    whatever is in the tables; empty where it can.
    """

    kind: Kind
    place: exp.Expr
    edit: Callable[[exp.Expr], object]
    text: str
    neutral: str = ""


def replacement(kind: Kind, place: exp.Expr, new: exp.Expr, neutral: str = "") -> Change:
    """Return the change that puts ``new`` into a place."""
    text = f"{shown(place)} -> {shown(new)}"
    return Change(kind, place, lambda node: node.replace(new.copy()), text, neutral)


def shown(node: exp.Expr) -> str:
    """Return a part of a query as SQL."""
    return node.sql(dialect=DIALECT)


def changes_to(tree: exp.Query, keys: Keys) -> Iterator[Change]:
    """Yield every change of a query that makes a near-miss."""
    with_keys = (comparisons, dropped_conditions, connectives, distincts, joins)
    rest = (aggregates, orders, limits)
    return chain(*(changes(tree, keys) for changes in (*with_keys, *rest)), literals(tree))


# Conditions


def comparisons(tree: Node, keys: Keys) -> Iterator[Change]:
    """Swap each comparison, except the equality that joins two sources."""
    for node in tree.find_all(*_SWAPPED):
        if not scopes.joins_sources(node, keys):
            swapped = _SWAPPED[type(node)]
            new = swapped(this=node.this.copy(), expression=node.expression.copy())
            yield replacement(Kind.COMPARISON, node, new)
    for node in tree.find_all(exp.Between):
        above = exp.GT(this=node.this.copy(), expression=node.args["low"].copy())
        below = exp.LT(this=node.this.copy(), expression=node.args["high"].copy())
        without_ends = exp.Paren(this=exp.And(this=above, expression=below))
        yield replacement(Kind.COMPARISON, node, without_ends)


def dropped_conditions(tree: Node, keys: Keys) -> Iterator[Change]:
    """Drop each condition, or its clause if it is alone there, except those that join sources."""
    for node in tree.find_all(exp.And, exp.Or):
        for dropped in (node.this, node.expression):
            if not isinstance(dropped, exp.Connector) and not scopes.joins_sources(dropped, keys):
                yield _dropped(node, dropped, keys)
    for clause in tree.find_all(exp.Where, exp.Having):
        several = isinstance(clause.this.unnest(), exp.Connector)
        if not several and not scopes.joins_sources(clause.this, keys):
            implied = isinstance(clause, exp.Where) and scopes.is_filter_implied(
                clause.this, [], keys
            )
            text = f"without {shown(clause).strip()}"
            neutral = _IMPLIED if implied else ""
            yield Change(Kind.CONDITION, clause, lambda node: node.pop(), text, neutral)


def _dropped(node: Node, dropped: Node, keys: Keys) -> Change:
    top = node
    while isinstance(top.parent, exp.And | exp.Paren):
        top = top.parent
    implied = False
    if isinstance(node, exp.And) and isinstance(top.parent, exp.Where):  # so each must be true
        others = [one for one in scopes.conjuncts(top) if one is not dropped]
        implied = dropped in others or scopes.is_filter_implied(dropped, others, keys)
    kept = "expression" if dropped is node.this else "this"
    text, neutral = f"without {shown(dropped)}", _IMPLIED if implied else ""
    return Change(Kind.CONDITION, node, lambda copy: copy.replace(copy.args[kept]), text, neutral)


def connectives(tree: Node, keys: Keys) -> Iterator[Change]:
    """Make each AND an OR and the reverse, except among joining equalities."""
    for node in tree.find_all(exp.And, exp.Or):
        if any(scopes.joins_sources(equality, keys) for equality in node.find_all(exp.EQ)):
            continue
        other = exp.Or if isinstance(node, exp.And) else exp.And
        sides = (_in_parentheses(node.this.copy()), _in_parentheses(node.expression.copy()))
        swapped = other(this=sides[0], expression=sides[1])
        inside = isinstance(node.parent, exp.Connector | exp.Not)
        yield replacement(Kind.CONNECTIVE, node, _in_parentheses(swapped) if inside else swapped)


def _in_parentheses(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.Connector) else node


# The shape of a query


def distincts(tree: Node, keys: Keys) -> Iterator[Change]:
    """Add DISTINCT to each SELECT without it and drop it from each other."""
    for select in tree.find_all(exp.Select):
        if (neutral := _distinct_is_neutral(select, keys)) is None:
            continue
        new = None if select.args.get("distinct") else exp.Distinct()
        columns = ", ".join(map(shown, select.expressions))
        text = f"{'with' if new else 'without'} DISTINCT in SELECT {columns}"
        edit = partial(_set, distinct=new)
        yield Change(Kind.DISTINCT, select, edit, text, neutral)


def _set(node: Node, **arguments: Node | None) -> None:
    for name, value in arguments.items():
        node.set(name, value.copy() if value else None)


def _distinct_is_neutral(select: exp.Select, keys: Keys) -> str | None:
    """Say why DISTINCT makes no difference; None where only the order of ties decides."""
    if scopes.repeats_no_row(select, keys):
        return _ONE_ROW if scopes.returns_one_row(select) else _UNIQUE_ROWS
    limit = _rows(select)
    if limit is None and scopes.is_taken_as_a_set(select):
        return _SET
    if scopes.use_of(select) == "value" or limit == 1:
        return _FIRST_ROW if _order_is_returned(select) and not select.args.get("offset") else None
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
        neutral = _FILTERED if scopes.outer_join_is_inner(select, join, keys) else ""
        yield replacement(Kind.JOIN, join, new, neutral)


def aggregates(tree: Node, keys: Keys) -> Iterator[Change]:
    """Replace each aggregate with the one it is often confused with."""
    for node in tree.find_all(exp.Sum, exp.Avg, exp.Min, exp.Max):
        for other in _CONFUSED[type(node)]:
            yield replacement(Kind.AGGREGATE, node, other(this=node.this.copy()))
    for node in tree.find_all(exp.Count):
        argument = node.this
        if isinstance(argument, exp.Star) or isinstance(node.parent, exp.Window):
            continue
        changed: Node = exp.Distinct(expressions=[argument.copy()])
        if isinstance(argument, exp.Distinct):
            changed = argument.expressions[0].copy()
        if not isinstance(argument, exp.Distinct) or len(argument.expressions) == 1:
            neutral = _UNIQUE_VALUES if _counts_unique(node, keys) else ""
            yield replacement(Kind.AGGREGATE, node, exp.Count(this=changed), neutral)


def _counts_unique(node: exp.Count, keys: Keys) -> bool:
    argument = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
    found, column = scopes.source_of(argument, keys), scopes.column_of(argument, keys)
    if not isinstance(argument, exp.Column) or found is None or column is None:
        return False
    return column[1] in keys.unique and scopes.is_row_once(*found, keys)


def orders(tree: Node, keys: Keys) -> Iterator[Change]:
    """Reverse each ORDER BY term whose effect is known, even where sets of rows hide it."""
    for term in tree.find_all(exp.Ordered):
        query = term.parent.parent if isinstance(term.parent, exp.Order) else None
        if query is None or (use := _use_of_order(query)) is None:
            continue
        new = term.copy()
        new.set("desc", not term.args.get("desc"))
        if bool(term.args.get("nulls_first")) is not bool(term.args.get("desc")):
            new.set("nulls_first", not term.args.get("nulls_first"))  # in SQLite, NULLs sort first
        yield replacement(Kind.ORDER, term, new, use)


def _use_of_order(query: Node) -> str | None:
    """Say why an order makes no difference, empty where it does; None where it is uncertain."""
    if isinstance(query, exp.Window):
        return ""
    if not isinstance(query, exp.Query):
        return None
    if scopes.returns_one_row(query):
        return _ONE_ROW
    if _rows(query) is not None or scopes.use_of(query) == "value":
        return ""
    return _NO_ORDER if scopes.use_of(query) in ("result", "in", "exists") else None


def limits(tree: Node, keys: Keys) -> Iterator[Change]:
    """Raise each LIMIT by one row, and drop it."""
    for limit in tree.find_all(exp.Limit):
        query = limit.parent
        if query is None or not (number := _rows(query)):
            continue
        more = exp.Limit(expression=exp.Literal.number(number + 1))
        first = _FIRST_ROW if scopes.use_of(query) in ("value", "exists") else ""
        neutral = _ONE_ROW if scopes.returns_one_row(query) else first
        yield replacement(Kind.LIMIT, limit, more, neutral)
        text = f"without {shown(limit).strip()}"
        edit = partial(_set, limit=None, offset=None)
        yield Change(Kind.LIMIT, query, edit, text, "" if query.args.get("offset") else neutral)


def _rows(query: Node) -> int | None:
    """Return the rows of a LIMIT: None without one, 0 where it is not a number."""
    limit = query.args.get("limit")
    if limit is None:
        return None
    text = limit.expression.name if isinstance(limit.expression, exp.Literal) else ""
    return int(text) if text.isdigit() else 0


# Literals


def literals(tree: Node) -> Iterator[Change]:
    """Change each number, year and pattern in a comparison.

    A number in an equality grows by one; the limit of a range grows in its first digit, since the
    next number often selects the same rows. Other texts stay: which name could be taken for another
    depends on the data.
    """
    for node in tree.find_all(exp.Literal):
        place = node.parent.parent if isinstance(node.parent, exp.Neg) else node.parent
        new = None
        if isinstance(place, exp.Like):
            new = _pattern(node.name) if node is place.expression else None
        elif isinstance(place, (*_RANGE, *_EQUAL)):
            new = _value(node, isinstance(place, _RANGE))
        if new is not None:
            literal = exp.Literal(this=new, is_string=node.is_string)
            yield replacement(Kind.LITERAL, node, literal)


def _value(literal: exp.Literal, is_range: bool) -> str | None:
    text = literal.name
    if literal.is_string and (year := _YEAR.match(text)):
        return f"{int(year[0]) + 1}{text[year.end() :]}"
    if not _NUMBER.match(text):
        return None
    if literal.is_string:
        return None if is_range else str(int(text) + 1).zfill(len(text)) if text.isdigit() else None
    number = Decimal(text)
    step = Decimal(10) ** number.adjusted() if is_range and number else Decimal(1)
    return format(number + step, "f")


def _pattern(text: str) -> str | None:
    """Return a pattern that matches anywhere or, where it did so already, only at the start."""
    inside = text.strip("%")
    if not inside:
        return None
    return f"{inside}%" if text == f"%{inside}%" else f"%{inside}%"
