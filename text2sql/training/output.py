"""What a GRPO run leaves on disk: complete checkpoints, and the policy, whole or not at all."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import text2sql
from text2sql.files import file_digest, whole_folder
from text2sql.json_files import write_json
from text2sql.policy.revision import TOKENIZER_FILES, directory_revision
from text2sql.training.config import GrpoRun

_COMPLETE = "COMPLETE"
_COPIED = (*TOKENIZER_FILES, "generation_config.json", "agent_config.json")


def start_afresh(run: GrpoRun) -> None:
    """Remove what an earlier run with the same output directory left."""
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    shutil.rmtree(run.policy, ignore_errors=True)
    run.metrics.unlink(missing_ok=True)


def mark_complete(run: GrpoRun, step: int) -> None:
    """Note that a checkpoint was written to its end."""
    (run.checkpoints / f"checkpoint-{step}" / _COMPLETE).touch()


def last_checkpoint(run: GrpoRun) -> str | None:
    """Return the newest complete checkpoint; remove those that a crash left half-written.

    What else lies beside them, such as a copy of one under another name, stays as it is.
    """
    complete: dict[int, Path] = {}
    for folder in run.checkpoints.glob("checkpoint-*"):
        step = folder.name.removeprefix("checkpoint-")
        if not step.isdecimal() or not folder.is_dir():
            continue
        if (folder / _COMPLETE).exists():
            complete[int(step)] = folder
        else:
            shutil.rmtree(folder)
    return str(complete[max(complete)]) if complete else None


def write_policy(run: GrpoRun, model: Any) -> None:
    """Write the trained policy as a Hugging Face directory, in one rename.

    Tokenizer, chat template, generation and agent settings are the base policy's own files;
    training.json says what the policy was trained from, on what, and how.
    """
    with whole_folder(run.policy) as partial:
        model.save_pretrained(partial)
        for pattern in _COPIED:
            for file in run.policy_dir.glob(pattern):
                shutil.copyfile(file, partial / file.name)
        write_json(partial / "training.json", _provenance(run))


def _provenance(run: GrpoRun) -> dict[str, Any]:
    packages = ("torch", "transformers", "trl")
    return {
        "base": run.policy_dir.name,
        "base_revision": directory_revision(run.policy_dir),
        "prompts_sha256": file_digest(run.prompts),
        "recipe": run.recipe(),
        "versions": {"text2sql": text2sql.__version__} | {name: version(name) for name in packages},
    }
