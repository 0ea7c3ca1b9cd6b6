"""What is known to be missing for a training before the hours of sampling that precede it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assets.training.trainers import PrimeRlSlurmConfig, TrainerConfig, TrlConfig
from resources.step_pods import EXECUTOR_VARIABLE
from text2sql.training.prime_rl.installed import check_environment
from text2sql.training.prime_rl.preflight import require_gpus, require_prime_rl
from text2sql.training.start import training_record


def require_ready(root: Path, run: str, config: Mapping[str, Any], trainer: TrainerConfig) -> None:
    """Refuse a training that prime-rl, its environment or GPUs are missing for on this machine.

    The filter comes before the training and may take hours; everything else is looked at when
    the training starts. Nothing is asked of a run that was trained before, and where training
    starts elsewhere, in a pod of the cluster. Raises Text2SqlError.
    """
    if isinstance(trainer, TrlConfig) or _elsewhere(config) or training_record(root, run):
        return
    directory = require_prime_rl()
    if not isinstance(trainer, PrimeRlSlurmConfig):  # its job installs the environment itself
        require_gpus(trainer)
        check_environment(directory)


def _elsewhere(config: Mapping[str, Any]) -> bool:
    """Say whether the training program, or the step that starts it, has a pod of its own."""
    resources = config.get("resources") or {}
    place = (resources.get("trainer") or {}).get("config") or {}
    return place.get("where") == "kubernetes" or os.environ.get(EXECUTOR_VARIABLE) == "kubernetes"
