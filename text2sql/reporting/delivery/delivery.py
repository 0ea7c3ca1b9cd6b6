"""Sending a day's report to people, once on each channel; a failure never loses an answer."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from text2sql.errors import Text2SqlError
from text2sql.reporting.delivery.channels import Channel, Message
from text2sql.reporting.delivery.entries import Entry, summary
from text2sql.reporting.delivery.markdown import render_markdown
from text2sql.reporting.delivery.page import render_page
from text2sql.reporting.tables.schema import deliveries
from text2sql.reporting.tables.store import ReportingStore

What = Literal["report", "changes"]
_STALE = timedelta(minutes=15)
"""A run that has been sending for longer is taken to be dead."""
_ERROR_CHARS = 2000
_log = logging.getLogger(__name__)


class DeliveryStatus(StrEnum):
    """What happened to a message on one channel."""

    SENT = "sent"
    BEFORE = "sent before"
    ELSEWHERE = "being sent by another run"
    FAILED = "failed"


@dataclass(frozen=True)
class Delivery:
    """A channel, what happened to the message there, and the error."""

    channel: str
    status: DeliveryStatus
    error: str = ""


def build_message(day: str, entries: Sequence[Entry], what: What = "report") -> Message | None:
    """Return the message about a day, or None if only changes are wanted and there are none."""
    included = [entry for entry in entries if what == "report" or entry.is_news]
    if not included:
        return None
    facts: list[dict[str, object]] = [
        {
            "question_id": entry.answer.question_id,
            "status": entry.answer.status.value,
            "share": entry.answer.share,
            "change": entry.answer.change,
            "verified": entry.answer.verified,
            "rows": entry.answer.row_count,
            "digest": entry.answer.digest,
            "sql": entry.answer.sql,
            "concerns": entry.concerns,
            "refusal": entry.refusal,
        }
        for entry in included
    ]
    text = json.dumps([day, what, facts], sort_keys=True)
    return Message(
        day,
        f"Answers of {day}: {summary(entries)}",
        render_markdown(day, included),
        render_markdown(day, included, rows=False),
        render_page(day, included),
        hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16],
        facts,
    )


def deliver(store: ReportingStore, message: Message, channel: Channel) -> Delivery:
    """Send a message on a channel unless it was sent there before; record what happened."""
    target = hashlib.sha256(channel.address.encode()).hexdigest()[:16]
    key = {"day": message.day, "channel": channel.kind, "target": target}
    key["content"] = message.content
    if (elsewhere := _claim(store, key)) is not None:
        return Delivery(channel.kind, elsewhere)
    try:
        error, status = channel.send(message), DeliveryStatus.SENT
    except Exception as problem:  # noqa: BLE001 - the answers are stored, whatever happens here
        unexpected = None if isinstance(problem, Text2SqlError) else problem
        error, status = str(problem) or type(problem).__name__, DeliveryStatus.FAILED
        _log.warning("%s: the report was not delivered: %s", channel.kind, error,
                     exc_info=unexpected)  # fmt: skip
    values = {
        "status": status.value,
        "error": error[:_ERROR_CHARS] or None,
        "sent_at": datetime.now(UTC) if status is DeliveryStatus.SENT else None,
    }
    with store.writing() as connection:
        connection.execute(sa.update(deliveries).where(*_is(key)).values(values))
    return Delivery(channel.kind, status, error)


def _claim(store: ReportingStore, key: dict[str, str]) -> DeliveryStatus | None:
    """Record that this run sends a message; if it must not, return why."""
    now = datetime.now(UTC)
    row = key | {"status": "sending", "attempts": 1, "claimed_at": now}
    with store.writing() as connection:
        insert = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert
        new = insert(deliveries).values(row).on_conflict_do_nothing().returning(deliveries.c.day)
        if connection.execute(new).first() is not None:
            return None
        query = sa.select(deliveries).where(*_is(key)).with_for_update()
        found = connection.execute(query).one()
        if found.status == "sent":
            return DeliveryStatus.BEFORE
        if found.status == "sending" and found.claimed_at > now - _STALE:
            return DeliveryStatus.ELSEWHERE
        again = {"status": "sending", "claimed_at": now, "attempts": deliveries.c.attempts + 1}
        connection.execute(sa.update(deliveries).where(*_is(key)).values(again))
        return None


def _is(key: dict[str, str]) -> list[sa.ColumnElement[bool]]:
    return [deliveries.c[name] == value for name, value in key.items()]
