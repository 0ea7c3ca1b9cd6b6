"""What a launcher of prime-rl gets: one JSON file that names the settings and all paths."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from text2sql.common.counting import counted
from text2sql.common.json_files import read_object
from text2sql.errors import Text2SqlError
from text2sql.training.prime_rl.checkout import prime_rl_directory
from text2sql.training.prime_rl.settings import PrimeRlSettings, SlurmNodes
from text2sql.training.prompts import read_prompts

RUN_NAME = "run"
"""The name of every run's directory: prime-rl resumes a run by its name."""


@dataclass(frozen=True)
class RunFiles:
    """Where a run reads and writes; all paths absolute.

    ``model`` is a hub name or a directory. Without the two evaluation files the run is not
    evaluated while it trains. Only a Slurm job needs ``package`` (the checkout or wheel that the
    environment is installed from) and ``prime_rl_dir``.
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


@dataclass(frozen=True)
class LaunchPlan:
    """One run; see ``RunFiles`` for its paths.

    ``settings`` are those of the ``backend``, ``agent`` has the base policy's agent settings.
    ``code`` is that of ``checkout.package()`` where the run was planned: a launcher with other
    code, in an older image, refuses to run. ``fresh`` discards an earlier attempt in
    ``output_dir``; otherwise the run resumes from its last complete checkpoint.
    """

    backend: str
    settings: dict[str, Any]
    agent: dict[str, Any]
    policy_dir: str
    prompts: str
    golds: str
    output_dir: str
    evaluation_prompts: str = ""
    evaluation_golds: str = ""
    package: str = ""
    code: str = ""
    fresh: bool = False

    def files(self) -> RunFiles:
        """Return where the run reads and writes."""

        def path(name: str) -> Path | None:
            return Path(name) if name else None

        return RunFiles(
            name=RUN_NAME,
            model=self.policy_dir,
            prompts=Path(self.prompts),
            golds=Path(self.golds),
            output_dir=Path(self.output_dir),
            evaluation_prompts=path(self.evaluation_prompts),
            evaluation_golds=path(self.evaluation_golds),
            package=path(self.package),
            prime_rl_dir=prime_rl_directory(),
        )

    @property
    def policy(self) -> Path:
        """Where the trained policy is written."""
        return Path(self.output_dir) / "policy"


def read_plan(path: Path) -> LaunchPlan:
    """Read a plan; raises Text2SqlError for an invalid file or key."""
    values = read_object(path)
    names = {field.name for field in fields(LaunchPlan)}
    needed = {field.name for field in fields(LaunchPlan) if field.default is MISSING}
    if not needed <= set(values) <= names:
        raise Text2SqlError(f"{path} is not a plan of a run: its keys must be {sorted(names)}.")
    return LaunchPlan(**values)


def check_prompts(settings: PrimeRlSettings, files: RunFiles) -> int:
    """Return the number of prompts; raises Text2SqlError if they are too few for a step."""
    questions, _ = read_prompts(files.prompts, files.golds)
    if len(questions) < settings.prompts_per_step:
        raise Text2SqlError(
            f"{files.prompts} has {counted(len(questions), 'prompt')}; a step needs "
            f"{settings.prompts_per_step}: loosen the difficulty filter or set prompts_per_step "
            "lower."
        )
    return len(questions)


def check_paths(settings: PrimeRlSettings, files: RunFiles) -> None:
    """Raise Text2SqlError if a path that the run needs is missing or relative."""
    if (files.evaluation_prompts is None) != (files.evaluation_golds is None):
        raise Text2SqlError("Evaluation during the run needs both its prompts and gold results.")
    if isinstance(settings, SlurmNodes) and not (files.package and files.prime_rl_dir):
        raise Text2SqlError("A Slurm job needs prime-rl's checkout and the environment's package.")
    for name, value in vars(files).items():
        if isinstance(value, Path) and not value.is_absolute():
            raise Text2SqlError(
                f"{name} is {value}: give an absolute path, since prime-rl runs in another folder."
            )
