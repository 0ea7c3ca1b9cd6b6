"""Stored answers and replays as text for people and as values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from text2sql.cli.output.answer_output import format_table
from text2sql.common.counting import counted
from text2sql.common.render import neutral
from text2sql.common.values import json_value
from text2sql.reporting.answering.replay import Replay
from text2sql.reporting.delivery.entries import Entry
from text2sql.reporting.model.answer import AnswerStatus, StoredAnswer, Verified

_LISTED = ("id", "scheduled_at", "question", "status", "agree", "rows", "change", "verified")
_ORIGIN = (
    ("policy", "policy"),
    ("policy revision", "policy_revision"),
    ("training run", "training_run"),
    ("prompt", "prompt_revision"),
    ("sampling", "sampling"),
    ("code", "code_version"),
    ("database", "database"),
    ("fingerprint", "database_fingerprint"),
    ("Dagster run", "dagster_run_id"),
    ("attempts", "attempts"),
    ("prompt tokens", "prompt_tokens"),
    ("reply tokens", "completion_tokens"),
    ("seconds", "seconds"),
)


def as_list(found: Sequence[StoredAnswer]) -> str:
    """Lay answers out one a line."""
    if not found:
        return "no answers"
    return format_table(_LISTED, tuple(map(_line, found)), len(found), len(found))


def _line(answer: StoredAnswer) -> tuple[Any, ...]:
    share = "" if answer.share is None else f"{answer.votes} of {answer.candidates}"
    return (
        answer.id,
        f"{answer.scheduled_at:%Y-%m-%d %H:%M}Z",
        answer.question_id,
        answer.status.value,
        share,
        "" if answer.row_count is None else answer.row_count,
        answer.change.value if answer.change else "",
        answer.verified.value if answer.verified else "",
    )


def as_object(answer: StoredAnswer) -> dict[str, Any]:
    """Return all columns of an answer as JSON values; instants are ISO 8601 in UTC."""
    values = asdict(answer) | {"columns": [column.to_dict() for column in answer.columns]}
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in values.items()}


def as_audit(entry: Entry) -> dict[str, Any]:
    """Return an answer with its rows, its candidates and its difference from the one before."""
    found = entry.difference
    difference = None if found is None else {
        "previous_at": found.previous_at.isoformat(),
        "sql_changed": found.sql_changed,
        "result_changed": found.result_changed,
        "data_changed": found.data_changed,
        "complete": found.complete,
        "renamed": found.renamed,
        "warning": found.warning,
        **_changes(found.rows),
    }  # fmt: skip
    return as_object(entry.answer) | {
        "refusal": entry.refusal,
        "concerns": entry.concerns,
        "rows": [_plain(row) for row in entry.rows],
        "candidates": [asdict(candidate) for candidate in entry.queries],
        "difference": difference,
    }


def _changes(rows: Any) -> dict[str, Any]:
    return {
        "counts": dict(zip(("added", "removed", "changed"), rows.counts, strict=True)),
        "added": [_plain(row) for row in rows.added],
        "removed": [_plain(row) for row in rows.removed],
        "changed": [{"was": _plain(old), "is": _plain(new)} for old, new in rows.changed],
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: json_value(value) for name, value in row.items()}


def as_text(entry: Entry) -> str:
    """Lay an audit row out: question, result or refusal, change, SQL, votes, origin."""
    answer = entry.answer
    lines = [
        f"{answer.id}  {neutral(answer.question)}",
        f"{answer.question_id}, {answer.scheduled_at:%Y-%m-%d %H:%M}Z: "
        + "; ".join(filter(None, (answer.status.value, entry.agreement, entry.verified))),
    ]
    lines += [f"evidence: {neutral(answer.evidence)}"] if answer.evidence else []
    lines += [neutral(entry.refusal)] if entry.refusal else []
    lines += [f"careful: {neutral(concern)}" for concern in entry.concerns]
    lines += ["", _result(entry)] if entry.published else []
    lines += ["", _candidates(entry), ""]
    values = [(label, getattr(answer, name)) for label, name in _ORIGIN]
    lines += [f"{label:<16}{neutral(_words(value))}" for label, value in values if value]
    return "\n".join(lines)


def _words(value: Any) -> str:
    """Write a value out; of several by name each behind its name."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return str(value)


def _result(entry: Entry) -> str:
    answer = entry.answer
    rows = tuple(tuple(row[c.name] for c in answer.columns) for row in entry.rows)
    table = format_table(tuple(c.label for c in answer.columns), rows, answer.row_count or 0)
    return f"{table}\n{entry.change}\n\n{_sql('SQL', answer.sql)}"


