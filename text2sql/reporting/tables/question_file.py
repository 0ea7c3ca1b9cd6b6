"""YAML files of questions: reading, writing, and merging one into the table of questions.

The file owns what nobody edited by hand. The table remembers each question as it was in the file
at the last import (its *seed*), so that three versions of a field can be compared: the seed, the
file's now, and the table's. A field follows the file while the table has the seed's value; once
edited by hand it stays, and the import reports a field that the file changed too. Nothing is
deleted, because answers refer to their questions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from text2sql.errors import Text2SqlError
from text2sql.reporting.model.question import QuestionError, ReportQuestion, read_expectations
from text2sql.reporting.model.values import clean_text

FIELDS = tuple(field.name for field in fields(ReportQuestion))
_REQUIRED = ("id", "question", "database")
Seed = dict[str, Any]


def read_questions(path: Path) -> list[ReportQuestion]:
    """Read a YAML list of questions, or a mapping whose ``questions`` is that list.

    Raises Text2SqlError with the file, the line and the field of the first error.
    """
    reader = _Reader(path)
    questions: list[ReportQuestion] = []
    lines: dict[str, int] = {}
    for node in reader.entries():
        questions.append(reader.question(node))
        id = questions[-1].id
        if id in lines:
            same = f"question {id!r} is also at line {lines[id]}; give each question its own id"
            raise reader.problem(node, same)
        lines[id] = node.start_mark.line + 1
    return questions


class _Reader:
    """Reads one file node by node, so that every error message has its line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.loader = yaml.SafeLoader(path.read_text(encoding="utf-8-sig"))
            self.root = self.loader.get_single_node()
        except (UnicodeDecodeError, OSError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            fix = "save it as UTF-8: " if isinstance(error, UnicodeDecodeError) else ""
            raise Text2SqlError(f"{path} cannot be read: {fix}{reason}") from error
        except yaml.YAMLError as error:
            raise self.not_yaml(error) from error

    def not_yaml(self, error: yaml.YAMLError) -> Text2SqlError:
        mark = getattr(error, "problem_mark", None)
        where = f"{self.path}:{mark.line + 1}" if mark else str(self.path)
        words = getattr(error, "problem", None) or " ".join(str(error).split())
        return Text2SqlError(f"{where}: not YAML: {words}")

    def problem(self, node: yaml.Node, what: str) -> Text2SqlError:
        return Text2SqlError(f"{self.path}:{node.start_mark.line + 1}: {what}")

    def entries(self) -> list[yaml.Node]:
        """Return the entries of the list."""
        root = self.root
        if isinstance(root, yaml.MappingNode):
            root = next((value for key, value in root.value if key.value == "questions"), None)
        if not isinstance(root, yaml.SequenceNode):
            raise Text2SqlError(
                f"{self.path}: must be a YAML or JSON list of questions, each with"
                f" {', '.join(_REQUIRED)}"
            )
        return list(root.value)

    def question(self, entry: yaml.Node) -> ReportQuestion:
        """Return the question that an entry of the list describes."""
        if not isinstance(entry, yaml.MappingNode):
            raise self.problem(entry, f"each question is a mapping with {', '.join(FIELDS)}")
        nodes: dict[str, yaml.Node] = {}
        for key, node in entry.value:
            if key.value not in FIELDS:
                known = ", ".join(FIELDS)
                raise self.problem(key, f"unknown field {key.value!r}; the fields are {known}")
            if key.value in nodes:
                raise self.problem(key, f"the field {key.value!r} is given twice")
            nodes[key.value] = node
        values = {name: self._value(name, node) for name, node in nodes.items()}
        for name in _REQUIRED:
            if values.get(name) is None:
                raise self.problem(entry, f"the field {name!r} is missing")
        try:
            return ReportQuestion(**{k: v for k, v in values.items() if v is not None})
        except QuestionError as error:
            raise self.problem(nodes[error.field], str(error)) from error

    def _value(self, name: str, node: yaml.Node) -> Any:
        try:
            value = self.loader.construct_object(node, deep=True)
            if name == "expectations" and value is not None:
                return read_expectations(value)
        except yaml.YAMLError as error:
            raise self.not_yaml(error) from error
        except (ValueError, Text2SqlError) as error:
            raise self.problem(node, f"the field {name!r}: {error}") from error
        if name == "id" and type(value) is int:
            return str(node.value)  # 007 stays as written
        return clean_text(value.strip()) if isinstance(value, str) else value


def write_questions(questions: Iterable[ReportQuestion]) -> str:
    """Return a YAML list of questions, without the fields that have their default."""
    entries = []
    for question in questions:
        default = ReportQuestion(question.id, question.question, question.database)
        stated = {
            name: getattr(question, name)
            for name in FIELDS
            if name in _REQUIRED or getattr(question, name) != getattr(default, name)
        }
        if question.expectations:
            stated["expectations"] = question.expectations.to_dict()
        entries.append(stated)
    return yaml.safe_dump(entries, allow_unicode=True, sort_keys=False, width=100)


def seed_of(question: ReportQuestion) -> Seed:
    """Return what the table remembers of a question in a file, as JSON values."""
    values = {name: getattr(question, name) for name in FIELDS if name != "id"}
    return values | {"expectations": question.expectations.to_dict()}


def merge(
    mine: ReportQuestion, seed: Seed, theirs: ReportQuestion
) -> tuple[dict[str, Any], list[str]]:
    """Merge a question of a file (``theirs``) into the table's (``mine``), field by field.

    Returns the values to take from the file, and the fields that the file and a person both
    changed, which stay as the person made them.
    """
    now, new = seed_of(mine), seed_of(theirs)
    taken, kept = {}, []
    for name in now:
        before = seed.get(name, now[name])
        if new[name] in (now[name], before):
            continue
        if now[name] == before:
            taken[name] = getattr(theirs, name)
        else:
            kept.append(name)
    return taken, kept


@dataclass
class ImportReport:
    """What an import did, by the ids of the questions.

    ``updated`` and ``kept`` name fields. ``moved`` names the file that an updated question
    followed until now. ``own`` were made by hand under an id that the file uses too; ``gone`` are
    no longer in this file; ``unreadable`` rows are invalid. These three stay as they are.
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
        """Return a sentence for each question that is not as the file has it."""
        notes = []
        for id, names in self.kept.items():
            changed = f"{', '.join(names)} edited by hand and changed in the file"
            notes.append(f"{id}: {changed}; the edit stays")
        for id, file in self.moved.items():
            now = f"{', '.join(self.updated[id])} now as in this file"
            notes.append(f"{id}: {now}; it followed {file}")
        notes += [f"{id}: made by hand; the file's question with this id is ignored"
                  for id in self.own]  # fmt: skip
        notes += [f"{id}: no longer in the file; it stays until you disable it" for id in self.gone]
        return [*notes, *self.unreadable.values()]
