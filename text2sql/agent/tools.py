"""The agent's four tools: what they do and what they answer."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from text2sql.agent.schema.tables import DatabaseSchema, Table, describe
from text2sql.agent.schema.text import render_detail, render_matching, render_overview
from text2sql.agent.settings import AgentSettings
from text2sql.agent.tool_calls import Mistake, checked, ignored, is_null, row_limit, short
from text2sql.common.render import neutral, quoted, render_rows
from text2sql.errors import InfrastructureError
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status, clean_sql

_COUNTED_ROWS = 100_000
_READ_BYTES = 20_000_000
_DETAIL_ROWS = 20
_DETAIL_SECONDS = 5.0  # the first rows of a view may take as long as all of them
_MESSAGE_CHARS = 500
_CUT = 30  # characters of the note about what was cut
MOST_CALLS = 16
"""Calls other than submit that one turn executes: a model that repeats itself writes hundreds."""


@dataclass(frozen=True)
class ToolRecord:
    """One call: what was asked, how many characters came back, how long it took, how it ended.

    ``status`` is ``ok``, ``error`` (an invalid call), ``ignored`` (after submit, or beyond the
    limit of a turn), or the sandbox's status of the query.
    """

    name: str
    arguments: str
    output_chars: int
    seconds: float
    status: str


class Tools:
    """The tools of one rollout: they execute its calls, in order, and keep its state.

    ``submitted`` is the submission as the model wrote it and ``sql`` its query (``submit``), both
    None until there is one; ``write_attempts`` counts the statements in run_sql that would have
    changed something; ``log`` has every call.
    """

    def __init__(self, question: Question, sandbox: Sandbox, settings: AgentSettings) -> None:
        self.question = question
        self.submitted: str | None = None
        self.sql: str | None = None
        self.write_attempts = 0
        self.log: list[ToolRecord] = []
        self._sandbox = sandbox
        self._settings = settings

    async def call(self, name: str, arguments: str | dict[str, Any], place: int = 0) -> str:
        """Execute one call and return the text for the model, even for its mistakes.

        ``place`` is its place in the turn, from 0. Calls after submit, or after the first
        ``MOST_CALLS`` of a turn, are answered and logged but not executed; a submit always is.
        Raises InfrastructureError if the sandbox failed, never for a model's mistake.
        """
        started, most = time.monotonic(), self._settings.output_chars
        status = "ignored"
        if self.submitted is not None:
            text = "ignored: the answer was already submitted"
        elif place >= MOST_CALLS and name != "submit":
            text = f"ignored: a turn has at most {MOST_CALLS} calls; call it again"
        else:
            status, text = await self._execute(name, arguments)
        if len(text) > most:  # names may have thousands of characters
            text = f"{text[: most - _CUT]}... [{len(text):,} chars]"
        seconds = time.monotonic() - started
        try:
            written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        except (TypeError, ValueError, RecursionError):
            written = f"<{type(arguments).__name__} that is no JSON>"
        self.log.append(ToolRecord(str(name), written, len(text), seconds, status))
        return text

    async def _execute(self, name: str, arguments: str | dict[str, Any]) -> tuple[str, str]:
        try:
            values = checked(name, arguments)
            if name == "submit":
                self.submit(values["sql"])
                return "ok", "submitted"
            if name == "run_sql":
                result = await self._query(clean_sql(values["sql"]))
                self.write_attempts += result.status is Status.WRITE
                return str(result.status), self._shown(result)
            if name == "inspect_schema":
                status, text = "ok", await self._inspect_schema(values.get("table"))
            else:
                count = row_limit(values.get("limit"), self._settings)
                table = _find(await self._describe(), values["table"])
                result = await self._query(f"SELECT * FROM {quoted(table.name)} LIMIT {count}")
                status, text = str(result.status), self._shown(result)
            note = ignored(name, arguments)
        except Mistake as mistake:
            return "error", f"error: {mistake}"
        fits = len(text) + len(note) <= self._settings.output_chars
        return status, text + note if fits else text

    def submit(self, text: str) -> None:
        """Take a submission and clean it, once and for all."""
        self.submitted, self.sql = text, clean_sql(text)

    async def _inspect_schema(self, name: str | None) -> str:
        schema = await self._describe()
        if name is None or (is_null(name) and not schema.find(name)):
            return render_overview(schema, self._settings.budget)
        # table.word shows the columns of a table that have a word in them.
        head, _, word = name.rpartition(".")
        table = schema.find(head) if head and schema.find(name) is None else None
        word = word.strip(' "`[]') if table else ""
        table = table or _find(schema, name)
        seconds = min(_DETAIL_SECONDS, self._settings.query_seconds)
        query = f"SELECT * FROM {quoted(table.name)} LIMIT {_DETAIL_ROWS}"
        rows = await self._query(query, seconds)
        render = partial(render_matching, table, word) if word else partial(render_detail, table)
        text = render(rows.columns, rows.rows, self._settings.budget)
        if not text:
            raise Mistake(f"no column of {short(table.name)} has {short(word)!r} in it")
        late = f"\nits rows are not shown: to read {_DETAIL_ROWS} took more than {seconds:g} s"
        return text + (late if rows.status is Status.TIMEOUT else "")

    async def _query(self, sql: str, seconds: float | None = None) -> QueryResult:
        limits = query_limits(self._settings)
        limits = replace(limits, seconds=seconds or limits.seconds)
        result = await self._sandbox.aexecute(self.question.database, sql, limits)
        if result.status is Status.INFRASTRUCTURE:
            raise InfrastructureError(f"{result.error}.")
        return result

    def _shown(self, result: QueryResult) -> str:
        if result.status is Status.WRITE:
            return neutral(result.error)
        if result.status is Status.TIMEOUT:
            seconds = f"{self._settings.query_seconds:g}"
            return f"error: the query ran longer than {seconds} s and was stopped"
        if result.status is not Status.OK:
            return f"error: {neutral(result.error)[:_MESSAGE_CHARS]}"
        notes = [f"warning: {neutral(text)[:_MESSAGE_CHARS]}" for text in result.warnings[:3]]
        rows = render_rows(
            result.columns, result.rows, result.row_count, self._settings.budget, result.complete
        )
        return "\n".join([rows, *notes])

    async def _describe(self) -> DatabaseSchema:
        return await asyncio.to_thread(describe, self.question.database, self._sandbox)


def query_limits(settings: AgentSettings) -> Limits:
    """Return the limits of a query that a tool runs."""
    return Limits(
        seconds=settings.query_seconds,
        keep_rows=max(settings.output_rows, _DETAIL_ROWS),
        max_rows=_COUNTED_ROWS,
        max_bytes=_READ_BYTES,
        cut=True,
    )


def _find(schema: DatabaseSchema, name: str) -> Table:
    table = schema.find(name)
    if table is None:
        names = [neutral(other) for other in schema.names_like(name)]
        like = [one for one in names if one.lower() == neutral(name.strip()).lower()]
        meant = f"; did you mean {like[0]}?" if like else ""
        room = _MESSAGE_CHARS
        shown: list[str] = []
        for one in names:
            if (room := room - len(one) - 2) < 0 and shown:
                break
            shown.append(one)
        more = f" and {len(names) - len(shown):,} more" if len(shown) < len(names) else ""
        raise Mistake(f"no table named {short(name)}{meant}; tables: {', '.join(shown)}{more}")
    return table
