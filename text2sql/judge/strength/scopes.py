"""What a query's parts mean: their sources, the use of their rows, and the effect of NULLs.

Every answer errs towards no: what the query and the schema do not prove is not claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from text2sql.common.render import folded
from text2sql.judge.strength.keys import ColumnName, Keys

Node = exp.Expr
IsMine = Callable[[exp.Column], bool]
"""Whether a column is one of those that are assumed to be NULL."""

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.Glob)
_OF_BOTH = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.DPipe)
_OF_FIRST = (
    *(exp.Abs, exp.Cast, exp.Length, exp.Lower, exp.Neg, exp.Paren, exp.Round, exp.Substring),
    *(exp.TimeToStr, exp.TsOrDsToTimestamp, exp.Upper),
)


def sources(select: exp.Select) -> dict[str, str]:
    """Return the sources of a SELECT: alias to table, empty for a subquery or a CTE."""
    origin = select.args.get("from_")
    common = {folded(cte.alias) for cte in select.root().find_all(exp.CTE)}
    found = {}
    for node in [*([origin] if origin else []), *select.args.get("joins", ())]:
        this = node.this
        name = folded(this.name) if isinstance(this, exp.Table) else ""
        found[folded(this.alias_or_name)] = "" if name in common else name
    return found


def source_of(column: Node, keys: Keys) -> tuple[exp.Select, str] | None:
    """Return the SELECT and the alias that a column belongs to, None where that is uncertain.

    A name in double quotes that no source has is text in SQLite, and has no source here.
    """
    select = column.find_ancestor(exp.Select)
    while select is not None:
        found = sources(select)
        table_name, name = folded(column.text("table")), folded(column.name)
        for alias, table in found.items():
            if alias == table_name or (not table_name and name in keys.columns.get(table, ())):
                return select, alias
        select = select.find_ancestor(exp.Select)
    return None


def column_of(node: Node, keys: Keys) -> tuple[str, ColumnName] | None:
    """Return a column's alias and its place in the schema, None where that is uncertain."""
    found = source_of(node, keys) if isinstance(node, exp.Column) else None
    if found is None:
        return None
    select, alias = found
    return alias, (sources(select)[alias], folded(node.name))


def joins_sources(node: Node, keys: Keys) -> bool:
    """Whether a condition is the equality that joins two sources."""
    if not isinstance(node, exp.EQ):
        return False
    left, right = column_of(node.this, keys), column_of(node.expression, keys)
    return left is not None and right is not None and left[0] != right[0]


def conjuncts(condition: Node | None) -> Iterator[Node]:
    """Yield the conditions that must all be true."""
    if isinstance(condition, exp.And):
        yield from conjuncts(condition.this)
        yield from conjuncts(condition.expression)
    elif isinstance(condition, exp.Paren):
        yield from conjuncts(condition.this)
    elif condition is not None:
        yield condition


def aggregates(select: exp.Select) -> list[exp.AggFunc]:
    """Return the aggregates, but no window functions, among a SELECT's result columns."""
    return [
        node
        for projection in select.expressions
        for node in projection.find_all(exp.AggFunc)
        if node.find_ancestor(exp.Select) is select and not isinstance(node.parent, exp.Window)
    ]


def returns_one_row(select: Node) -> bool:
    """Whether a query aggregates all its rows into one."""
    return (
        isinstance(select, exp.Select) and not select.args.get("group") and bool(aggregates(select))
    )


def use_of(query: Node) -> str:
    """Say what uses a query's rows.

    ``result``: nothing, they are the statement's. ``part``: a UNION, INTERSECT or EXCEPT. ``in``
    and ``exists``: that operator. ``source``: a SELECT that reads the subquery or CTE. ``value``:
    an expression, for which SQLite takes the first row.
    """
    node = query
    while isinstance(node.parent, exp.Subquery | exp.Paren):
        node = node.parent
    parent = node.parent
    if parent is None:
        return "result"
    if isinstance(parent, exp.SetOperation):
        return "part"
    if isinstance(parent, exp.In):
        return "in"
    if isinstance(parent, exp.Exists):
        return "exists"
    return "source" if isinstance(parent, exp.From | exp.Join | exp.CTE) else "value"


