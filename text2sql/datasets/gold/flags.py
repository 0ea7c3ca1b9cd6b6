"""What a gold query leaves undetermined: flags that tell a person to look, and change nothing.

A correct query may get no reward where gold's LIMIT cuts a tie, takes a NULL for the smallest
value, or sorts numbers as text; and a cast to an unknown type rarely means what was meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from text2sql.datasets.gold.bare_columns import bare_columns_of, several_values_of
from text2sql.datasets.gold.casts import unknown_casts
from text2sql.datasets.gold.concatenations import concatenations_of, several_parts_of
from text2sql.datasets.gold.extremes import extremes_of
from text2sql.datasets.gold.findings import (
    Finding,
    Flag,
    as_text_of,
    findings_of,
)
from text2sql.datasets.gold.limits import MORE, MOST, Cut, Unreadable, cuts_of
from text2sql.datasets.gold.row_numbers import numbering_of, tie_breaks
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox
from text2sql.sandbox.sql.repeatable import asks_outside

_BATCH = 256
_DETAIL_CHARS = 300
_LIMIT = re.compile(r"\blimit\b", re.IGNORECASE)


@dataclass(frozen=True)
class GoldFlag:
    """One flag of one question's gold query, and what was found, in words."""

    key: str
    flag: Flag
    detail: str

    def to_dict(self) -> dict[str, Any]:
        """Return the flag as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> GoldFlag:
        """Read what ``to_dict`` wrote."""
        return cls(row["key"], Flag(row["flag"]), row["detail"])


def flag_golds(
    questions: Sequence[Question],
    golds: Mapping[str, GoldResult],
    sandbox: Sandbox,
    limits: Limits,
) -> list[GoldFlag]:
    """Return the flags of every gold query that ran, in the order of the questions.

    Each distinct query with a LIMIT is run once more, to see what lies beyond; one that sorts
    numeric text a second time; one that returns a MIN, MAX or GROUP_CONCAT, or a column beside an
    aggregate, once for each; one whose window goes row by row three times. Raises Text2SqlError
    when a database cannot be read at all.
    """
    ran = [q for q in questions if q.key in golds and golds[q.key].ran]
    probes = _probes(ran, golds)
    found = {place: _findings_in_text(place[1]) for place in map(_place, ran)}
    for place, findings in _look(probes, sandbox, limits):
        found[place] += findings
    digests = {_place(question): golds[question.key].digest for question in ran}
    for place, findings in chain(
        _look_at_aggregates(list(found), sandbox, limits),
        _look_at_bare_columns(list(found), sandbox, limits),
        _look_at_numbering(digests, sandbox, limits),
    ):
        found[place] += findings
    return [
        GoldFlag(question.key, flag, detail[:_DETAIL_CHARS])
        for question in ran
        for flag, detail in dict.fromkeys(found[_place(question)])
    ]


Place = tuple[Path, str]


def _place(question: Question) -> Place:
    return question.database, question.sql


def _findings_in_text(sql: str) -> list[Finding]:
    casts = [(Flag.UNKNOWN_CAST_TYPE, sentence) for sentence in unknown_casts(sql)]
    outside = [(Flag.ASKS_OUTSIDE, "the answer changes by itself")] if asks_outside(sql) else []
    return [*casts, *outside]


@dataclass(frozen=True)
class _Probe:
    """One LIMIT to look into, or the reason why it cannot be."""

    place: Place
    digest: str
    cut: Cut | None
    reason: str = ""


def _probes(questions: Iterable[Question], golds: Mapping[str, GoldResult]) -> list[_Probe]:
    probes: list[_Probe] = []
    seen: set[Place] = set()
    for question in questions:
        place = _place(question)
        if place in seen or not _LIMIT.search(question.sql):
            continue
        seen.add(place)
        digest = golds[question.key].digest
        try:
            probes += [_Probe(place, digest, cut) for cut in cuts_of(question.sql)]
        except Unreadable as error:
            probes.append(_Probe(place, digest, None, str(error)))
    return probes


def _look(
    probes: Sequence[_Probe], sandbox: Sandbox, limits: Limits
) -> Iterable[tuple[Place, list[Finding]]]:
    """Run the probes in batches, so that rows are held of a few at a time only."""
    bounds = Limits(seconds=limits.seconds, keep_rows=MOST + MORE)
    for probe in probes:
        if probe.cut is None:
            yield probe.place, [(Flag.UNCHECKED, probe.reason)]
    followed = [(probe, probe.cut) for probe in probes if probe.cut is not None]
    for start in range(0, len(followed), _BATCH):
        batch = followed[start : start + _BATCH]
        texts = [(probe.place[0], cut.probe) for probe, cut in batch]
        results = sandbox.execute_many(texts, bounds)
        for (probe, cut), result in zip(batch, results, strict=True):
            run = partial(sandbox.execute, probe.place[0], limits=bounds)
            yield probe.place, findings_of(cut, result, probe.digest, run)


def _look_at_aggregates(
    places: Sequence[Place], sandbox: Sandbox, limits: Limits
) -> Iterator[tuple[Place, list[Finding]]]:
    """Run the probes of every MIN, MAX and GROUP_CONCAT; what cannot be read has no findings."""
    for probes_of, found_in in (
        (extremes_of, as_text_of),
        (concatenations_of, several_parts_of),
    ):
        probes = [(place, probe, probe) for place in places for probe in probes_of(place[1])]
        for place, _, result in _run(probes, sandbox, limits):
            yield place, found_in(result)


def _look_at_bare_columns(
    places: Sequence[Place], sandbox: Sandbox, limits: Limits
) -> Iterator[tuple[Place, list[Finding]]]:
    """Run the probes of columns beside aggregates; what cannot be run has no findings."""
    probes = [(place, bare) for place in places for bare in bare_columns_of(place[1])]
    asked = [(place, bare.probe, bare) for place, bare in probes]
    for place, bare, result in _run(asked, sandbox, limits):
        yield place, several_values_of(bare, result)


def _look_at_numbering(
    places: Mapping[Place, str], sandbox: Sandbox, limits: Limits
) -> Iterator[tuple[Place, list[Finding]]]:
    """Run queries whose windows go row by row in three orders; ``places`` has gold's digests."""
    orders = {place: tie_breaks(place[1]) for place in places if not asks_outside(place[1])}
    asked = [(place, query, place) for place, three in orders.items() for query in three]
    found: dict[Place, list[QueryResult]] = {}
    for place, _, result in _run(asked, sandbox, limits):
        found.setdefault(place, []).append(result)
    for place, results in found.items():
        yield place, numbering_of(results, places[place])


def _run(
    asked: Sequence[tuple[Place, str, Any]], sandbox: Sandbox, limits: Limits
) -> Iterator[tuple[Place, Any, QueryResult]]:
    """Run (place, query, anything) in batches; yield place, anything and result in order."""
    bounds = Limits(seconds=limits.seconds, keep_rows=MOST)
    for start in range(0, len(asked), _BATCH):
        batch = asked[start : start + _BATCH]
        results = sandbox.execute_many([(place[0], sql) for place, sql, _ in batch], bounds)
        for (place, _, anything), result in zip(batch, results, strict=True):
            yield place, anything, result