def _candidates(entry: Entry) -> str:
    lines = []
    for number, one in enumerate(entry.queries, start=1):
        mark = "chosen" if one.chosen else "voted" if one.voted else "no vote"
        rows, digest = counted(one.row_count, "row"), one.digest[:12] or "no digest"
        told = f"{mark}, {one.status}, {rows}, {digest}"
        lines.append(_sql(f"candidate {number} ({told})", one.sql or one.error))
    return "\n".join(lines) or "no candidates"


def _sql(title: str, sql: str | None) -> str:
    return "\n".join([f"{title}:", *(f"  {neutral(line)}" for line in (sql or "").splitlines())])


def replay_object(found: Replay) -> dict[str, Any]:
    """Return a replay as JSON values."""
    answer, latest = found.answer, found.latest
    return {
        "id": answer.id,
        "question_id": answer.question_id,
        "status": answer.status,
        "reproduced": found.reproduced,
        "data_changed": found.data_changed,
        "sql_changed": found.sql_changed,
        "result_changed": found.result_changed,
        "error": found.error,
        "fingerprint_then": answer.database_fingerprint,
        "fingerprint_now": found.fingerprint,
        "rows": _changes(found.rows),
        "complete": found.complete,
        "candidates": answer.candidates,
        "candidates_run": found.candidates_run,
        "candidates_changed": found.candidates_changed,
        "votes_then": answer.votes,
        "votes_now": found.ballot.votes,
        "winner_now": found.ballot.sql or None,
        "latest_answer": latest.id if latest else None,
        "latest_sql": latest.sql if latest else None,
        "verified_now": found.verified,
        "refuted": found.refuted,
    }


def replay_text(found: Replay) -> str:
    """Say what came of a replay, a fact a line."""
    answer = found.answer
    changed = "changed since" if found.data_changed else "the same as then"
    prints = f"fingerprint {answer.database_fingerprint} then, {found.fingerprint} now"
    agree = counted(answer.candidates, "candidate agrees", "candidates agree")
    lines = [
        f"answer      {answer.id}: {answer.question_id} of {answer.scheduled_at:%Y-%m-%d %H:%M}Z,"
        f" {answer.status.replace('_', ' ')}",
        f"data        {changed} ({prints})",
        f"result      {_replayed(found)}",
        f"candidates  {_rerun(found)}",
        f"vote        {found.ballot.votes} of {agree} now, {answer.votes} did then",
        f"SQL         {_sql_since(found)}",
        *([f"verified    {_VERIFIED[found.verified]}"] if found.verified else []),
        "",
        _closing(found),
    ]
    return "\n".join(lines)


def _closing(found: Replay) -> str:
    """Say in one sentence what follows from it."""
    came = "Everything came out as it did then"
    if not found.reproduced:
        came = "Something came out otherwise than then"
    if found.refuted:
        and_ = "but" if found.reproduced else "and"
        return (
            f"{came}, {and_} the verified SQL now refutes what was published (exit status 3): "
            "answer its day again, with text2sql answers run --day."
        )
    return f"{came}." if found.reproduced else f"{came} (exit status 3)."


_VERIFIED = {
    Verified.MATCH: "equals the verified SQL's result now",
    Verified.DIFFERS: "differs from the verified SQL's result now",
    Verified.ERROR: "the verified SQL does not run, so that it says nothing",
}


def _rerun(found: Replay) -> str:
    if not found.candidates_run:
        return f"none of {found.answer.candidates} gave a query that ran then"
    changed = found.candidates_changed
    came = f"{changed} gave another result" if changed else "all gave the same result as then"
    again = counted(found.answer.candidates, "query was", "queries were")
    return f"{found.candidates_run} of {again} run again; {came}"


def _replayed(found: Replay) -> str:
    if found.answer.status != AnswerStatus.ANSWERED:
        return "none was published then, so there is none to compare"
    if found.error:
        return f"the SQL does not run any more: {neutral(found.error)}"
    if not found.result_changed:
        return "the same rows as then"
    part = "" if found.complete else ", of the rows that are kept"
    cause = "" if found.data_changed else "; the data did not change, so it is not repeatable"
    return f"changed: {found.rows}{part}{cause}"


def _sql_since(found: Replay) -> str:
    if found.latest is None:
        published = found.answer.status == AnswerStatus.ANSWERED
        return "this is the question's latest answer" if published else "none was published"
    name = f"answer {found.latest.id} of {found.latest.scheduled_at:%Y-%m-%d}"
    if not found.sql_changed:
        return f"the question is still answered by the same SQL ({name})"
    return f"the question is now answered by other SQL ({name}): {neutral(found.latest.sql or '')}"
