"""What a file of questions changes in the table, and what it leaves as a person made it.

The file owns what nobody edited by hand. The table remembers what each question was in the file
when it was imported last (its *seed*), so that three versions of a field can be compared: the
seed, the file's now, and the table's. A field follows the file as long as the table's value is
the seed's; once it was edited by hand it stays, and an import says so where the file changed
too. Nothing is deleted: answers refer to their questions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from text2sql.reporting.model.question import ReportQuestion

SEEDED = tuple(field.name for field in fields(ReportQuestion) if field.name != "id")
Seed = dict[str, Any]


@dataclass(frozen=True)
class Merged:
    """A question after an import.

    ``taken`` names the fields that follow the file, ``kept`` those that the file and a person
    both changed, which stay as the person made them.
    """

    question: ReportQuestion
    taken: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass
class ImportReport:
    """What an import did, by the ids of the questions.

    ``updated`` and ``kept`` name fields. ``moved`` names the file that an updated one followed
    until now. ``own`` were made by hand under an id that the file uses too; ``gone`` came from
    this file, which has them no more: both stay as they are.
    ``unreadable`` rows were edited into nonsense, and stay too.
    """

    added: list[str] = field(default_factory=list)
    updated: dict[str, list[str]] = field(default_factory=dict)
    kept: dict[str, list[str]] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    unchanged: int = 0

    def notes(self) -> list[str]:
        """Return a sentence for each question of the file that is not as the file says."""
        kept = [
            f"{id}: {', '.join(names)} edited by hand and in the file; the hand's stays"
            for id, names in self.kept.items()
        ]
        moved = [
            f"{id}: {', '.join(self.updated[id])} as in this file now; it followed {file}"
            for id, file in self.moved.items()
        ]
        own = [
            f"{id}: made by hand; the file's question of this id is not taken" for id in self.own
        ]
        gone = [
            f"{id}: not in the file any more; it stays until it is disabled" for id in self.gone
        ]
        return [*kept, *moved, *own, *gone, *self.unreadable.values()]


def seed_of(question: ReportQuestion) -> Seed:
    """Return what the table remembers of a question in a file: plain JSON values."""
    values = {name: getattr(question, name) for name in SEEDED}
    return values | {"expectations": question.expectations.to_dict()}


def merge(mine: ReportQuestion, seed: Seed, theirs: ReportQuestion) -> Merged:
    """Merge a question of a file into the one of the table, field by field."""
    now, before, new = seed_of(mine), seed, seed_of(theirs)
    taken, kept = {}, []
    for name in SEEDED:
        if new[name] in (now[name], before.get(name, now[name])):
            continue
        if now[name] == before.get(name, now[name]):
            taken[name] = getattr(theirs, name)
        else:
            kept.append(name)
    return Merged(replace(mine, **taken), tuple(taken), tuple(kept))


def edited_fields(mine: ReportQuestion, seed: Seed | None) -> list[str]:
    """Return the fields in which the table differs from the file that was imported last."""
    if seed is None:
        return []
    now = seed_of(mine)
    return [name for name in SEEDED if name in seed and now[name] != seed[name]]
