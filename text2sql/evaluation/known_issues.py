"""Known issues of a dataset's gold queries: a list that people keep beside the data, never in it.

The official accuracy ignores the list. For the corrected accuracy a corrected gold query replaces
the original, a second one is accepted as well, and a question that is only flagged is left out.
``docs/known-issues.md`` has the format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from text2sql.common.counting import counted
from text2sql.common.files import file_digest, read_text
from text2sql.common.json_files import read_if_there, write_json
from text2sql.common.provenance import fingerprint
from text2sql.datasets.stored import (
    Dataset,
    dataset_folder,
    load_current,
    load_questions,
    load_rows,
)
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge.equality import same
from text2sql.judge.known_results import KnownResults, execute_known
from text2sql.judge.verdicts import GoldResult, Verdict, gold_result
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox

if TYPE_CHECKING:
    from text2sql.rollouts.store import Rollout

_DATASET = ("questions_sha256", "name", "issues")  # the name is for people
_ISSUE = ("id", "reason", "source", "corrected", "also")


@dataclass(frozen=True)
class Issue:
    """What is wrong with one question, the source, and the right gold queries.

    ``corrected`` replaces the gold query; ``also`` are accepted as well (a tie that LIMIT cuts).
    With neither the question is flagged: no answer to it can be judged.
    """

    id: str
    reason: str
    source: str
    corrected: str = ""
    also: tuple[str, ...] = ()

    @property
    def golds(self) -> tuple[str, ...]:
        """The gold queries of the list."""
        return (self.corrected, *self.also) if self.corrected else self.also

    @property
    def kind(self) -> str:
        """``corrected``, ``second gold`` or ``flagged``."""
        return "corrected" if self.corrected else "second gold" if self.also else "flagged"


@dataclass(frozen=True)
class DatasetIssues:
    """The issues of one questions file, identified by the sha256 of its bytes."""

    questions_sha256: str
    issues: tuple[Issue, ...]


@dataclass(frozen=True)
class Correction:
    """An issue and the results of its gold queries."""

    key: str
    issue: Issue
    golds: tuple[GoldResult, ...]

    def accepted(self, official: GoldResult) -> tuple[GoldResult, ...]:
        """Return the right results; none if the question cannot be judged."""
        return (official, *self.golds) if self.issue.kind == "second gold" else self.golds

    def to_dict(self) -> dict[str, Any]:
        """Return the correction as plain JSON values."""
        return {
            "key": self.key,
            "issue": asdict(self.issue),
            "golds": [gold.to_dict() for gold in self.golds],
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Correction:
        """Read what ``to_dict`` wrote."""
        issue = Issue(**(row["issue"] | {"also": tuple(row["issue"]["also"])}))
        return cls(row["key"], issue, tuple(map(GoldResult.from_dict, row["golds"])))


def read_issues(file: Path) -> list[DatasetIssues]:
    """Read a list of known issues, YAML or JSON.

    Raises Text2SqlError naming the first entry that is malformed.
    """
    data = _load(file)
    if not isinstance(data, dict) or not isinstance(data.get("datasets"), list):
        raise Text2SqlError(f"{file} must hold a mapping with a list 'datasets'.")
    return [_dataset(row, f"{file}: dataset {n}") for n, row in enumerate(data["datasets"], 1)]


def _load(file: Path) -> Any:
    text = read_text(file, "the known issues")
    parse: Callable[[str], Any] = json.loads
    errors: tuple[type[Exception], ...] = (ValueError, RecursionError)
    form = "JSON"
    if file.suffix.lower() != ".json":
        try:
            import yaml
        except ImportError as error:
            reason = "PyYAML is not installed: install text2sql-lifecycle[reporting], or use JSON"
            raise Text2SqlError(f"{file} cannot be read: {reason}.") from error
        form, parse, errors = "YAML", yaml.safe_load, (*errors, yaml.YAMLError)
    try:
        return parse(text)
    except errors as error:
        raise Text2SqlError(f"{file} is not {form}: {' '.join(str(error).split())}.") from error


def _dataset(row: Any, where: str) -> DatasetIssues:
    _require_fields(row, _DATASET, ("questions_sha256", "issues"), where)
    digest = str(row["questions_sha256"]).lower()
    if not re.fullmatch("[0-9a-f]{12,64}", digest):
        raise Text2SqlError(
            f"{where}: questions_sha256 must be the questions file's sha256 (12 digits or more)."
        )
    if not isinstance(row["issues"], list):
        raise Text2SqlError(f"{where}: 'issues' must be a list.")
    issues = tuple(_issue(one, f"{where}, issue {n}") for n, one in enumerate(row["issues"], 1))
    ids = [issue.id for issue in issues]
    if twice := [one for one in ids if ids.count(one) > 1]:
        raise Text2SqlError(f"{where}: the id {twice[0]} occurs twice; make it one entry.")
    return DatasetIssues(digest, issues)


def _issue(row: Any, where: str) -> Issue:
    _require_fields(row, _ISSUE, ("id", "reason", "source"), where)
    where = f"{where} (id {row['id']})"
    also = row.get("also") or []
    also = [also] if isinstance(also, str) else also
    texts = [row["reason"], row["source"], row.get("corrected") or "", *also]
    if not isinstance(also, list) or not all(isinstance(text, str) for text in texts):
        raise Text2SqlError(f"{where}: everything but the id must be text, 'also' a list of texts.")
    if not all(text.strip() for text in (*texts[:2], *also)):
        raise Text2SqlError(f"{where}: reason, source and gold queries must not be empty.")
    return Issue(str(row["id"]), texts[0], texts[1], texts[2].strip(), tuple(also))


def _require_fields(row: Any, allowed: Sequence[str], required: Sequence[str], where: str) -> None:
    if not isinstance(row, dict):
        raise Text2SqlError(f"{where} must be a mapping with {', '.join(required)}.")
    if unknown := [str(name) for name in row if name not in allowed]:
        raise Text2SqlError(f"{where}: unknown field '{unknown[0]}' (use {', '.join(allowed)}).")
    if lacking := [name for name in required if row.get(name) in (None, "")]:
        raise Text2SqlError(f"{where}: '{lacking[0]}' is missing.")


def issues_of(
    datasets: Sequence[DatasetIssues], questions_file: Path, keys: Collection[str]
) -> dict[str, Issue] | None:
    """Return the issues of a questions file by question key; None if the list has no entry for it.

    ``keys`` are those of all rows of the file, usable or not. Raises Text2SqlError for an id
    that the file does not have.
    """
    digest = file_digest(questions_file)
    found = [one for one in datasets if digest.startswith(one.questions_sha256)]
    if not found:
        return None
    by_id = {key.split("/", 1)[-1]: key for key in keys}
    issues = [issue for dataset in found for issue in dataset.issues]
    if unknown := [issue.id for issue in issues if issue.id not in by_id]:
        raise Text2SqlError(
            f"The known issues name {counted(len(unknown), 'question')} that {questions_file} does "
            f"not have ({', '.join(unknown[:5])}); correct the ids or remove the entries."
        )
    return {by_id[issue.id]: issue for issue in issues}


def run_corrections(
    issues: Mapping[str, Issue],
    questions: Sequence[Question],
    sandbox: Sandbox,
    limits: Limits = Limits(),
    known: KnownResults | None = None,
) -> dict[str, Correction]:
    """Run the gold queries of the issues of ``questions``; return corrections by question key.

    Issues of other questions are left out. Raises Text2SqlError for a gold query that does not
    run, because the list claims that it is right.
    """
    asked = [(q, issues[q.key]) for q in questions if q.key in issues]
    texts = [(q.database, sql) for q, issue in asked for sql in issue.golds]
    results = iter(execute_known(texts, sandbox, limits, known))
    found = {}
    for question, issue in asked:
        golds = tuple(gold_result(question.key, sql, next(results)) for sql in issue.golds)
        for sql, gold in zip(issue.golds, golds, strict=True):
            if gold.lost:
                raise InfrastructureError(
                    f"The gold query of issue {issue.id} failed: {gold.error}."
                )
            if gold.failing:
                raise Text2SqlError(
                    f"A gold query of the known issue {issue.id} does not run "
                    f"({gold.error or gold.status}): {' '.join(sql.split())[:200]}"
                )
        found[question.key] = Correction(question.key, issue, golds)
    return found


def judge_again(
    rollouts: Iterable[Rollout], corrections: Mapping[str, Correction]
) -> Iterator[Rollout]:
    """Yield rollouts with the verdicts that the corrections give, without flagged questions."""
    for rollout in rollouts:
        correction = corrections.get(rollout.key)
        if correction is None:
            yield rollout
        elif any(same(rollout.digest, gold) for gold in correction.golds):
            yield replace(rollout, verdict=Verdict.MATCH)
        elif correction.issue.kind == "corrected" and rollout.verdict == Verdict.MATCH:
            yield replace(rollout, verdict=Verdict.WRONG)
        elif correction.issue.kind != "flagged":
            yield rollout


@dataclass(frozen=True)
class Corrections:
    """The corrections of a dataset by question key, and a fingerprint of their content.

    ``unused`` counts the issues of questions that are not in use.
    """

    found: dict[str, Correction]
    unused: int
    fingerprint: str


def renew_corrections(
    root: Path, dataset: Dataset, file: str, sandbox: Sandbox, limits: Limits
) -> Corrections:
    """Run the gold queries of a list of known issues and store their results.

    Without a ``file`` there are no corrections. Raises Text2SqlError for a list about other data.
    """
    issues: dict[str, dict[str, Issue] | None] = {}
    if file and (listed := read_issues(Path(file).expanduser())):
        for split, layout in dataset.splits.items():
            keys = [row["question"]["key"] for row in load_rows(root, split)]
            issues[split] = issues_of(listed, layout.questions, keys)
        if all(one is None for one in issues.values()):
            files = ", ".join(str(layout.questions) for layout in dataset.splits.values())
            raise Text2SqlError(
                "The list of known issues is about other data: it has no entry with the sha256 of "
                f"{files} (sha256sum prints it); correct questions_sha256, or do without the list."
            )
    found: dict[str, Correction] = {}
    for split, named in issues.items():
        found |= run_corrections(named or {}, load_questions(root, split), sandbox, limits)
    rows = [correction.to_dict() for correction in found.values()]
    # Without the time that the queries took, which differs from run to run.
    content = fingerprint(
        rows=[[row["key"], row["issue"], [gold["digest"] for gold in row["golds"]]] for row in rows]
    )
    about = {"file": file, "fingerprint": content, "corrections": rows}
    write_json(dataset_folder(root, dataset) / "known_issues.json", about)
    return Corrections(found, sum(len(one or {}) for one in issues.values()) - len(found), content)


def load_corrections(root: Path, split: str) -> dict[str, Correction]:
    """Return the corrections of a split by question key; empty without a list."""
    corrections = map(Correction.from_dict, _stored(root).get("corrections", []))
    return {one.key: one for one in corrections if one.key.startswith(f"{split}/")}


def list_version(root: Path) -> str:
    """Return the name and content of the current list of known issues; empty without one."""
    about = _stored(root)
    return f"{Path(about['file']).name} {about['fingerprint']}" if about.get("file") else ""


def _stored(root: Path) -> dict[str, Any]:
    return read_if_there(dataset_folder(root, load_current(root)) / "known_issues.json")