def is_taken_as_a_set(query: Node) -> bool:
    """Whether repeated rows of a query cannot change the statement's result as a set."""
    use = use_of(query)
    if use == "part":
        parent = query.find_ancestor(exp.SetOperation)
        return parent is not None and bool(
            parent.args.get("distinct") or (_is_plain(parent) and is_taken_as_a_set(parent))
        )
    if use == "source":
        others = [node for node in query.root().find_all(exp.Query) if node is not query]
        return all(_is_plain(node) for node in others)
    return use in ("result", "in", "exists")


def _is_plain(query: Node) -> bool:
    """Whether a query neither counts nor limits its rows."""
    if isinstance(query, exp.Subquery):
        return True
    if query.args.get("limit") or query.args.get("offset") or query.args.get("group"):
        return False
    return not any(query.find_all(exp.AggFunc, exp.Window, exp.Anonymous))


def repeats_no_row(select: exp.Select, keys: Keys) -> bool:
    """Whether a SELECT cannot return a row twice, whatever is in its tables."""
    columns = [projection.unalias() for projection in select.expressions]
    group = select.args.get("group")
    if returns_one_row(select) or not select.args.get("from_"):
        return True
    if group:
        return bool(group.expressions) and all(key in columns for key in group.expressions)
    outer = {folded(j.this.alias_or_name) for j in select.args.get("joins", ()) if j.side}
    for column in columns:
        found = column_of(column, keys)
        if found and found[0] not in outer and found[1] in keys.unique & keys.filled:
            return is_row_once(select, found[0], keys)
    return False


def is_row_once(select: exp.Select, alias: str, keys: Keys) -> bool:
    """Whether a SELECT joins each row of one source with at most one row of every other.

    So it is where an equality with a unique column of its own leads to every other source.
    """
    found = sources(select)
    joins = select.args.get("joins", ())
    if alias not in found or any(join.side in ("RIGHT", "FULL") for join in joins):
        return False
    equalities = list(_equalities(select, keys))
    reached = {alias}
    for _ in found:
        for one, other in equalities:
            if other[0] in reached and one[1] in keys.unique:
                reached.add(one[0])
    return reached == set(found)


def _equalities(
    select: exp.Select, keys: Keys
) -> Iterator[tuple[tuple[str, ColumnName], tuple[str, ColumnName]]]:
    """Yield both directions of each equality of columns that must be true."""
    where = select.args.get("where")
    conditions = [join.args.get("on") for join in select.args.get("joins", ())]
    for condition in [*conditions, where.this if where else None]:
        for node in conjuncts(condition):
            if joins_sources(node, keys):
                left, right = column_of(node.this, keys), column_of(node.expression, keys)
                if left and right:
                    yield left, right
                    yield right, left


# Which conditions a row of NULLs cannot pass: what makes an outer join an inner one.


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
    """Judge what is negated: NOT of NULL is NULL, but NOT of false is true."""
    if isinstance(node, exp.Paren):
        return _negation_rejects(node.this, mine)
    if isinstance(node, exp.Is):
        return isinstance(node.expression, exp.Null) and is_null(node.this, mine)
    if isinstance(node, exp.In) and node.args.get("query"):
        return False  # NULL IN (no rows) is false
    return isinstance(node, (*_COMPARISONS, exp.In, exp.Between)) and rejects_null(node, mine)


def outer_join_is_inner(select: exp.Select, join: exp.Join, keys: Keys) -> bool:
    """Whether LEFT JOIN and JOIN mean the same: a later condition rejects the unmatched rows."""
    alias = folded(join.this.alias_or_name)

    def mine(column: exp.Column) -> bool:
        found = source_of(column, keys)
        return found is not None and found[0] is select and found[1] == alias

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
