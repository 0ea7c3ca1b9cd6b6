"""When two results are equal: the one place that decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from text2sql.sandbox import QueryResult
from text2sql.sandbox.sql.tokens import tokens_of

if TYPE_CHECKING:
    from text2sql.judge.verdicts import GoldResult

Rule = Literal["official", "multiset", "ordered"]
"""How results are compared.

official: as sets of rows, as BIRD's evaluator does. multiset: duplicates count. ordered: as
multiset, and the row order counts as well where gold's outermost SELECT has an ORDER BY.
"""


def same(
    result: QueryResult | str | None,
    other: QueryResult | GoldResult | str | None,
    rule: Rule = "official",
) -> bool:
    """Whether two results are equal under a rule; ``other`` is gold where there is gold.

    A result may be given as the digest that was kept of it, which must be that of the rule. A query
    that failed or was cut short has no digest, and its result equals nothing.
    """
    if rule == "ordered" and not getattr(other, "sorts", True):
        rule = "multiset"
    found = _digest(result, rule)
    return found != "" and found == _digest(other, rule)


def _digest(result: QueryResult | GoldResult | str | None, rule: Rule) -> str:
    if result is None or isinstance(result, str):
        return result or ""
    if rule == "official":
        return result.digest
    return result.multiset_digest if rule == "multiset" else result.ordered_digest


def sorts(sql: str) -> bool:
    """Whether the outermost SELECT of a query has an ORDER BY."""
    if "order" not in sql.lower():  # reading the tokens of a whole dataset's gold takes a while
        return False
    depth, before = 0, None
    for token in tokens_of(sql):
        if depth == 0 and token.is_word("BY") and before is not None and before.is_word("ORDER"):
            return True
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        before = token
    return False
