"""Finds what a person asks about: the number of an answer, a training run or an accuracy."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from text2sql.cli.lineage.chain import Chain, Link
from text2sql.cli.lineage.runs import commit_of, known_runs, run_links
from text2sql.cli.lineage.scores import (
    Reported,
    evaluations,
    find_reported,
    greedy_of,
    percent_of,
    scores_link,
)
from text2sql.common.artifacts import answering_run_note
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import run_of
from text2sql.evaluation.promotion.changes import history
from text2sql.reporting.model.answer import StoredAnswer
from text2sql.reporting.model.question import database_fingerprint

KINDS = ("answer", "run", "accuracy")
_PREFIX = re.compile(r"(answer|run|accuracy):(.+)", re.DOTALL)
_SCORES_OF = re.compile(r"^dev_scores of\s+")
_SHOWN = 20
FindAnswer = Callable[[int], StoredAnswer]


def find_chain(root: Path, asked: str, find_answer: FindAnswer) -> Chain:
    """Return the chain of what was asked about; ``find_answer`` reads the reporting tables.

    Raises Text2SqlError, listing the possible names, if the name is unknown or ambiguous.
    """
    kind, value = _meaning(root, _SCORES_OF.sub("run:", asked.strip()))
    if kind == "answer":
        return Chain.of(asked, answer_links(root, find_answer(int(value))))
    if kind == "accuracy":
        return Chain.of(asked, _accuracy_links(root, value))
    return Chain.of(asked, _run_links(root, value))


def _meaning(root: Path, asked: str) -> tuple[str, str]:
    """Return what kind of thing was asked about, and its number or name."""
    if found := _PREFIX.fullmatch(asked):
        kind, value = found[1], found[2].strip()
        possible = [kind] if kind in _possible(known_runs(root), value) else []
    else:
        value, possible = asked, _possible(known_runs(root), asked)
    if len(possible) > 1:
        choices = " or ".join(f"{kind}:{value}" for kind in possible)
        raise Text2SqlError(f"'{asked}' is ambiguous: say {choices}.")
    if not possible:
        raise Text2SqlError(f"'{asked}' is not an answer, training run or accuracy. {_known(root)}")
    return possible[0], value


def _possible(runs: Sequence[str], value: str) -> list[str]:
    fits = {
        "answer": value.isascii() and value.isdigit(),
        "run": value in runs,
        "accuracy": percent_of(value) is not None,
    }
    return [kind for kind in KINDS if fits[kind]]


def _known(root: Path) -> str:
    """Say what the user can ask about."""
    runs = known_runs(root)
    named = [f"{run} ({greedy})" if (greedy := greedy_of(root, run)) else run for run in runs]
    more = f" and {len(named) - _SHOWN} more" if named[_SHOWN:] else ""
    shown = ", ".join(named[:_SHOWN]) or "none"
    return (
        f"Training runs below {root}, with their greedy accuracy: {shown}{more}; answers have "
        "integers (text2sql answers list)."
    )


def _run_links(root: Path, run: str) -> list[Link]:
    """Return a run's evaluations, and the chain of the policy that was evaluated on dev."""
    found = [scores_link(folder) for folder, of in evaluations(root) if of == run]
    revision = found[0][1] if found else ""
    return [*(link for link, _ in found), *run_links(root, run, revision)]


def _accuracy_links(root: Path, value: str) -> list[Link]:
    number = percent_of(value) or value
    found = find_reported(root, number)
    if not found:
        raise Text2SqlError(f"No evaluation reported {number} percent. {_known(root)}")
    runs = sorted({one.run for one in found})
    if len(runs) > 1:
        choices = "; ".join(f"run:{run} ({_first(found, run)})" for run in runs)
        raise Text2SqlError(f"{len(runs)} training runs reported {number} percent: say {choices}.")
    places = {str(index): str(one) for index, one in enumerate(found, start=1)}
    evaluation, revision = scores_link(found[0].folder)
    reported = Link("accuracy", f"{number} percent", places)
    return [reported, evaluation, *run_links(root, runs[0], revision)]


def _first(found: Sequence[Reported], run: str) -> str:
    mine = [one for one in found if one.run == run]
    more = f" and {len(mine) - 1} more" if mine[1:] else ""
    return f"{mine[0]}{more}"


def answer_links(root: Path, answer: StoredAnswer) -> list[Link]:
    """Return the links from an answer down to the data that its policy was trained on."""
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
    """Add whether the database has changed since it was asked."""
    if not answer.database_fingerprint:
        return
    database = Path(answer.database)
    if not database.is_file():
        link.problems.append(f"The database {database} is gone.")
        return
    with link.noting():
        same = database_fingerprint(database) == answer.database_fingerprint
        link.facts["database now"] = "unchanged" if same else "changed since"


def _champion_link(root: Path, run: str, revision: str) -> Link:
    """Return when and how the policy that answered became champion."""
    link = Link("champion", revision)
    terms = []
    try:
        terms = [one for one in history(root) if one.get("revision") == revision]
    except Text2SqlError as error:
        link.problems.append(str(error))
    if not terms:
        if not link.problems:
            link.problems.append(f"No champion below {root} has had the revision {revision}.")
        return link
    term = terms[-1]
    if run not in ("", term.get("training_run")):
        link.problems.append(
            f"The champion {revision} comes from the training run {term.get('training_run')}, but "
            f"the answer names {run}."
        )
    named = ("training_run", "policy", "greedy", "act", "reason", "promoted_at", "dataset")
    link.facts = {name.replace("_", " "): term.get(name) for name in named}
    link.facts["training run"] = run_of(term)
    link.facts["Dagster run"] = term.get("dagster_run")
    return link
