"""Questions as text for people and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from text2sql.commands.answer_output import format_table
from text2sql.render import neutral
from text2sql.reporting.answers import StoredAnswer
from text2sql.reporting.question_table import QuestionDetails, QuestionList
from text2sql.reporting.questions import ReportQuestion

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


def as_lines(found: QuestionList) -> str:
    """Return a JSON object a line; an unreadable row's has its ``id`` and the ``problem``."""
    objects = [_fields(question) for question in found.readable]
    objects += [{"id": id, "problem": problem} for id, problem in found.unreadable.items()]
    return "\n".join(json.dumps(one, ensure_ascii=False) for one in objects)


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
    width = max(len(name) for name in values)
    lines = []
    for name, value in values.items():
        if value in ("", None, [], {}):
            continue
        if isinstance(value, dict | list):
            value = json.dumps(value, ensure_ascii=False)
        lines.append(f"{name.replace('_', ' '):<{width}}  {neutral(str(value))}")
    return "\n".join(lines)
