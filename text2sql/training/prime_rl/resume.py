"""Where a run with prime-rl goes on: its highest complete checkpoint and newest weights."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from text2sql.counting import counted
from text2sql.errors import Text2SqlError

_STEP = re.compile(r"step_(\d+)")


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
    complete = [
        step
        for step, folder in steps_in(run_dir / "checkpoints").items()
        if _written(folder / "trainer" / ".metadata")
        and _written(folder / "orchestrator" / "progress.pt")
    ]
    return max(complete, default=None)


def _written(file: Path) -> bool:
    return file.is_file() and file.stat().st_size > 0


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
