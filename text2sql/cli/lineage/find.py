"""Finds what a person asks about: the number of an answer, a training run or an accuracy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from text2sql.cli.lineage.chain import Chain, Link, facts_of
from text2sql.cli.lineage.runs import commit_of, run_links
from text2sql.common.artifacts import (
    answering_run_note,
    evaluation_folder,
    held_out_folder,
    training_folder,
)
from text2sql.common.json_files import read_if_there
from text2sql.common.provenance import file_version, read_record
from text2sql.errors import Text2SqlError, did_you_mean
from text2sql.evaluation.promotion.champion import run_of
from text2sql.evaluation.promotion.changes import history
from text2sql.evaluation.scores import BASE, TRAINED, Score, Scores
from text2sql.evaluation.slices import ALL
from text2sql.evaluation.stored import NOTE, ROLLOUTS, SCORES
from text2sql.reporting.model.answer import StoredAnswer
from text2sql.reporting.model.question import database_fingerprint

_PREFIX = re.compile(r"(answer|run|accuracy):(.+)", re.DOTALL)
_ACCURACY = re.compile(r"(\d{1,3}(?:\.\d+)?)%|(\d{1,3}\.\d+)")
_SHOWN = 20
FindAnswer = Callable[[int], StoredAnswer]


def find_chain(root: Path, asked: str, find_answer: FindAnswer) -> Chain:
    """Return the chain of what was asked about; ``find_answer`` reads the reporting tables.

    Raises Text2SqlError, listing the possible names, if the name is unknown or ambiguous.
    """
    kind, value = _meaning(root, asked.strip())
    if kind == "answer":
        links = _answer_links(root, find_answer(int(value)))
    elif kind == "accuracy":
        links = _accuracy_links(root, value)
    else:
        # A run's evaluations, and the chain of the policy that was evaluated on dev.
        folders = [folder for folder, run in _evaluations(root) if run == value]
        found = [_scores_link(folder) for folder in folders]
        links = [link for link, _ in found]
        links += run_links(root, value, found[0][1] if found else "")
    # Several runs may have been trained on one dataset: show it once.
    kept: dict[object, Link] = {}
    for place, link in enumerate(links):
        kept.setdefault(link.name if link.kind == "dataset" else place, link)
    return Chain(asked, list(kept.values()))


def _meaning(root: Path, asked: str) -> tuple[str, str]:
    """Return what kind of thing was asked about, and its number or name."""
    prefix = _PREFIX.fullmatch(asked)
    value = prefix[2].strip() if prefix else asked
    fits = {
        "answer": value.isascii() and value.isdigit(),
        "run": value in _known_runs(root),
        "accuracy": _percent_of(value) is not None,
    }
    possible = [kind for kind in fits if fits[kind] and (not prefix or prefix[1] == kind)]
    if len(possible) > 1:
        choices = " or ".join(f"{kind}:{value}" for kind in possible)
        raise Text2SqlError(f"'{asked}' is ambiguous: say {choices}.")
    if not possible:
        kinds = {"answer": "an answer's number", "run": "a training run", "accuracy": "an accuracy"}
        what = kinds[prefix[1]] if prefix else "an answer, training run or accuracy"
        near = did_you_mean(value, _known_runs(root))
        raise Text2SqlError(f"'{asked}' is not {what}.{near} {_known(root)}")
    return possible[0], value


def _known_runs(root: Path) -> list[str]:
    """Return the training runs that have a record or an evaluation below an artifact root."""
    trained = {path.name for path in training_folder(root).glob("*") if path.is_dir()}
    scored = {path.parent.name for path in evaluation_folder(root).glob("*/scores.json")}
    return sorted(trained | scored)


def _known(root: Path) -> str:
    """Say what the user can ask about."""
    accuracies = {run: _greedy_of(root, run) for run in _known_runs(root)}
    named = [f"{run} ({greedy})" if greedy else run for run, greedy in accuracies.items()]
    more = f" and {len(named) - _SHOWN} more" if named[_SHOWN:] else ""
    shown = ", ".join(named[:_SHOWN]) or "none"
    return (
        f"Training runs below {root}, with their greedy accuracy: {shown}{more}; answers have "
        "integers (text2sql answers list)."
    )


def _accuracy_links(root: Path, value: str) -> list[Link]:
    number = _percent_of(value) or value
    found = _find_reported(root, number)
    if not found:
        raise Text2SqlError(f"No evaluation reported {number} percent. {_known(root)}")
    by_run: dict[str, list[str]] = {}
    for one in found:
        by_run.setdefault(one.run, []).append(str(one))
    if len(by_run) > 1:
        choices = "; ".join(
            f"run:{run} ({its[0]}{f' and {len(its) - 1} more' if its[1:] else ''})"
            for run, its in sorted(by_run.items())
        )
        raise Text2SqlError(
            f"{len(by_run)} training runs reported {number} percent: say {choices}."
        )
    places = {str(index): str(one) for index, one in enumerate(found, start=1)}
    evaluation, revision = _scores_link(found[0].folder)
    reported = Link("accuracy", f"{number} percent", places)
    return [reported, evaluation, *run_links(root, found[0].run, revision)]


def _answer_links(root: Path, answer: StoredAnswer) -> list[Link]:
    """Return the links from an answer down to the data that its policy was trained on."""
    facts = facts_of(
        vars(answer),
        *("question", "question_id", "evidence", "scheduled_at", "status", "sql", "error"),
        *("database", "database_fingerprint", "policy", "policy_revision", "training_run"),
        *("prompt_revision", "sampling", "code_version", "dagster_run_id"),
    )
    facts["scheduled at"] = answer.scheduled_at.isoformat()
    facts["training run"] = run_of({"training_run": answer.training_run or ""})
    if answer.share is not None:
        facts["candidates that agree"] = f"{answer.votes} of {answer.candidates}"
    link = Link("answer", str(answer.id), facts)
    if answer.database_fingerprint:
        database = Path(answer.database)
        with link.noting():
            if database.is_file():
                same = database_fingerprint(database) == answer.database_fingerprint
                link.facts["database now"] = "unchanged" if same else "changed since"
            else:
                link.problems.append(f"The database {database} is gone.")
    if answer.dagster_run_id:
        note = link.record(answering_run_note(root, answer.dagster_run_id))
        link.facts["commit"] = commit_of(note)
    links = [link]
    if answer.policy_revision:
        links.append(_champion_link(root, answer.training_run or "", answer.policy_revision))
    if answer.training_run:
        links += run_links(root, answer.training_run, answer.policy_revision or "")
    return links


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
    link.facts = facts_of(term, *named, "dagster_run") | {"training run": run_of(term)}
    return link


@dataclass(frozen=True)
class _Reported:
    """A score that an evaluation of a training run reported, and the evaluation's folder."""

    run: str
    folder: Path
    score: Score

    def __str__(self) -> str:
        """Name the policy, the setting, the part and the number with its interval."""
        score = self.score
        part = score.part if not score.name else f"{score.part} {score.name}"
        return f"{score.policy} {score.setting}, {part}: {score}"


