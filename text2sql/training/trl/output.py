"""What a GRPO run leaves on disk: its checkpoints, and its policy at the end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import text2sql
from text2sql.common.files import file_digest, whole_folder
from text2sql.common.json_files import read_object, write_json
from text2sql.errors import Text2SqlError
from text2sql.policy.weights import TOKENIZER_FILES, directory_revision
from text2sql.training.trl.settings import GrpoRun

_COMPLETE = "COMPLETE"
_COPIED = (*TOKENIZER_FILES, "generation_config.json", "agent_config.json")


def mark_complete(run: GrpoRun, step: int) -> None:
    """Mark a checkpoint as complete, with the SHA-256 of each of its files."""
    folder = run.checkpoints / f"checkpoint-{step}"
    write_json(folder / _COMPLETE, _digests(folder), durable=True)


def last_checkpoint(run: GrpoRun, say: Callable[[str], None]) -> str | None:
    """Return the newest complete checkpoint that is unchanged since, None if there is none.

    Removes incomplete checkpoints, which a crash left. Renames a damaged one, and ``say`` gets a
    sentence about it. Other folders beside them, such as a copy of a checkpoint, stay.
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
    for _, folder in sorted(complete.items(), reverse=True):
        if not (damage := _damage(folder)):
            return str(folder)
        aside = folder.with_name(f"damaged-{folder.name}")
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
        say(f"{folder} is damaged ({damage}): it is skipped and kept as {aside.name}.")
    if complete:
        say("No checkpoint is left: training starts over from the base policy.")
    return None


def _digests(folder: Path) -> dict[str, str]:
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return {str(file.relative_to(folder)): file_digest(file) for file in files}


def _damage(folder: Path) -> str:
    """Name the files of a checkpoint that have changed; empty for none."""
    try:
        written = read_object(folder / _COMPLETE)
        found = _digests(folder)
    except (Text2SqlError, OSError) as error:
        return str(error).removesuffix(".")
    changed = [name for name, digest in written.items() if found.get(name) != digest]
    return ", ".join(changed) or ("" if written else f"{_COMPLETE} names no files")


def write_policy(run: GrpoRun, model: Any) -> None:
    """Write the trained policy as a Hugging Face directory, in one rename.

    Tokenizer, chat template, generation and agent settings are copies of the base policy's files;
    training.json records what the policy was trained from, on what, and how.
    """
    packages = ("torch", "transformers", "trl")
    record = {
        "base": run.policy_dir.name,
        "base_revision": directory_revision(run.policy_dir),
        "prompts_sha256": file_digest(run.prompts),
        "recipe": run.recipe(),
        "versions": {"text2sql": text2sql.__version__} | {name: version(name) for name in packages},
    }
    with whole_folder(run.policy) as partial:
        model.save_pretrained(partial)
        for pattern in _COPIED:
            for file in run.policy_dir.glob(pattern):
                shutil.copyfile(file, partial / file.name)
        write_json(partial / "training.json", record)
