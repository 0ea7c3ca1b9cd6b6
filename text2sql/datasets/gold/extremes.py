"""MIN and MAX of numbers that are kept as text: as text, '9' is more than '100'."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.errors import SqlglotError

from text2sql.datasets.gold.aggregates import argument_of, probe_of
from text2sql.datasets.gold.casts import unknown_casts
from text2sql.datasets.gold.parsing import parsed
from text2sql.datasets.gold.text_numbers import without_marks

_EXTREME = re.compile(r"\b(?:max|min)\s*\(", re.IGNORECASE)
_PROBE = (
    "{name}({value}), {name}(CAST({plain} AS REAL)), SUM(TRIM({value}) <> '' AND NOT ({number}))"
)
_NUMBER = (
    "typeof({value}) = 'text' AND {value} GLOB '*[0-9]*' "
    "AND LTRIM(RTRIM({plain}), ' +-') NOT GLOB '*[^0-9.]*'"
)


def extremes_of(sql: str) -> list[str]:
    """Return a probe for each MIN and MAX that a query, or one inside it, selects.

    A probe's rows are, for each group, the value that SQLite finds, that by number, and how
    many values are no numbers in text. A query that cannot be read has no probes.
    """
    if not _EXTREME.search(sql) or unknown_casts(sql):
        return []
    try:
        tree = parsed(sql)
        return list(dict.fromkeys(_probe(node) for node in _selected(tree)))
    except (SqlglotError, RecursionError, ValueError):
        return []


def _selected(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the aggregates of one argument that a SELECT returns, but no window's."""
    for node in tree.find_all(exp.Max, exp.Min):
        inside: exp.Expr | None = node
        while inside is not None and not isinstance(inside.parent, exp.Select | exp.Window):
            inside = inside.parent
        if inside is None or isinstance(inside.parent, exp.Window) or node.expressions:
            continue
        if inside.arg_key == "expressions":
            yield node


def _probe(node: exp.Expr) -> str:
    value = argument_of(node)
    name = "MAX" if isinstance(node, exp.Max) else "MIN"
    plain = without_marks(value)
    number = _NUMBER.format(value=value, plain=plain)
    return probe_of(node, _PROBE.format(name=name, value=value, plain=plain, number=number))
