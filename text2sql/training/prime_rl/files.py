"""Where a run with prime-rl reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError
from text2sql.training.prime_rl.settings import PrimeRlSettings, SlurmNodes
from text2sql.training.trl.config import read_questions

RUN_NAME = "run"
"""What every run's directory is called, so that it can go on."""
JOB_FILE = "slurm_job"
"""Holds the id of the Slurm job that trains."""


@dataclass(frozen=True)
class RunFiles:
    """Where a run reads and writes; all paths absolute.

    ``model`` is a hub name or a directory. The run's directory is ``output_dir / name``. Without
    the two evaluation files nothing is evaluated in the run. ``package`` is what the environment
    is installed from (a checkout or a wheel) and ``prime_rl_dir`` prime-rl's checkout; only a
    Slurm job needs them.
    """

    name: str
    model: str
    prompts: Path
    golds: Path
    output_dir: Path
    evaluation_prompts: Path | None = None
    evaluation_golds: Path | None = None
    package: Path | None = None
    prime_rl_dir: Path | None = None

    @property
    def run_dir(self) -> Path:
        """The directory that prime-rl writes everything into."""
        return self.output_dir / self.name


def check_prompts(settings: PrimeRlSettings, files: RunFiles) -> int:
    """Return the number of prompts; raises Text2SqlError where a step cannot be filled."""
    questions, _ = read_questions(files.prompts, files.golds)
    if len(questions) < settings.prompts_per_step:
        raise Text2SqlError(
            f"{files.prompts} has {counted(len(questions), 'prompt')}; a step needs "
            f"{settings.prompts_per_step}: loosen the difficulty filter or set prompts_per_step "
            "lower."
        )
    return len(questions)


def check_paths(settings: PrimeRlSettings, files: RunFiles) -> None:
    """Raise Text2SqlError where a path that the run needs is missing or relative."""
    if (files.evaluation_prompts is None) != (files.evaluation_golds is None):
        raise Text2SqlError("An evaluation in the run needs its prompts and its gold results.")
    if isinstance(settings, SlurmNodes) and not (files.package and files.prime_rl_dir):
        raise Text2SqlError("A Slurm job needs prime-rl's checkout and the environment's package.")
    for name, value in vars(files).items():
        if isinstance(value, Path) and not value.is_absolute():
            raise Text2SqlError(f"{name} is {value}: prime-rl runs elsewhere; give the whole path.")
