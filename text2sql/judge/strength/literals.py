"""Near-misses in literals: another number, another year, a wider or narrower LIKE pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from sqlglot import exp

from text2sql.judge.strength.change import Change, Kind, replacement
from text2sql.judge.strength.scopes import Node

_RANGE = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
_EQUAL = (exp.EQ, exp.NEQ, exp.In)
_NUMBER = re.compile(r"\d{1,15}(\.\d{1,15})?\Z")
_YEAR = re.compile(r"[12]\d{3}(?!\d)|[12]\d{3}(?=\d\d\Z|\d{4}\Z)")


def literals(tree: Node) -> Iterator[Change]:
    """Change each number, year and pattern that something is compared with.

    A number that must be equalled grows by one; one that bounds a range grows in its first
    digit, since the next number often bounds the same rows. Other texts are left alone: what
    stands in the place of a name is a matter of the data.
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


def _value(literal: exp.Literal, bounds: bool) -> str | None:
    text = literal.name
    if literal.is_string and (year := _YEAR.match(text)):
        return f"{int(year[0]) + 1}{text[year.end() :]}"
    if not _NUMBER.match(text):
        return None
    if literal.is_string:
        return None if bounds else str(int(text) + 1).zfill(len(text)) if text.isdigit() else None
    number = Decimal(text)
    step = Decimal(10) ** number.adjusted() if bounds and number else Decimal(1)
    return format(number + step, "f")


def _pattern(text: str) -> str | None:
    """Return the pattern that matches more, or, where it matches anywhere, only at the start."""
    inside = text.strip("%")
    if not inside:
        return None
    return f"{inside}%" if text == f"%{inside}%" else f"%{inside}%"
