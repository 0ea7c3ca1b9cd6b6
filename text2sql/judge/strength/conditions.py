"""Near-misses in conditions: another operator, one condition less, AND for OR."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from text2sql.judge.strength.change import Change, Kind, replacement, shown
from text2sql.judge.strength.keys import Keys
from text2sql.judge.strength.nulls import is_filter_implied
from text2sql.judge.strength.scopes import Node, conjuncts, joins_sources

_SWAPPED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.LTE,
    exp.LTE: exp.LT,
    exp.GT: exp.GTE,
    exp.GTE: exp.GT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
}
_IMPLIED = "the schema or another condition implies it"


def comparisons(tree: Node, keys: Keys) -> Iterator[Change]:
    """Swap each comparison; the equality that joins two sources is left alone."""
    for node in tree.find_all(*_SWAPPED):
        if not joins_sources(node, keys):
            swapped = _SWAPPED[type(node)]
            new = swapped(this=node.this.copy(), expression=node.expression.copy())
            yield replacement(Kind.COMPARISON, node, new)
    for node in tree.find_all(exp.Between):
        yield replacement(Kind.COMPARISON, node, _without_ends(node))


def _without_ends(node: exp.Between) -> exp.Expr:
    value, low, high = node.this.copy(), node.args["low"].copy(), node.args["high"].copy()
    inside = exp.And(
        this=exp.GT(this=value, expression=low),
        expression=exp.LT(this=value.copy(), expression=high),
    )
    return exp.Paren(this=inside)


def dropped_conditions(tree: Node, keys: Keys) -> Iterator[Change]:
    """Drop each condition, whole clauses of one condition too, but none that joins sources."""
    for node in tree.find_all(exp.And, exp.Or):
        for dropped in (node.this, node.expression):
            if not isinstance(dropped, exp.Connector) and not joins_sources(dropped, keys):
                yield _dropped(node, dropped, keys)
    for clause in tree.find_all(exp.Where, exp.Having):
        single = not isinstance(clause.this.unnest(), exp.Connector)
        if single and not joins_sources(clause.this, keys):
            where = isinstance(clause, exp.Where)
            neutral = _IMPLIED if where and is_filter_implied(clause.this, [], keys) else ""
            text = f"without {shown(clause).strip()}"
            yield Change(Kind.CONDITION, clause, lambda node: node.pop(), text, neutral)


def _dropped(node: Node, dropped: Node, keys: Keys) -> Change:
    others = _others(node, dropped)
    implied = others is not None and (dropped in others or is_filter_implied(dropped, others, keys))
    side = "expression" if dropped is node.this else "this"
    return Change(
        Kind.CONDITION,
        node,
        lambda copy: copy.replace(copy.args[side]),
        f"without {shown(dropped)}",
        _IMPLIED if implied else "",
    )


def _others(node: Node, dropped: Node) -> list[Node] | None:
    """Return what must hold beside a condition; None where it is not one that must hold."""
    top = node
    while isinstance(top.parent, exp.And | exp.Paren):
        top = top.parent
    if not isinstance(node, exp.And) or not isinstance(top.parent, exp.Where):
        return None
    return [one for one in conjuncts(top) if one is not dropped]


def connectives(tree: Node, keys: Keys) -> Iterator[Change]:
    """Make each AND an OR and the reverse, but not those among joining equalities."""
    for node in tree.find_all(exp.And, exp.Or):
        if any(joins_sources(equality, keys) for equality in node.find_all(exp.EQ)):
            continue
        other = exp.Or if isinstance(node, exp.And) else exp.And
        sides = (_in_parentheses(node.this.copy()), _in_parentheses(node.expression.copy()))
        swapped = other(this=sides[0], expression=sides[1])
        inside = isinstance(node.parent, exp.Connector | exp.Not)
        yield replacement(Kind.CONNECTIVE, node, _in_parentheses(swapped) if inside else swapped)


def _in_parentheses(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.Connector) else node
