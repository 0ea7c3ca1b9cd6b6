"""What a person asks about: an answer's number, a training run's name, or an accuracy."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from text2sql.cli.lineage.chain import Chain, Link
from text2sql.cli.lineage.runs import known_runs, run_links
from text2sql.cli.lineage.scores import (
    Reported,
    evaluations,
    find_reported,
    greedy_of,
    percent_of,
    scores_link,
)
from text2sql.errors import Text2SqlError

if TYPE_CHECKING:
    from text2sql.reporting.model.answer import StoredAnswer

KINDS = ("answer", "run", "accuracy")
_PREFIX = re.compile(r"(answer|run|accuracy):(.+)", re.DOTALL)
_SCORES_OF = re.compile(r"^dev_scores of\s+")
_SHOWN = 20
FindAnswer = Callable[[int], "StoredAnswer"]


def find_chain(root: Path, asked: str, find_answer: FindAnswer) -> Chain:
    """Return the chain of what was asked about; ``find_answer`` reads the reporting tables.

    Raises Text2SqlError, naming what there is, where it is unknown or could mean several things.
    """
    kind, value = _meaning(root, _SCORES_OF.sub("run:", asked.strip()))
    if kind == "answer":
        from text2sql.cli.lineage.answers import answer_links

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
        told = " or ".join(f"{kind}:{value}" for kind in possible)
        raise Text2SqlError(f"'{asked}' can mean several things: say {told}.")
    if not possible:
        raise Text2SqlError(f"'{asked}' is no answer, training run or accuracy. {_there_is(root)}")
    return possible[0], value


def _possible(runs: Sequence[str], value: str) -> list[str]:
    fits = {
        "answer": value.isascii() and value.isdigit(),
        "run": value in runs,
        "accuracy": percent_of(value) is not None,
    }
    return [kind for kind in KINDS if fits[kind]]


def _there_is(root: Path) -> str:
    """Say what can be asked about."""
    runs = known_runs(root)
    named = [f"{run} ({greedy})" if (greedy := greedy_of(root, run)) else run for run in runs]
    more = f" and {len(named) - _SHOWN} more" if named[_SHOWN:] else ""
    shown = ", ".join(named[:_SHOWN]) or "none"
    return (
        f"Training runs below {root}, with their greedy accuracy: {shown}{more}; answers have "
        "whole numbers (text2sql answers list)."
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
        raise Text2SqlError(f"No evaluation reported {number} percent. {_there_is(root)}")
    runs = sorted({one.run for one in found})
    if len(runs) > 1:
        told = "; ".join(f"run:{run} ({_first(found, run)})" for run in runs)
        raise Text2SqlError(f"{len(runs)} training runs reported {number} percent: say {told}.")
    places = {str(index): str(one) for index, one in enumerate(found, start=1)}
    evaluation, revision = scores_link(found[0].folder)
    reported = Link("accuracy", f"{number} percent", places)
    return [reported, evaluation, *run_links(root, runs[0], revision)]


def _first(found: Sequence[Reported], run: str) -> str:
    mine = [one for one in found if one.run == run]
    more = f" and {len(mine) - 1} more" if mine[1:] else ""
    return f"{mine[0]}{more}"
