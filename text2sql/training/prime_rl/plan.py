"""What a launcher of prime-rl gets: one JSON file with the settings and all paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from text2sql.common.counting import counted
from text2sql.common.json_files import read_object
from text2sql.errors import Text2SqlError
from text2sql.training.prime_rl.checkout import prime_rl_directory
from text2sql.training.prime_rl.settings import PrimeRlSettings, SlurmNodes
from text2sql.training.prompts import read_prompts
from text2sql.training.settings import Settings, read_values


class LaunchPlan(Settings):
    """One run; all paths are absolute.

    ``settings`` are those of the ``backend``, ``agent`` has the base policy's agent settings.
    ``policy_dir`` is the base model, a directory or a hub name. Without the two evaluation files
    the run is not evaluated while it trains. Only a Slurm job needs ``package`` (the checkout or
    wheel that the environment is installed from) and ``prime_rl_dir``. ``code`` is that of
    ``checkout.package()`` where the run was planned: a launcher with other code, in an older image,
    refuses to run. ``fresh`` discards an earlier attempt in ``output_dir``; otherwise the run
    resumes from its last complete checkpoint.
    """

    backend: str
    settings: dict[str, Any]
    agent: dict[str, Any]
    policy_dir: str
    prompts: Path
    golds: Path
    output_dir: Path
    evaluation_prompts: Path | None = None
    evaluation_golds: Path | None = None
    package: Path | None = None
    prime_rl_dir: Path | None = Field(default_factory=prime_rl_directory)
    code: str = ""
    fresh: bool = False
    name: str = "run"
    """The name of the run's directory: prime-rl resumes a run by its name."""

    @property
    def run_dir(self) -> Path:
        """The directory that prime-rl writes everything into."""
        return self.output_dir / self.name

    @property
    def policy(self) -> Path:
        """Where the trained policy is written."""
        return self.output_dir / "policy"


def read_plan(path: Path) -> LaunchPlan:
    """Read a plan; raises Text2SqlError for an invalid file or key."""
    return read_values(LaunchPlan, read_object(path), f"{path} is not a plan of a run")


def check_prompts(settings: PrimeRlSettings, plan: LaunchPlan) -> int:
    """Return the number of prompts; raises Text2SqlError if they are too few for a step."""
    questions, _ = read_prompts(plan.prompts, plan.golds)
    if len(questions) < settings.prompts_per_step:
        raise Text2SqlError(
            f"{plan.prompts} has {counted(len(questions), 'prompt')}; a step needs "
            f"{settings.prompts_per_step}: loosen the difficulty filter or set prompts_per_step "
            "lower."
        )
    return len(questions)


def check_paths(settings: PrimeRlSettings, plan: LaunchPlan) -> None:
    """Raise Text2SqlError if a path that the run needs is missing or relative."""
    if (plan.evaluation_prompts is None) != (plan.evaluation_golds is None):
        raise Text2SqlError("Evaluation during the run needs both its prompts and gold results.")
    if isinstance(settings, SlurmNodes) and not (plan.package and plan.prime_rl_dir):
        raise Text2SqlError("A Slurm job needs prime-rl's checkout and the environment's package.")
    for name, value in plan:
        if isinstance(value, Path) and not value.is_absolute():
            raise Text2SqlError(
                f"{name} is {value}: give an absolute path, since prime-rl runs in another folder."
            )
