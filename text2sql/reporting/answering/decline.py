"""Whether recent answers are worse than they should be, or than they were before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

import sqlalchemy as sa

from text2sql.common.counting import counted
from text2sql.reporting.model.answer import AnswerStatus, Verified
from text2sql.reporting.model.bounds import DeclineRule
from text2sql.reporting.tables.schema import answers
from text2sql.reporting.tables.store import ReportingStore

_c = answers.c


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
        compared=sum(n for (_, v), n in counts.items() if v in (Verified.MATCH, Verified.DIFFERS)),
        confirmed=sum(n for (_, verified), n in counts.items() if verified == Verified.MATCH),
    )


def declines(now: Period, before: Period, rule: DeclineRule) -> list[str]:
    """Return a sentence for each decline; none without one or with too few answers."""
    found = []
    for name, part, whole, floor in (
        ("questions answered", "answered", "asked", rule.answered),
        ("verified questions answered right", "confirmed", "compared", rule.verified),
    ):
        n, of = getattr(now, part), getattr(now, whole)
        if of < rule.least:
            continue
        words = f"{name}: {n / of:.0%} ({n} of {of}) in {counted(rule.days, 'day')}"
        n_before, of_before = getattr(before, part), getattr(before, whole)
        if n / of < floor:
            found.append(f"{words}; the limit is {floor:.0%}.")
        elif of_before >= rule.least and n_before / of_before - n / of > rule.drop:
            was = f"{n_before / of_before:.0%} ({n_before} of {of_before})"
            found.append(f"{words}, after {was} before.")
    return found
