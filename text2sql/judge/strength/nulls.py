"""Which conditions a row of NULLs cannot pass: what makes an outer join an inner one."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from text2sql.judge.strength.keys import Keys
from text2sql.judge.strength.scopes import Node, aggregates, column_of, conjuncts, source_of

IsMine = Callable[[exp.Column], bool]
"""Whether a column is one of those that are taken to be NULL."""

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.Glob)
_OF_BOTH = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.DPipe)
_OF_FIRST = (
    exp.Abs,
    exp.Cast,
    exp.Length,
    exp.Lower,
    exp.Neg,
    exp.Paren,
    exp.Round,
    exp.Substring,
    exp.TimeToStr,
    exp.TsOrDsToTimestamp,
    exp.Upper,
)


def is_null(node: Node | None, mine: IsMine) -> bool:
    """Whether an expression is NULL for certain where the columns of ``mine`` are."""
    if isinstance(node, exp.Column):
        return mine(node)
    if isinstance(node, _OF_BOTH):
        return is_null(node.this, mine) or is_null(node.expression, mine)
    return isinstance(node, _OF_FIRST) and is_null(node.this, mine)


def rejects_null(node: Node | None, mine: IsMine) -> bool:
    """Whether a condition cannot be true where the columns of ``mine`` are NULL."""
    if isinstance(node, exp.Paren):
        return rejects_null(node.this, mine)
    if isinstance(node, exp.And):
        return rejects_null(node.this, mine) or rejects_null(node.expression, mine)
    if isinstance(node, exp.Or):
        return rejects_null(node.this, mine) and rejects_null(node.expression, mine)
    if isinstance(node, exp.Not):
        return _negation_rejects(node.this, mine)
    if isinstance(node, _COMPARISONS):
        return is_null(node.this, mine) or is_null(node.expression, mine)
    return isinstance(node, exp.In | exp.Between) and is_null(node.this, mine)


def _negation_rejects(node: Node, mine: IsMine) -> bool:
    """Judge what stands behind NOT: only what is NULL, rather than false, is so when negated."""
    if isinstance(node, exp.Paren):
        return _negation_rejects(node.this, mine)
    if isinstance(node, exp.Is):
        return isinstance(node.expression, exp.Null) and is_null(node.this, mine)
    if isinstance(node, exp.In) and node.args.get("query"):
        return False  # NULL IN (no rows) is false
    return isinstance(node, (*_COMPARISONS, exp.In, exp.Between)) and rejects_null(node, mine)


def outer_join_is_inner(select: exp.Select, join: exp.Join, keys: Keys) -> bool:
    """Whether LEFT JOIN and JOIN mean the same: a later condition rejects the unmatched rows."""
    alias = join.this.alias_or_name.lower()
    mine = _columns_of(select, alias, keys)
    joins = select.args.get("joins", [])
    later = joins[[other is join for other in joins].index(True) + 1 :]
    where = select.args.get("where")
    conditions = [other.args.get("on") for other in later if not other.side]
    conditions += [where.this] if where else []
    if any(rejects_null(one, mine) for condition in conditions for one in conjuncts(condition)):
        return not any(other.side in ("RIGHT", "FULL") for other in later)
    return not later and ignores_null(select, mine)


def ignores_null(select: exp.Select, mine: IsMine) -> bool:
    """Whether a SELECT returns aggregates only, and each skips rows where ``mine`` are NULL."""
    found = aggregates(select)
    if not found or select.args.get("group") or select.args.get("having"):
        return False
    inside = {id(node) for aggregate in found for node in aggregate.find_all(exp.Column)}
    columns = {id(node) for part in select.expressions for node in part.find_all(exp.Column)}
    return columns <= inside and all(_skips_null(aggregate, mine) for aggregate in found)


def _skips_null(aggregate: exp.AggFunc, mine: IsMine) -> bool:
    if not isinstance(aggregate, exp.Count | exp.Sum | exp.Avg | exp.Min | exp.Max):
        return False
    argument = aggregate.this
    if isinstance(argument, exp.Distinct):
        argument = argument.expressions[0] if len(argument.expressions) == 1 else None
    return is_null(argument, mine)


def _columns_of(select: exp.Select, alias: str, keys: Keys) -> IsMine:
    def mine(column: exp.Column) -> bool:
        found = source_of(column, keys)
        return found is not None and found[0] is select and found[1] == alias

    return mine


def is_filter_implied(node: Node, others: list[Node], keys: Keys) -> bool:
    """Whether ``x IS NOT NULL`` follows from the schema or from the other conditions."""
    inner = node.this if isinstance(node, exp.Not) else None
    if not isinstance(inner, exp.Is) or not isinstance(inner.expression, exp.Null):
        return False
    place = source_of(inner.this, keys) if isinstance(inner.this, exp.Column) else None
    column = column_of(inner.this, keys)
    if place is None or column is None:
        return False
    select = place[0]

    def mine(other: exp.Column) -> bool:
        return column_of(other, keys) == column and source_of(other, keys) == place

    if any(rejects_null(other, mine) for other in others) or ignores_null(select, mine):
        return True
    outer = any(join.side for join in select.args.get("joins", ()))
    return column[1] in keys.filled and not outer
