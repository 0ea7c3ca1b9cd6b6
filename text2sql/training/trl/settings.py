"""The settings of a GRPO run with TRL, and the run's configuration as its JSON file holds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from text2sql.common.json_files import read_object
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question
from text2sql.training import settings as shared
from text2sql.training.prompts import read_prompts


class TrlSettings(shared.Settings):
    """What can be set about a run; the defaults train the pocket policy on a CPU."""

    steps: shared.Steps = 60
    groups_per_step: shared.PromptsPerStep = 16
    group_size: shared.GroupSize = 8
    learning_rate: shared.LearningRate = 1.5e-4
    seed: shared.Seed = 1
    threads: int = Field(default=2, ge=1, le=256, description="CPU threads.")
    save_every: shared.SaveEvery = 10
    shuffle_rewards: bool = Field(
        default=False,
        description="A control experiment: rewards are shuffled within each step, so the policy "
        "learns nothing.",
    )


class GrpoRun(TrlSettings):
    """One run: its settings and its paths.

    ``prompts`` and ``golds`` are JSON lines of questions and of their gold results. A step draws
    ``group_size`` rollouts of each of ``groups_per_step`` prompts.
    """

    policy_dir: Path
    prompts: Path
    golds: Path
    output_dir: Path
    resume: bool = True

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
        return {name: getattr(self, name) for name in TrlSettings.model_fields}


def read_run(path: Path) -> GrpoRun:
    """Read a configuration; raises Text2SqlError for an invalid file, key or value."""
    return shared.read_values(GrpoRun, read_object(path), f"{path} is not a GRPO configuration")


def read_run_prompts(run: GrpoRun) -> tuple[list[Question], dict[str, GoldResult]]:
    """Read the questions and gold results; raises Text2SqlError if they do not fill a step."""
    return read_prompts(run.prompts, run.golds, run.groups_per_step, "groups_per_step")
