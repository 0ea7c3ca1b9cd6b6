"""Which checkpoint a GRPO run goes on from: the newest that is as it was written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from text2sql.common.files import file_digest
from text2sql.common.json_files import read_object, write_json
from text2sql.errors import Text2SqlError
from text2sql.training.trl.config import GrpoRun

_COMPLETE = "COMPLETE"
_DAMAGED = "damaged-"


def mark_complete(run: GrpoRun, step: int) -> None:
    """Note that a checkpoint was written to its end, with the SHA-256 of each of its files."""
    folder = run.checkpoints / f"checkpoint-{step}"
    write_json(folder / _COMPLETE, _digests(folder), durable=True)


def last_checkpoint(run: GrpoRun, say: Callable[[str], None]) -> str | None:
    """Return the newest complete checkpoint that is as it was written, None where there is none.

    Those that a crash left half-written are removed. One that was damaged since is put aside
    under another name, and ``say`` gets a sentence. What else lies beside them, such as a copy of
    one under another name, stays as it is.
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
        if not (changed := _changed(folder)):
            return str(folder)
        aside = _put_aside(folder)
        say(f"{folder} is damaged ({changed}): it is left out, and kept as {aside.name}.")
    if complete:
        say("No checkpoint is left: training begins again with the base policy.")
    return None


def _digests(folder: Path) -> dict[str, str]:
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return {str(file.relative_to(folder)): file_digest(file) for file in files}


def _changed(folder: Path) -> str:
    """Name the files of a checkpoint that are not as they were written; empty for none."""
    try:
        written = read_object(folder / _COMPLETE)
        found = _digests(folder)
    except (Text2SqlError, OSError) as error:
        return str(error).removesuffix(".")
    wrong = [name for name, digest in written.items() if found.get(name) != digest]
    return ", ".join(wrong) or ("" if written else f"{_COMPLETE} names no files")


def _put_aside(folder: Path) -> Path:
    aside = folder.with_name(_DAMAGED + folder.name)
    shutil.rmtree(aside, ignore_errors=True)
    return folder.rename(aside)
