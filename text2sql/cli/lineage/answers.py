"""The chain of a stored answer: its question, its database, who answered, and how that came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from text2sql.cli.lineage.chain import Link
from text2sql.cli.lineage.runs import commit_of, run_links
from text2sql.common.artifacts import answering_run_note
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import run_of
from text2sql.evaluation.promotion.changes import history
from text2sql.reporting.model.answer import StoredAnswer
from text2sql.reporting.model.question import database_fingerprint


def answer_links(root: Path, answer: StoredAnswer) -> list[Link]:
    """Return the links from an answer down to the data that its policy learnt from."""
    link = Link("answer", str(answer.id), _facts(answer))
    _add_data(link, answer)
    if answer.dagster_run_id:
        note = link.record(answering_run_note(root, answer.dagster_run_id))
        link.facts["commit"] = commit_of(note)
    links = [link]
    if answer.policy_revision:
        links.append(_champion_link(root, answer.training_run or "", answer.policy_revision))
    if answer.training_run:
        links += run_links(root, answer.training_run, answer.policy_revision or "")
    return links


def _facts(answer: StoredAnswer) -> dict[str, Any]:
    agreed = "" if answer.share is None else f"{answer.votes} of {answer.candidates}"
    return {
        "question": answer.question,
        "question id": answer.question_id,
        "evidence": answer.evidence,
        "scheduled at": answer.scheduled_at.isoformat(),
        "status": answer.status.value,
        "candidates that agree": agreed,
        "SQL": answer.sql,
        "error": answer.error,
        "database": answer.database,
        "database fingerprint": answer.database_fingerprint,
        "policy": answer.policy,
        "policy revision": answer.policy_revision,
        "training run": run_of({"training_run": answer.training_run or ""}),
        "prompt revision": answer.prompt_revision,
        "sampling": answer.sampling,
        "code version": answer.code_version,
        "Dagster run": answer.dagster_run_id,
    }


def _add_data(link: Link, answer: StoredAnswer) -> None:
    """Say whether the database is the one that was asked."""
    if not answer.database_fingerprint:
        return
    database = Path(answer.database)
    if not database.is_file():
        link.problems.append(f"The database {database} is gone.")
        return
    with link.noting():
        same = database_fingerprint(database) == answer.database_fingerprint
        link.facts["database now"] = "as it was" if same else "changed since"


def _champion_link(root: Path, run: str, revision: str) -> Link:
    """Return when and by what the policy that answered became champion."""
    link = Link("champion", revision)
    seats = []
    try:
        seats = [one for one in history(root) if one.get("revision") == revision]
    except Text2SqlError as error:
        link.problems.append(str(error))
    if not seats:
        if not link.problems:
            link.problems.append(f"No champion below {root} has had the revision {revision}.")
        return link
    seat = seats[-1]
    if run not in ("", seat.get("training_run")):
        link.problems.append(
            f"The champion {revision} is of the training run {seat.get('training_run')}, the "
            f"answer names {run}."
        )
    named = ("training_run", "policy", "greedy", "act", "reason", "promoted_at", "dataset")
    link.facts = {name.replace("_", " "): seat.get(name) for name in named}
    link.facts["training run"] = run_of(seat)
    link.facts["Dagster run"] = seat.get("dagster_run")
    return link
