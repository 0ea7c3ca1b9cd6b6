"""Stored answers, replays and questions as text for people and as values for JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from text2sql.cli.lineage.chain import facts_of
from text2sql.cli.output.answer_output import format_table
from text2sql.common.counting import counted
from text2sql.common.render import neutral
from text2sql.common.values import json_value
from text2sql.reporting.answering.replay import Replay
from text2sql.reporting.delivery.entries import Entry
from text2sql.reporting.model.answer import AnswerStatus, StoredAnswer, Verified
from text2sql.reporting.model.diff import RowChanges
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.tables.questions import QuestionDetails, QuestionList

_ANSWERS = ("id", "scheduled_at", "question", "status", "agree", "rows", "change", "verified")
_QUESTIONS = ("id", "enabled", "group", "time zone", "votes", "owner", "database", "question")
_ORIGIN = (
    *("policy", "policy_revision", "training_run", "prompt_revision", "sampling", "code_version"),
    *("database", "database_fingerprint", "dagster_run_id", "attempts", "prompt_tokens"),
    *("completion_tokens", "seconds"),
)
_VERIFIED_NOW = {
    Verified.MATCH: "equals the verified SQL's result now",
    Verified.DIFFERS: "differs from the verified SQL's result now",
    Verified.ERROR: "the verified SQL does not run, so nothing was compared",
}


def answer_list(answers: Sequence[StoredAnswer]) -> str:
    """Return answers as a table."""
    if not answers:
        return "no answers"
    rows = []
    for one in answers:
        at = f"{one.scheduled_at:%Y-%m-%d %H:%M}Z"
        agree = "" if one.share is None else f"{one.votes} of {one.candidates}"
        count = "" if one.row_count is None else one.row_count
        facts = (agree, count, one.change or "", one.verified or "")
        rows.append((one.id, at, one.question_id, one.status.value, *facts))
    return format_table(_ANSWERS, rows, len(rows), len(rows))


def answer_object(answer: StoredAnswer) -> dict[str, Any]:
    """Return all columns of an answer as JSON values; instants are ISO 8601 in UTC."""
    values = asdict(answer).items()
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in values}


def audit_object(entry: Entry) -> dict[str, Any]:
    """Return an answer with its rows, its sampled queries and what changed, as JSON values."""
    difference, found = None, entry.difference
    if found is not None:
        names = ("sql_changed", "result_changed", "data_changed", "complete", "renamed", "warning")
        difference = {"previous_at": found.previous_at.isoformat(), **_changes(found.rows)}
        difference |= {name: getattr(found, name) for name in names}
    return answer_object(entry.answer) | {
        "refusal": entry.refusal,
        "concerns": entry.concerns,
        "rows": [_json_row(row) for row in entry.rows],
        "candidates": [asdict(query) for query in entry.queries],
        "difference": difference,
    }


def _changes(rows: RowChanges) -> dict[str, Any]:
    return {
        "counts": dict(zip(("added", "removed", "changed"), rows.counts, strict=True)),
        "added": [_json_row(row) for row in rows.added],
        "removed": [_json_row(row) for row in rows.removed],
        "changed": [{"was": _json_row(old), "is": _json_row(new)} for old, new in rows.changed],
    }


def _json_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: json_value(value) for name, value in row.items()}


def audit_text(entry: Entry) -> str:
    """Return an answer for a terminal: result or refusal, change, SQL, votes, origin."""
    answer = entry.answer
    facts = filter(None, (answer.status.value, entry.agreement, entry.verified))
    at = f"{answer.scheduled_at:%Y-%m-%d %H:%M}Z"
    lines = [f"{answer.id}  {neutral(answer.question)}"]
    lines += [f"{answer.question_id}, {at}: {'; '.join(facts)}"]
    lines += [f"evidence: {neutral(answer.evidence)}"] if answer.evidence else []
    lines += [neutral(entry.refusal)] if entry.refusal else []
    lines += [f"careful: {neutral(concern)}" for concern in entry.concerns]
    if entry.published:
        labels = tuple(column.label for column in answer.columns)
        rows = tuple(tuple(row[c.name] for c in answer.columns) for row in entry.rows)
        table = format_table(labels, rows, answer.row_count or 0)
        lines += ["", table, entry.change, "", *_sql("SQL", answer.sql)]
    lines += ["", *([] if entry.queries else ["no candidates"])]
    for number, query in enumerate(entry.queries, start=1):
        mark = "chosen" if query.chosen else "voted" if query.voted else "no vote"
        count, digest = counted(query.row_count, "row"), query.digest[:12] or "no digest"
        title = f"candidate {number} ({mark}, {query.status}, {count}, {digest})"
        lines += _sql(title, query.sql or query.error)
    lines.append("")
    for label, value in facts_of(vars(answer), *_ORIGIN).items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {one}" for key, one in value.items())
        lines += [f"{label:<22}{neutral(str(value))}"] if value else []
    return "\n".join(lines)


def _sql(title: str, sql: str | None) -> list[str]:
    return [f"{title}:", *(f"  {neutral(line)}" for line in (sql or "").splitlines())]


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
        "result_changed": found.published.changed,
        "error": found.published.error,
        "fingerprint_then": answer.database_fingerprint,
        "fingerprint_now": found.fingerprint,
        "rows": _changes(found.published.rows),
        "complete": found.published.complete,
        "candidates": answer.candidates,
        "candidates_run": found.queries_run,
        "candidates_changed": found.queries_changed,
        "votes_then": answer.votes,
        "votes_now": found.ballot.votes,
        "winner_now": found.ballot.sql or None,
        "latest_answer": latest.id if latest else None,
        "latest_sql": latest.sql if latest else None,
        "verified_now": found.verified,
        "refuted": found.refuted,
    }


def replay_text(found: Replay) -> str:
    """Return what a replay found, one fact per line."""
    answer = found.answer
    changed = "changed since" if found.data_changed else "unchanged"
    prints = f"fingerprint {answer.database_fingerprint} then, {found.fingerprint} now"
    agree = counted(answer.candidates, "candidate agrees", "candidates agree")
    rerun = f"none of {answer.candidates} had a query that ran"
    if found.queries_run:
        differing = found.queries_changed or "all"
        results = "a different result" if found.queries_changed else "the same result"
        queries = counted(answer.candidates, "query", "queries")
        rerun = f"{found.queries_run} of {queries} run again; {differing} returned {results}"
    lines = [
        f"answer      {answer.id}: {answer.question_id} of {answer.scheduled_at:%Y-%m-%d %H:%M}Z,"
        f" {answer.status.replace('_', ' ')}",
        f"data        {changed} ({prints})",
        f"result      {_result(found)}",
        f"candidates  {rerun}",
        f"vote        {found.ballot.votes} of {agree} now, {answer.votes} did then",
        f"SQL         {_latest_sql(found)}",
        *([f"verified    {_VERIFIED_NOW[found.verified]}"] if found.verified else []),
        "",
    ]
    text = "Everything came out as before" if found.reproduced else "Something came out differently"
    if found.refuted:
        joined = "but" if found.reproduced else "and"
        text += (
            f", {joined} the verified SQL now refutes what was published (exit status 3): "
            "answer its day again, with text2sql answers run --day"
        )
    elif not found.reproduced:
        text += " (exit status 3)"
    return "\n".join([*lines, f"{text}."])


def _result(found: Replay) -> str:
    """Compare the result now with what was published."""
    now = found.published
    if found.answer.status != AnswerStatus.ANSWERED:
        return "none was published, so there is none to compare"
    if now.error:
        return f"the SQL no longer runs: {neutral(now.error)}"
    if not now.changed:
        return "the same rows"
    part = "" if now.complete else ", among the stored rows"
    cause = "" if found.data_changed else "; the data did not change, so it is not repeatable"
    return f"changed: {now.rows}{part}{cause}"


def _latest_sql(found: Replay) -> str:
    """Say whether the question is still answered by the same SQL."""
    if found.latest is None:
        published = found.answer.status == AnswerStatus.ANSWERED
        return "this is the question's latest answer" if published else "none was published"
    name = f"answer {found.latest.id} of {found.latest.scheduled_at:%Y-%m-%d}"
    if not found.sql_changed:
        return f"the question is still answered by the same SQL ({name})"
    sql = neutral(found.latest.sql or "")
    return f"the question is now answered by different SQL ({name}): {sql}"


def question_list(found: QuestionList) -> str:
    """Return questions as a table, then the problem of each invalid row."""
    rows = []
    for one in found.readable:
        settings = ("yes" if one.enabled else "no", one.group, one.timezone, one.votes, one.owner)
        rows.append((one.id, *settings, Path(one.database).stem, one.question))
    problems = [f"unreadable: {neutral(text)}" for text in found.unreadable.values()]
    return "\n".join([format_table(_QUESTIONS, rows, len(rows), most=len(rows)), *problems])


def question_lines(found: QuestionList) -> list[str]:
    """Return a JSON object for each question; an invalid row has its ``id`` and ``problem``."""
    objects = [_fields(question) for question in found.readable]
    objects += [{"id": id, "problem": problem} for id, problem in found.unreadable.items()]
    return [json.dumps(one, ensure_ascii=False) for one in objects]


def question_object(details: QuestionDetails, latest: StoredAnswer | None) -> dict[str, Any]:
    """Return all that is known of a question as JSON values."""
    answer: dict[str, Any] | None = None
    if latest is not None:
        answer = {"id": latest.id, "scheduled_at": latest.scheduled_at.isoformat()}
        answer |= {"status": latest.status.value, "share": latest.share}
    return _fields(details.question) | {
        "view": details.view,
        "seed_file": details.seed_file,
        "edited_by_hand": details.edited,
        "latest_answer": answer,
    }


def _fields(question: ReportQuestion) -> dict[str, Any]:
    return asdict(question) | {"expectations": question.expectations.to_dict()}


def question_text(values: dict[str, Any]) -> str:
    """Return a ``question_object`` for a terminal, one field per line, without empty ones."""
    width = max(map(len, values))
    special = {
        "enabled": lambda value: "yes" if value else "no",
        "edited_by_hand": ", ".join,
        "expectations": _expected,
        "latest_answer": _latest,
    }
    return "\n".join(
        f"{name.replace('_', ' '):<{width}}  {neutral(special.get(name, str)(value))}"
        for name, value in values.items()
        if value not in ("", None, [], {})
    )


def _expected(values: dict[str, Any]) -> str:
    words = {
        "columns": lambda names: f"the columns {', '.join(names)}",
        "least_rows": lambda rows: f"at least {counted(rows, 'row')}",
        "most_rows": lambda rows: f"at most {counted(rows, 'row')}",
        "not_empty": lambda _: "a value that is not NULL",
    }
    return "; ".join(words[name](value) for name, value in values.items())


def _latest(values: dict[str, Any]) -> str:
    share = "" if values["share"] is None else f", share {values['share']:.0%}"
    status = values["status"].replace("_", " ")
    at = values["scheduled_at"][:16].replace("T", " ")
    return f"{status} at {at}Z{share}; see it with: text2sql answers show {values['id']}"
