"""Compare two evaluations on the same questions: what was gained, and is it more than chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from text2sql.common.counting import counted
from text2sql.common.json_files import read_object
from text2sql.errors import Text2SqlError
from text2sql.evaluation.scores import Comparison, Outcomes, compare
from text2sql.evaluation.statistics import paired_difference
from text2sql.evaluation.stored import OUTCOMES, SCORES, run_folder
from text2sql.judge.verdicts import Verdict
from text2sql.rollouts.origin import require_dataset

CONDITIONS = ("timeout_seconds", "sqlite_version", "text2sql_version")
"""What else a verdict may depend on, besides the questions, the databases and the rule."""
_AS_WRITTEN = "Evaluate the predictions with --json, and compare the files that it writes."


@dataclass(frozen=True)
class Side:
    """One evaluation: the outcome of each question in each setting.

    ``fingerprint`` names the questions: a training run's dataset, or the questions file's sha256,
    with that of a separate file of gold queries. ``rule`` is how results were compared, ``prompts``
    the revision of the prompts, empty if unknown. ``databases`` are the sha256 of those that
    predictions were scored on, by db_id, ``conditions`` what else verdicts may depend on.
    """

    name: str
    kind: str
    fingerprint: str
    rule: str
    settings: Mapping[str, Outcomes]
    prompts: str = ""
    databases: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """One setting of both: the comparison, both shares on the common questions, which differ.

    ``low`` and ``high`` end the paired 95 % interval of ``second`` minus ``first``;
    ``only_one`` counts questions that only one of the two has a valid result for.
    """

    comparison: Comparison
    first: float
    second: float
    low: float
    high: float
    gained: Sequence[str]
    lost: Sequence[str]
    only_one: int


def read_side(name: str, root: Path, rule: str | None = None) -> Side:
    """Read a JSON file that ``text2sql evaluate --json`` wrote, or a training run below ``root``.

    ``FILE:SYSTEM`` is one of a file's several systems. ``rule``: compare by what this rule gives,
    which evaluate writes with ``--all-rules``. Raises Text2SqlError for anything else.
    """
    parts = name.split(":")  # a file's name may have colons, and so may a system's
    paths = [Path(":".join(parts[:at])) for at in range(len(parts), 0, -1)]
    for path in paths:
        if path.is_file():
            return _from_file(path, name[len(str(path)) + 1 :], rule)
    if missing := next((path for path in paths[::-1] if path.suffix == ".json"), None):
        raise Text2SqlError(f"There is no file {missing}. {_AS_WRITTEN}")
    if rule is not None:
        raise Text2SqlError(
            f"--rule compares files of text2sql evaluate --all-rules --json, and {name} is none."
        )
    folder = run_folder(root, name)
    advice = "Materialize dev_scores for it again."
    scores, outcomes = (read_object(folder / file, advice) for file in (SCORES, OUTCOMES))
    try:
        about = scores["provenance"]
        dataset, prompts = str(about["dataset"]), str(about.get("prompt_revision", ""))
        settings = {
            setting: {key: float(share) for key, share in found.items()}
            for setting, found in outcomes.items()
            if not setting.startswith("mean")  # an average of rollouts is neither won nor lost
        }
        if not all(0 <= share <= 1 for one in settings.values() for share in one.values()):
            raise ValueError("a share is not between 0 and 1")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Text2SqlError(
            f"The evaluation in {folder} is invalid ({error!r}): materialize dev_scores again."
        ) from error
    return Side(name, "training run", dataset, "official", settings, prompts)


def _from_file(path: Path, system: str, rule: str | None) -> Side:
    found = read_object(path, _AS_WRITTEN)
    systems = found.get("systems")
    if isinstance(systems, dict) and systems:
        if not isinstance(systems.get(system), dict):
            one = f"has no system '{system}'" if system else "has several systems"
            raise Text2SqlError(
                f"{path} {one}: name one of {', '.join(systems)}, as in "
                f"{path}:{next(iter(systems))}."
            )
        found = found | systems[system]
    elif system:
        raise Text2SqlError(f"{path} has one system: leave out ':{system}'.")
    rows, digest = found.get("verdicts"), found.get("questions_sha256")
    if not isinstance(rows, list) or not isinstance(digest, str) or not digest:
        raise Text2SqlError(
            f"{path} is not a result of text2sql evaluate --json with its questions' sha256. "
            f"{_AS_WRITTEN}"
        )
    try:
        verdicts = [(str(row["question_id"]), Verdict(row["verdict"])) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise Text2SqlError(f"{path}: a verdict is invalid ({error!r}); evaluate again.") from error
    twice = [key for key, count in Counter(key for key, _ in verdicts).items() if count > 1]
    if twice:
        raise Text2SqlError(f"{path} has two verdicts on {twice[0]}; evaluate again.")
    outcomes = {
        key: float(verdict is Verdict.MATCH)
        for key, verdict in verdicts
        if verdict is not Verdict.INFRASTRUCTURE
    }
    settings = {"execution accuracy": outcomes}
    if rule is not None:
        given = {key: row.get("rules") for (key, _), row in zip(verdicts, rows, strict=True)}
        if not any("rules" in row for row in rows):
            raise Text2SqlError(
                f"{path} has no results by other rules: evaluate again with --all-rules."
            )
        try:
            values = {key: float(its[rule]) for key, its in given.items() if its}
        except (KeyError, TypeError, ValueError) as error:
            raise Text2SqlError(
                f"{path}: a value by the rule {rule} is invalid ({error!r}); evaluate again."
            ) from error
        settings = {rule: values}
    rule, databases = rule or str(found.get("rule", "")), found.get("databases_sha256")
    if gold := found.get("gold_sha256"):
        digest = f"{digest}+{gold}"
    conditions = {name: found[name] for name in CONDITIONS if name in found}
    known = databases if isinstance(databases, dict) else {}
    name = f"{path}:{system}" if system else str(path)
    return Side(name, "predictions", digest, rule, settings, "", known, conditions)


def compare_sides(first: Side, second: Side) -> dict[str, Difference]:
    """Compare two evaluations in every setting that both have.

    Raises Text2SqlError where they are of different questions, naming both fingerprints, of
    different rules or databases, or have no setting or question in common.
    """
    if first.kind != second.kind:
        raise Text2SqlError(
            f"{first.name} is a {first.kind}, {second.name} a {second.kind}: they name questions "
            "differently; compare two of one kind."
        )
    require_dataset({first.name: first.fingerprint, second.name: second.fingerprint})
    if first.rule != second.rule:
        raise Text2SqlError(
            f"{first.name} was judged by the rule '{first.rule}', {second.name} by "
            f"'{second.rule}'; evaluate both by the same rule."
        )
    both = first.databases.keys() & second.databases.keys()
    if other := sorted(name for name in both if first.databases[name] != second.databases[name]):
        raise Text2SqlError(
            f"{first.name} and {second.name} were scored on different contents of "
            f"{len(other)} of {counted(len(both), 'database')}, for example {other[0]} "
            "(databases_sha256); evaluate both on the same databases."
        )
    common = [name for name in first.settings if name in second.settings]
    if not common:
        raise Text2SqlError(f"{first.name} and {second.name} have no setting in common.")
    found = {s: _difference(s, first.settings[s], second.settings[s]) for s in common}
    if not any(one.comparison.n for one in found.values()):
        raise Text2SqlError(
            f"{first.name} and {second.name} have no question with a valid result in common."
        )
    return found


def _difference(setting: str, before: Outcomes, after: Outcomes) -> Difference:
    both = [key for key in before if key in after]
    n = max(1, len(both))
    found = compare(setting, "all", "", before, after, both)
    return Difference(
        found,
        sum(before[key] for key in both) / n,
        sum(after[key] for key in both) / n,
        *paired_difference(found.won, found.lost, found.n),
        [key for key in both if after[key] > before[key]],
        [key for key in both if after[key] < before[key]],
        len(before) + len(after) - 2 * len(both),
    )
