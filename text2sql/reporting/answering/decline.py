"""Whether recent answers are worse than they should be, or than they were before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

import sqlalchemy as sa

from text2sql.common.counting import counted
from text2sql.reporting.model.answer import AnswerStatus, Verified
from text2sql.reporting.model.bounds import DeclineRule
from text2sql.reporting.tables.schema import answers
from text2sql.reporting.tables.store import ReportingStore

_c = answers.c
_COMPARED = (Verified.MATCH.value, Verified.DIFFERS.value)


@dataclass(frozen=True)
class Period:
    """The results of the questions of some days.

    ``asked`` leaves out what failed for other reasons than the policy; ``compared`` counts the
    questions with verified SQL that ran, ``confirmed`` those with the same agreed result.
    """

    asked: int
    answered: int
    compared: int
    confirmed: int


def period(store: ReportingStore, first: date, last: date, revision: str | None = None) -> Period:
    """Count the answers of the days from ``first`` to ``last``, of one policy or of all.

    Days are UTC's: a question in another time zone may count a day earlier or later.
    """
    since = datetime.combine(first, time(), UTC)
    until = datetime.combine(last + timedelta(days=1), time(), UTC)
    query = sa.select(_c.status, _c.verified, sa.func.count().label("n"))
    query = query.where(_c.scheduled_at >= since, _c.scheduled_at < until)
    if revision is not None:
        query = query.where(_c.policy_revision == revision)
    rows = store.read(query.group_by(_c.status, _c.verified))
    counts = {(row.status, row.verified): int(row.n) for row in rows}
    return Period(
        asked=sum(n for (status, _), n in counts.items() if status != AnswerStatus.ERROR),
        answered=sum(n for (status, _), n in counts.items() if status == AnswerStatus.ANSWERED),
        compared=sum(n for (_, verified), n in counts.items() if verified in _COMPARED),
        confirmed=sum(n for (_, verified), n in counts.items() if verified == Verified.MATCH),
    )


def declines(now: Period, before: Period, rule: DeclineRule) -> list[str]:
    """Return a sentence for each decline; none without one or with too few answers."""
    shares: Mapping[str, tuple[tuple[int, int], tuple[int, int], float]] = {
        "questions answered": (
            (now.answered, now.asked),
            (before.answered, before.asked),
            rule.answered,
        ),
        "verified questions answered right": (
            (now.confirmed, now.compared),
            (before.confirmed, before.compared),
            rule.verified,
        ),
    }
    found = (_decline(name, *share, rule) for name, share in shares.items())
    return [sentence for sentence in found if sentence]


def _decline(
    name: str, now: tuple[int, int], before: tuple[int, int], floor: float, rule: DeclineRule
) -> str:
    if now[1] < rule.least:
        return ""
    share = now[0] / now[1]
    words = f"{name}: {share:.0%} ({now[0]} of {now[1]}) in {counted(rule.days, 'day')}"
    if share < floor:
        return f"{words}; the limit is {floor:.0%}."
    if before[1] >= rule.least and before[0] / before[1] - share > rule.drop:
        return f"{words}, after {before[0] / before[1]:.0%} ({before[0]} of {before[1]}) before."
    return ""
