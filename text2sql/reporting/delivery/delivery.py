"""Sending a day's report to people, once each, without ever losing an answer over it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from text2sql.errors import Text2SqlError
from text2sql.reporting.delivery.entries import Entry, summary
from text2sql.reporting.delivery.markdown import render_markdown
from text2sql.reporting.delivery.page import render_page
from text2sql.reporting.model.notice import Notice
from text2sql.reporting.tables.schema import deliveries
from text2sql.reporting.tables.store import ReportingStore

What = Literal["report", "changes"]
_STALE = timedelta(minutes=15)
"""After so long, one who said that they were sending is taken to be dead."""
_ERROR_CHARS = 2000
_log = logging.getLogger(__name__)


class DeliveryError(Text2SqlError):
    """A message that was not taken; the text names the channel without its secrets."""


@dataclass(frozen=True)
class Message:
    """What is sent about a day.

    ``markdown`` has the first rows of each answer, ``summary`` none, ``page`` is the HTML page.
    ``content`` is a digest of what is told: equal messages are sent once. ``facts`` are the
    same for programs.
    """

    day: str
    subject: str
    markdown: str
    summary: str
    page: str
    content: str
    facts: list[dict[str, object]]


class Channel(Protocol):
    """A way to somebody."""

    @property
    def kind(self) -> str:
        """Its name."""
        ...

    @property
    def address(self) -> str:
        """Where to; it may be secret."""
        ...

    def send(self, message: Message) -> str:
        """Send it; return what went wrong in part, empty where nothing did; or raise."""
        ...

    def tell(self, notice: Notice) -> str:
        """Send a notice instead of a report; return and raise as ``send`` does."""
        ...


class State(StrEnum):
    """What became of a message on one channel."""

    SENT = "sent"
    BEFORE = "sent before"
    ELSEWHERE = "being sent by another run"
    FAILED = "failed"


@dataclass(frozen=True)
class Delivery:
    """A channel, what became of the message there, and why not."""

    channel: str
    state: State
    error: str = ""


def build_message(day: str, shown: Sequence[Entry], what: What = "report") -> Message | None:
    """Return the message about a day, or None where only changes are wanted and there are none."""
    told = [entry for entry in shown if what == "report" or entry.news]
    if not told:
        return None
    facts = [_facts(entry) for entry in told]
    text = json.dumps([day, what, facts], sort_keys=True)
    return Message(
        day,
        f"Answers of {day}: {summary(shown)}",
        render_markdown(day, told),
        render_markdown(day, told, rows=False),
        render_page(day, told),
        hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16],
        facts,
    )


def _facts(entry: Entry) -> dict[str, object]:
    answer = entry.answer
    return {
        "question_id": answer.question_id,
        "status": answer.status.value,
        "share": answer.share,
        "change": answer.change.value if answer.change else None,
        "verified": answer.verified.value if answer.verified else None,
        "rows": answer.row_count,
        "digest": answer.digest,
        "sql": answer.sql,
        "concerns": entry.concerns,
        "refusal": entry.refusal,
    }


def deliver(store: ReportingStore, message: Message, channels: Sequence[Channel]) -> list[Delivery]:
    """Send a message on every channel that has not had it, and note what became of it.

    One channel's failure does not keep the others from it; the next call tries it again.
    """
    return [_deliver(store, message, channel) for channel in channels]


def _deliver(store: ReportingStore, message: Message, channel: Channel) -> Delivery:
    key = _key(message, channel)
    if (taken := _claim(store, key)) is not None:
        return Delivery(channel.kind, taken)
    try:
        error, state = channel.send(message), State.SENT
    except Exception as problem:  # noqa: BLE001 - the answers are there, whatever happens here
        unforeseen = None if isinstance(problem, Text2SqlError) else problem
        error, state = str(problem) or type(problem).__name__, State.FAILED
        _log.warning("%s: the report was not delivered: %s", channel.kind, error,
                     exc_info=unforeseen)  # fmt: skip
    _settle(store, key, state, error)
    return Delivery(channel.kind, state, error)


def _key(message: Message, channel: Channel) -> dict[str, str]:
    target = hashlib.sha256(channel.address.encode()).hexdigest()[:16]
    return {
        "day": message.day,
        "channel": channel.kind,
        "target": target,
        "content": message.content,
    }


def _claim(store: ReportingStore, key: dict[str, str]) -> State | None:
    """Note that this run sends a message; where it must not, return why."""
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
            return State.BEFORE
        if found.status == "sending" and found.claimed_at > now - _STALE:
            return State.ELSEWHERE
        again = {"status": "sending", "claimed_at": now, "attempts": deliveries.c.attempts + 1}
        connection.execute(sa.update(deliveries).where(*_is(key)).values(again))
        return None


def _settle(store: ReportingStore, key: dict[str, str], state: State, error: str) -> None:
    values = {
        "status": state.value,
        "error": error[:_ERROR_CHARS] or None,
        "sent_at": datetime.now(UTC) if state is State.SENT else None,
    }
    with store.writing() as connection:
        connection.execute(sa.update(deliveries).where(*_is(key)).values(values))


def _is(key: dict[str, str]) -> list[sa.ColumnElement[bool]]:
    return [deliveries.c[name] == value for name, value in key.items()]
