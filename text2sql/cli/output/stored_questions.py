"""Questions as text for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from text2sql.cli.output.answer_output import format_table
from text2sql.common.counting import counted
from text2sql.common.render import aligned, neutral
from text2sql.reporting.model.answer import StoredAnswer
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.tables.question_file import ImportReport
from text2sql.reporting.tables.questions import QuestionDetails, QuestionList

_COLUMNS = ("id", "enabled", "group", "time zone", "votes", "owner", "database", "question")


def as_list(found: QuestionList) -> str:
    """Lay questions out in columns; those whose rows make no sense come last, with the reason."""
    rows = tuple(
        (
            q.id,
            "yes" if q.enabled else "no",
            q.group,
            q.timezone,
            q.votes,
            q.owner,
            Path(q.database).stem,
            q.question,
        )
        for q in found.readable
    )
    problems = [f"unreadable: {neutral(text)}" for text in found.unreadable.values()]
    return "\n".join([format_table(_COLUMNS, rows, len(rows), most=len(rows)), *problems])


def as_lines(found: QuestionList) -> list[str]:
    """Return a JSON object a line; an unreadable row's has its ``id`` and the ``problem``."""
    objects = [_fields(question) for question in found.readable]
    objects += [{"id": id, "problem": problem} for id, problem in found.unreadable.items()]
    return [json.dumps(one, ensure_ascii=False) for one in objects]


def import_text(report: ImportReport) -> str:
    """Count what an import did."""
    counts = f"{len(report.added)} added, {len(report.updated)} updated"
    return f"{counts}, {report.unchanged} unchanged"


def as_object(details: QuestionDetails, latest: StoredAnswer | None) -> dict[str, Any]:
    """Return all that is known of a question as plain JSON values."""
    answer = None
    if latest is not None:
        answer = {
            "id": latest.id,
            "scheduled_at": latest.scheduled_at.isoformat(),
            "status": latest.status.value,
            "share": latest.share,
        }
    return _fields(details.question) | {
        "view": details.view,
        "seed_file": details.seed_file,
        "edited_by_hand": details.edited,
        "latest_answer": answer,
    }


def _fields(question: ReportQuestion) -> dict[str, Any]:
    return asdict(question) | {"expectations": question.expectations.to_dict()}


def as_text(values: dict[str, Any]) -> str:
    """Lay a question out, a field a line; what is not set is left out."""
    lines = []
    for name, value in values.items():
        if value in ("", None, [], {}):
            continue
        words = _WORDS[name](value) if name in _WORDS else str(value)
        lines.append((name.replace("_", " "), neutral(words)))
    return "\n".join(aligned(lines))


def _expected(values: dict[str, Any]) -> str:
    """Say what is expected of the answers."""
    parts = {
        "columns": lambda names: f"the columns {', '.join(names)}",
        "least_rows": lambda rows: f"at least {counted(rows, 'row')}",
        "most_rows": lambda rows: f"at most {counted(rows, 'row')}",
        "not_empty": lambda _: "a value that is not NULL",
    }
    return "; ".join(parts[name](value) for name, value in values.items())


def _latest(values: dict[str, Any]) -> str:
    """Say when the question was answered last, and what came of it."""
    share = "" if values["share"] is None else f", share {values['share']:.0%}"
    status = values["status"].replace("_", " ")
    at = values["scheduled_at"][:16].replace("T", " ")
    return f"{status} at {at}Z{share}; see it with: text2sql answers show {values['id']}"


_WORDS: dict[str, Callable[[Any], str]] = {
    "enabled": lambda value: "yes" if value else "no",
    "edited_by_hand": ", ".join,
    "expectations": _expected,
    "latest_answer": _latest,
}
