"""A chain of links, with the facts of each and the files that are missing or were edited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from text2sql.common.json_files import read_if_there
from text2sql.common.provenance import edited, is_edited
from text2sql.errors import Text2SqlError

_LABELS = {"sql": "SQL", "dagster_run": "Dagster run", "dagster_run_id": "Dagster run"}


def facts_of(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return some values of a record as facts, named as people read them."""
    return {_LABELS.get(name, name.replace("_", " ")): record.get(name) for name in names}


@dataclass
class Link:
    """One link: an answer, a champion, a training run, its prompts, its dataset and so on.

    ``facts`` are values by name; ``problems`` are sentences about files that are missing, cannot
    be read, or do not match their record.
    """

    kind: str
    name: str
    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def record(self, file: Path, needed: bool = True) -> dict[str, Any]:
        """Read a record; note if it cannot be read, was edited, or is needed but missing."""
        found: dict[str, Any] = {}
        with self.noting():
            found = read_if_there(file)
            if is_edited(found):
                self.problems.append(edited(file))
        if needed and not file.exists():
            self.problems.append(f"{file} is missing.")
        return found

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note an error in the block as a problem, and go on: the rest of the chain is shown."""
        try:
            yield
        except Text2SqlError as error:
            self.problems.append(f"{str(error).removesuffix('.')}.")
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            self.problems.append(f"The record of {self.name} is invalid: {error!r}.")
        except OSError as error:
            self.problems.append(f"{error.filename} cannot be read: {error.strerror}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the link as plain JSON values, without empty facts."""
        facts = {name: fact for name, fact in self.facts.items() if fact not in (None, "", [], {})}
        return asdict(self) | {"facts": facts}


@dataclass(frozen=True)
class Chain:
    """The links from what was asked about to where it began."""

    asked: str
    links: list[Link]

    @property
    def problems(self) -> list[str]:
        """All problems of the chain, each sentence once."""
        return list(dict.fromkeys(problem for link in self.links for problem in link.problems))

    def to_dict(self) -> dict[str, Any]:
        """Return the chain as plain JSON values."""
        links = [link.to_dict() for link in self.links]
        return {"asked": self.asked, "links": links, "problems": self.problems}
