"""Lists of questions as YAML files: reading one, naming what is wrong in it, and writing one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import yaml

from text2sql.errors import Text2SqlError
from text2sql.reporting.model.expectations import read_expectations
from text2sql.reporting.model.question import QuestionError, ReportQuestion
from text2sql.reporting.model.values import clean_text

FIELDS = tuple(field.name for field in fields(ReportQuestion))
_REQUIRED = ("id", "question", "database")


def read_questions(path: Path) -> list[ReportQuestion]:
    """Read a YAML list of questions, or a mapping whose ``questions`` is that list.

    Raises Text2SqlError with the file, the line and the field for anything malformed.
    """
    reader = _Reader(path)
    found: dict[str, int] = {}
    questions = []
    for node in reader.entries():
        question, line = reader.question(node), node.start_mark.line + 1
        if question.id in found:
            raise reader.problem(
                node,
                f"question {question.id!r} stands at line {found[question.id]} too;"
                " give each question an id of its own",
            )
        found[question.id] = line
        questions.append(question)
    return questions


class _Reader:
    """Reads one file node by node, so that every complaint has its line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.loader = yaml.SafeLoader(path.read_text(encoding="utf-8-sig"))
            self.root = self.loader.get_single_node()
        except UnicodeDecodeError as error:
            raise Text2SqlError(f"{path}: cannot be read: save it as UTF-8 ({error})") from error
        except OSError as error:
            raise Text2SqlError(f"{path}: cannot be read: {error.strerror}") from error
        except RecursionError as error:
            raise Text2SqlError(f"{path}: cannot be read: it is nested too deeply") from error
        except yaml.YAMLError as error:
            raise self.not_yaml(error) from error

    def not_yaml(self, error: yaml.YAMLError) -> Text2SqlError:
        """Return the complaint about text that is not YAML."""
        mark = getattr(error, "problem_mark", None)
        where = f"{self.path}:{mark.line + 1}" if mark else str(self.path)
        words = getattr(error, "problem", None) or " ".join(str(error).split())
        return Text2SqlError(f"{where}: not YAML: {words}")

    def problem(self, node: yaml.Node, what: str) -> Text2SqlError:
        """Return a complaint about one place of the file."""
        return Text2SqlError(f"{self.path}:{node.start_mark.line + 1}: {what}")

    def entries(self) -> list[yaml.Node]:
        """Return the entries of the list."""
        root = self.root
        if isinstance(root, yaml.MappingNode):
            root = next((value for key, value in root.value if key.value == "questions"), None)
        if not isinstance(root, yaml.SequenceNode):
            raise Text2SqlError(
                f"{self.path}: must hold a YAML or JSON list of questions, each with"
                f" {', '.join(_REQUIRED)}"
            )
        return list(root.value)

    def question(self, entry: yaml.Node) -> ReportQuestion:
        """Return the question that an entry of the list describes."""
        if not isinstance(entry, yaml.MappingNode):
            raise self.problem(entry, f"each question is a mapping with {', '.join(FIELDS)}")
        nodes = self._fields(entry)
        values = {name: self._value(name, node) for name, node in nodes.items()}
        for field in _REQUIRED:
            if values.get(field) is None:
                raise self.problem(entry, f"the field {field!r} is missing")
        try:
            return ReportQuestion(**{k: v for k, v in values.items() if v is not None})
        except QuestionError as error:
            raise self.problem(nodes[error.field], str(error)) from error

    def _fields(self, entry: yaml.MappingNode) -> dict[str, yaml.Node]:
        found: dict[str, yaml.Node] = {}
        for key, node in entry.value:
            if key.value not in FIELDS:
                known = ", ".join(FIELDS)
                raise self.problem(key, f"unknown field {key.value!r}; there are {known}")
            if key.value in found:
                raise self.problem(key, f"the field {key.value!r} stands twice")
            found[key.value] = node
        return found

    def _value(self, field: str, node: yaml.Node) -> Any:
        """Return a field's value; an id such as 007 may look like a number and stays as written."""
        try:
            value = self.loader.construct_object(node, deep=True)
            if field == "expectations" and value is not None:
                return read_expectations(value)
        except yaml.YAMLError as error:
            raise self.not_yaml(error) from error
        except (ValueError, Text2SqlError) as error:
            raise self.problem(node, f"the field {field!r}: {error}") from error
        if field == "id" and type(value) is int:
            return str(node.value)
        return clean_text(value.strip()) if isinstance(value, str) else value


def write_questions(questions: Iterable[ReportQuestion]) -> str:
    """Return a YAML list of questions, without the fields that have their default."""
    entries = [plain_fields(question) for question in questions]
    return yaml.safe_dump(entries, allow_unicode=True, sort_keys=False, width=100)


def plain_fields(question: ReportQuestion) -> dict[str, Any]:
    """Return what a file has to say of a question: plain values that are not the default."""
    default = ReportQuestion(question.id, question.question, question.database)
    stated = {
        name: value
        for name, value in asdict(question).items()
        if name in _REQUIRED or value != getattr(default, name)
    }
    if question.expectations:
        stated["expectations"] = question.expectations.to_dict()
    else:
        stated.pop("expectations", None)
    return stated
