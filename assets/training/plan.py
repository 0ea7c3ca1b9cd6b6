"""What a training run depends on, and whether what is there already is it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assets.common.sources import training_version
from assets.training.prompt_files import ABOUT, GOLDS, PROMPTS, prompts_folder
from assets.training.trainers import KEPT, TrainerConfig, TrlConfig, chosen, lasting
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from text2sql.agent.prompts import prompt_revision
from text2sql.common.files import write_whole
from text2sql.common.provenance import code_state, file_version, fingerprint, read_record
from text2sql.errors import Text2SqlError
from text2sql.training.start import Start

PLAN = "plan.json"
"""What a run is to be, below its folder: it is there before the run has ended."""
Record = dict[str, Any]


def plan_training(
    trainer: TrainerConfig, start: Start, policy: PolicyResource, root: ArtifactRoot
) -> Record:
    """Return what a training run depends on, and the versions that this makes.

    What may change while a run goes on is part of ``config_version`` and not of ``version``,
    which names the run's folder.
    """
    files, about = _prompt_files(root)
    settings = chosen(trainer)
    base = policy.revision()
    parts: Record = {
        "base": policy.base,
        "base_revision": base,
        "start_revision": policy.revision(start.policy) if start.policy else base,
        "prompts_version": file_version(*files),
        "code_version": training_version(trainer.backend),
        "prompt_revision": prompt_revision(policy.settings(start.policy)),
        "settings": lasting(trainer),
    }
    start.require_revision(parts["start_revision"])
    return parts | {
        "version": fingerprint(**parts),
        "backend": trainer.backend,
        "settings": settings,
        "changed_settings": changed(trainer),
        "config_version": fingerprint(**parts | {"settings": settings}),
        "start": {
            "from": start.name,
            "policy": start.policy or policy.base,
            "training_run": start.training_run,
        },
        "prompts": about.get("kept") or _lines(files[0]),
        "prompts_about": about,
        "code": code_state(),
    }


def _prompt_files(root: ArtifactRoot) -> tuple[tuple[Path, Path], Record]:
    """Return the files of the prompts, and what is recorded of them."""
    folder = prompts_folder(root)
    files = (folder / PROMPTS, folder / GOLDS)
    for file in files:
        if not file.is_file():
            raise Text2SqlError(f"There is no {file}: materialize training_prompts first.")
    return files, read_record(folder / ABOUT)


def keep_prompts(root: ArtifactRoot, folder: Path, planned: Record) -> None:
    """Copy the prompts that a run learns from beside it: the next filter replaces them.

    Raises Text2SqlError where they were replaced since the run was planned.
    """
    files, _ = _prompt_files(root)
    for file in (*files, prompts_folder(root) / ABOUT):
        if file.is_file():
            write_whole(folder / KEPT / file.name, file.read_bytes())
    if file_version(*(folder / KEPT / file.name for file in files)) != planned["prompts_version"]:
        raise Text2SqlError(
            "The training prompts were replaced while the run began: start it again."
        )


def _lines(file: Path) -> int:
    with file.open(encoding="utf-8") as lines:
        return sum(1 for _ in lines)


def changed(trainer: TrainerConfig) -> Record:
    """Return the settings that are not the defaults."""
    defaults = {name: field.default for name, field in type(trainer).model_fields.items()}
    return {name: value for name, value in chosen(trainer).items() if value != defaults[name]}


def is_reusable(
    record: Record, planned: Record, trainer: TrainerConfig, policy: PolicyResource
) -> bool:
    """Say whether a policy was trained as planned before and its weights are still there.

    Raises Text2SqlError where there are other weights than those that were trained.
    """
    fresh = not isinstance(trainer, TrlConfig) and trainer.fresh
    if fresh or record.get("config_version") != planned["config_version"]:
        return False
    place = Path(record["policy"])
    if not place.is_dir():
        return False
    found = policy.revision(place)
    if found != record["policy_revision"]:
        raise Text2SqlError(
            f"The weights in {place} are not those that were trained ({found} instead of "
            f"{record['policy_revision']}): move the folder away and materialize grpo_policy again."
        )
    return True
