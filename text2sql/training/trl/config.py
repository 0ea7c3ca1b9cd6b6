"""The configuration of a GRPO run, as its JSON file holds it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from text2sql.common.json_files import read_object, read_rows
from text2sql.errors import Text2SqlError
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question

_PATHS = ("policy_dir", "prompts", "golds", "output_dir")


@dataclass(frozen=True)
class GrpoRun:
    """One run: what to train, on which prompts, and how.

    ``prompts`` and ``golds`` are JSON lines of questions and of their gold results. A step
    draws ``group_size`` rollouts of each of ``groups_per_step`` prompts. ``shuffle_rewards``
    is a control experiment: each step's rewards are dealt to its rollouts at random.
    """

    policy_dir: Path
    prompts: Path
    golds: Path
    output_dir: Path
    steps: int = 60
    groups_per_step: int = 16
    group_size: int = 8
    learning_rate: float = 1.5e-4
    seed: int = 1
    threads: int = 2
    save_every: int = 10
    resume: bool = True
    shuffle_rewards: bool = False

    @property
    def rollouts_per_step(self) -> int:
        """How many rollouts one optimizer step learns from."""
        return self.groups_per_step * self.group_size

    @property
    def policy(self) -> Path:
        """Where the trained policy is written."""
        return self.output_dir / "policy"

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints are."""
        return self.output_dir / "checkpoints"

    @property
    def metrics(self) -> Path:
        """The metrics file."""
        return self.output_dir / "metrics.jsonl"

    def recipe(self) -> dict[str, Any]:
        """Return the settings that shape the result, without the paths."""
        values = asdict(self)
        return {name: values[name] for name in values if name not in (*_PATHS, "resume")}


def read_run(path: Path) -> GrpoRun:
    """Read a configuration; raises Text2SqlError for a wrong file, key or value."""
    values = read_object(path)
    names = {field.name for field in fields(GrpoRun)}
    if unknown := ", ".join(sorted(set(values) - names)):
        raise Text2SqlError(f"{path} is no GRPO configuration: it has {unknown}.")
    if missing := [name for name in _PATHS if not values.get(name)]:
        raise Text2SqlError(f"{path} lacks {', '.join(missing)}.")
    run = GrpoRun(**(values | {name: Path(values[name]) for name in _PATHS}))
    for name, least in {"steps": 1, "groups_per_step": 1, "group_size": 2, "save_every": 1}.items():
        if getattr(run, name) < least:
            raise Text2SqlError(f"{path}: {name} must be at least {least}.")
    return run


def read_prompts(run: GrpoRun) -> tuple[list[Question], dict[str, GoldResult]]:
    """Read the questions and their gold results; raises Text2SqlError where one is lacking."""
    questions, golds = read_questions(run.prompts, run.golds)
    if len(questions) < run.groups_per_step:
        raise Text2SqlError(
            f"{run.prompts} has {len(questions)} prompts; a step needs {run.groups_per_step}: "
            "loosen the difficulty filter or set groups_per_step lower."
        )
    return questions, golds


def read_questions(prompts: Path, golds: Path) -> tuple[list[Question], dict[str, GoldResult]]:
    """Read both files; raises Text2SqlError where a question has no gold result."""
    questions = [Question.from_dict(row) for row in read_rows(prompts)]
    found = {gold.key: gold for gold in map(GoldResult.from_dict, read_rows(golds))}
    if lacking := [question.key for question in questions if question.key not in found]:
        raise Text2SqlError(f"{golds} has no gold result for {lacking[0]}.")
    return questions, found
