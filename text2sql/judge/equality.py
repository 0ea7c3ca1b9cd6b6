"""When two results are equal: the one place that decides it.

``same`` is for scoring: exact, as BIRD's evaluator. ``alike`` is for everything else, such as
votes, verified SQL and what changed since yesterday: there ``100.0 * SUM(x) / n`` and
``SUM(x) * 100.0 / n`` are one answer, although their floats differ in the last digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from text2sql.sandbox import QueryResult
from text2sql.sandbox.results import GRIDS
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


def alike(
    result: QueryResult | str | None, other: QueryResult | str | None, rule: Rule = "official"
) -> bool:
    """Whether two results are equal where floats within 1e-9, relatively, are one value.

    A result may be given as what was kept of it: ``near``, or for multiset ``near_multiset``.
    """
    return not _kept(result, rule).isdisjoint(_kept(other, rule))


def groups_of(kept: Sequence[str]) -> list[int]:
    """Return a group for each of several results, given as what was kept of them.

    Results that are alike are in one group, and so are those with a chain of alike ones between
    them: so the groups do not depend on the order. Groups are numbered by their first member.
    """
    place: dict[str, int] = {}
    groups: list[int] = []
    for number, text in enumerate(kept):
        parts = _parts(text)
        met = {place[part] for part in parts if part in place}
        first = min(met, default=number)
        for part, group in place.items():
            if group in met:
                place[part] = first
        place |= dict.fromkeys(parts, first)
        groups = [first if group in met else group for group in groups] + [first]
    return groups


def _kept(result: QueryResult | str | None, rule: Rule) -> set[str]:
    if result is not None and not isinstance(result, str):
        result = result.near if rule == "official" else result.near_multiset
    return _parts(result) if result else set()


def _parts(kept: str) -> set[str]:
    """Return the digests in a kept text; a result without floats has the same on every grid."""
    parts = set(kept.split("~"))
    return parts | {f"{grid}{kept}" for grid in GRIDS} if len(parts) == 1 else parts


def _digest(result: QueryResult | GoldResult | str | None, rule: Rule) -> str:
    if result is None or isinstance(result, str):
        return (result or "").partition("~")[0]
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