def _percent_of(text: str) -> str | None:
    """Return the number in an accuracy such as ``63.3`` or ``63%``; None if it is not one."""
    found = _ACCURACY.fullmatch(text.strip())
    return (found[1] or found[2]) if found else None


def _find_reported(root: Path, number: str) -> list[_Reported]:
    """Return the scores that equal ``number`` in percent, to its digits.

    Scores of parts count only if no score of a whole split does.
    """
    digits = len(number.partition(".")[2])
    shown = f"{float(number):.{digits}f}"
    found = [
        _Reported(run, folder, score)
        for folder, run in _evaluations(root)
        if (folder / SCORES).exists()
        for score in _read_scores(folder / SCORES).scores
        if score.n and f"{100 * score.value:.{digits}f}" == shown
    ]
    return [one for one in found if one.score.part == ALL] or found


def _evaluations(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folder of each evaluation that was started, and its training run."""
    for file in sorted(evaluation_folder(root).glob(f"*/{ROLLOUTS}")):
        yield file.parent, file.parent.name
    for file in sorted(held_out_folder(root).glob(f"*/{ROLLOUTS}")):
        run = read_if_there(file.parent / NOTE).get("training_run")
        yield file.parent, str(run or file.parent.name)


def _read_scores(file: Path) -> Scores:
    """Read the scores of an evaluation; raise Text2SqlError if they are missing or invalid."""
    row = read_record(file)
    if not row:
        raise Text2SqlError(f"{file} is missing.")
    try:
        return Scores.from_dict(row)
    except (KeyError, TypeError, AttributeError) as error:
        raise Text2SqlError(f"{file} is invalid: {error}; evaluate the run again.") from error


def _greedy_of(root: Path, run: str) -> str:
    """Return a run's greedy accuracy in percent, empty if it was not evaluated."""
    try:
        score = _read_scores(evaluation_folder(root, run) / SCORES).find(TRAINED, "greedy")
    except Text2SqlError:
        return ""
    return f"{100 * score.value:.1f}" if score else ""


def _scores_link(folder: Path) -> tuple[Link, str]:
    """Return an evaluation, and the revision of the policy that was evaluated."""
    link = Link("evaluation", folder.name)
    scores: Scores | None = None
    with link.noting():
        scores = _read_scores(folder / SCORES)
    note = link.record(folder / NOTE)
    for name, version in note.get("files", {}).items():
        with link.noting():
            if file_version(folder / name) != version:
                link.problems.append(f"{folder / name} was changed after the evaluation.")
    if scores is None:
        return link, ""
    link.facts = facts_of(scores.provenance, "split")
    for setting in ("greedy", f"vote@{scores.k}"):
        base, trained = (scores.find(policy, setting) for policy in (BASE, TRAINED))
        if base and trained:
            link.facts[setting] = f"{base} (base), {trained} (trained)"
    link.facts["policy revision"] = scores.revisions.get(TRAINED)
    link.facts["base revision"] = scores.revisions.get(BASE)
    named = ("dataset", "prompt_revision", "sampling", "known_issues", "code_version")
    link.facts |= facts_of(scores.provenance, *named, "dagster_run") | {"commit": commit_of(note)}
    return link, scores.revisions.get(TRAINED, "")
