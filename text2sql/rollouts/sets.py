"""Sets of rollouts: what one policy does on one split with one way of sampling.

A set's folder is named after all that it depends on, so equal work is found and never repeated.
Each shard has a store of its own there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from text2sql.common.artifacts import rollouts_folder
from text2sql.common.provenance import fingerprint
from text2sql.policy.base import Sampling

if TYPE_CHECKING:
    from text2sql.agent.settings import Mode


@dataclass(frozen=True)
class RolloutSet:
    """One set of rollouts: what it depends on, how many it has, and where they are stored.

    ``mode`` is the agent's if it is not the one that the policy was trained with. ``code`` is the
    version of the code that shapes rollouts, empty in older records.
    """

    policy: str
    policy_revision: str
    prompt_revision: str
    split: str
    dataset: str
    sampling: Sampling
    samples: int
    keys: tuple[str, ...]
    mode: Mode | None = None
    code: str = ""

    @property
    def folder(self) -> str:
        """The name of the set's folder, which says what the rollouts depend on."""
        parts = {"prompt": self.prompt_revision, "dataset": self.dataset}
        parts |= {"code": self.code} if self.code else {}
        version = fingerprint(**parts, sampling=asdict(self.sampling))
        kind = "sampled" if self.sampling.temperature else "greedy"
        kind = kind if self.mode is None else f"{self.mode.replace('_', '-')}-{kind}"
        return f"{self.split}-{kind}-{self.policy_revision}-{version}"

    def to_dict(self) -> dict[str, Any]:
        """Return the set as plain JSON values."""
        return asdict(self)

    def files(self, root: Path) -> list[Path]:
        """Return the stores of the set below the artifact root, one for each shard."""
        return sorted(rollouts_folder(root, self.folder).glob("*.jsonl"))

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> RolloutSet:
        """Read what ``to_dict`` wrote."""
        sampling = Sampling(**row["sampling"])
        return cls(**{**row, "sampling": sampling, "keys": tuple(row["keys"])})
