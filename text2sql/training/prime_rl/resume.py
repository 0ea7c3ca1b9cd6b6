"""Where a run with prime-rl goes on: its highest complete checkpoint and newest weights."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError

_STEP = re.compile(r"step_(\d+)")
_BEGINNING = 64  # bytes; those of a pickle or a zip file, which all of these are, are not zero


def steps_in(folder: Path) -> dict[int, Path]:
    """Return the ``step_N`` folders of a folder by their step."""
    found = {_STEP.fullmatch(path.name): path for path in folder.glob("step_*") if path.is_dir()}
    return {int(match[1]): path for match, path in found.items() if match}


def complete_checkpoint(run_dir: Path) -> int | None:
    """Return the highest step whose checkpoint has both halves; None where there is none.

    The trainer writes ``.metadata`` after all its shards, the orchestrator renames its
    ``progress.pt`` into place: either alone, or one that is empty, is a checkpoint that a crash
    cut short.
    """
    folders = steps_in(run_dir / "checkpoints").items()
    return max((step for step, folder in folders if _is_complete(folder)), default=None)


def torn_checkpoints(run_dir: Path, before: int | None) -> list[Path]:
    """Return the checkpoints above a step that are not complete, or all where it is None."""
    steps = sorted(steps_in(run_dir / "checkpoints").items())
    return [folder for step, folder in steps if before is None or step > before]


def _is_complete(folder: Path) -> bool:
    """Say whether both halves are there, and no file of them empty or zeroed as by a lost disk."""
    ends = (folder / "trainer" / ".metadata", folder / "orchestrator" / "progress.pt")
    return all(_written(file) for file in (*ends, *(folder / "trainer").glob("*.distcp")))


def _written(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return any(stream.read(_BEGINNING))


def stable_weights(run_dir: Path) -> int | None:
    """Return the highest step whose weights were written to their end; None where there is none."""
    broadcasts = steps_in(run_dir / "broadcasts")
    stable = [step for step, folder in broadcasts.items() if (folder / "STABLE").is_file()]
    return max(stable, default=None)


def start_arguments(run_dir: Path, steps: int, fresh: bool) -> list[str] | None:
    """Return prime-rl's arguments for a start, None where the run has already reached its end.

    A run with a complete checkpoint goes on from it; one without starts anew, which loses
    nothing that could be continued. ``fresh`` discards what there is. Raises Text2SqlError where
    the checkpoint is beyond the last step.
    """
    if fresh:
        return ["--clean"]
    weights = stable_weights(run_dir)
    if weights == steps:
        return None
    step = complete_checkpoint(run_dir)
    if step is not None and step >= steps:
        asked = counted(steps, "step is", "steps are")
        raise Text2SqlError(
            f"{run_dir} was trained to step {step} and {asked} asked for: ask for more, or "
            "start afresh."
        )
    return ["--clean"] if step is None else ["--resume.step", str(step)]


def prune_broadcasts(run_dir: Path, kept: int) -> list[Path]:
    """Remove all weights for serving but those of the step ``kept``; return what was removed.

    A checkpoint needs the weights of its own step to resume: those of complete ones stay.
    """
    needed = {kept, *steps_in(run_dir / "checkpoints")}
    removed = []
    for step, folder in sorted(steps_in(run_dir / "broadcasts").items()):
        if step not in needed:
            shutil.rmtree(folder)
            removed.append(folder)
    return removed
