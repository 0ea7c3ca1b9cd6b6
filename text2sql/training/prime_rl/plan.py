"""What a launcher of prime-rl is told: one JSON file."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from text2sql.common.json_files import read_object
from text2sql.errors import Text2SqlError
from text2sql.training.prime_rl.files import RUN_NAME, RunFiles
from text2sql.training.prime_rl.program import prime_rl_directory


@dataclass(frozen=True)
class LaunchPlan:
    """One run: what to train, on which prompts, and how; all paths absolute.

    ``settings`` are those of the ``preset``; ``agent`` has the base policy's agent settings.
    Without the two evaluation files nothing is evaluated in the run. ``package`` is what a Slurm
    job installs the environment from. ``code`` is that of ``package()`` where the run was planned:
    a program with another one, in an older image, refuses to run. ``fresh`` discards what an
    earlier attempt in ``output_dir`` left; otherwise the run goes on from its last complete
    checkpoint.
    """

    preset: str
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
        return RunFiles(
            name=RUN_NAME,
            model=self.policy_dir,
            prompts=Path(self.prompts),
            golds=Path(self.golds),
            output_dir=Path(self.output_dir),
            evaluation_prompts=_path(self.evaluation_prompts),
            evaluation_golds=_path(self.evaluation_golds),
            package=_path(self.package),
            prime_rl_dir=prime_rl_directory(),
        )

    @property
    def policy(self) -> Path:
        """Where the trained policy is written."""
        return Path(self.output_dir) / "policy"


def _path(name: str) -> Path | None:
    return Path(name) if name else None


def read_plan(path: Path) -> LaunchPlan:
    """Read a plan; raises Text2SqlError for a wrong file or key."""
    values = read_object(path)
    names = {field.name for field in fields(LaunchPlan)}
    needed = {field.name for field in fields(LaunchPlan) if field.default is MISSING}
    if not needed <= set(values) <= names:
        raise Text2SqlError(f"{path} is no plan of a run: its keys must be {sorted(names)}.")
    return LaunchPlan(**values)
