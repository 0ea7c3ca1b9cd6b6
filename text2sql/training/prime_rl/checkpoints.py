"""Where a run with prime-rl resumes: its highest complete checkpoint and its newest weights."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError

_STEP = re.compile(r"step_(\d+)")


def steps_in(folder: Path) -> dict[int, Path]:
    """Return the ``step_N`` folders of a folder by their step."""
    found = {_STEP.fullmatch(path.name): path for path in folder.glob("step_*") if path.is_dir()}
    return {int(match[1]): path for match, path in found.items() if match}


def complete_checkpoint(run_dir: Path) -> int | None:
    """Return the highest step whose checkpoint has both halves, None if there is none.

    The trainer writes ``.metadata`` after all its shards, the orchestrator renames its
    ``progress.pt`` into place. If one is missing or empty, a crash cut the checkpoint short.
    """
    folders = steps_in(run_dir / "checkpoints").items()
    return max((step for step, folder in folders if _is_complete(folder)), default=None)


def incomplete_checkpoints(run_dir: Path) -> list[Path]:
    """Return the checkpoints above the highest complete one; all if there is none."""
    complete = complete_checkpoint(run_dir)
    steps = sorted(steps_in(run_dir / "checkpoints").items())
    return [folder for step, folder in steps if complete is None or step > complete]


def _is_complete(folder: Path) -> bool:
    """Say whether both halves exist and none of their files is empty or zeroed."""
    ends = (folder / "trainer" / ".metadata", folder / "orchestrator" / "progress.pt")
    for file in (*ends, *(folder / "trainer").glob("*.distcp")):
        if not file.is_file():
            return False
        with file.open("rb") as stream:
            # A lost disk leaves files of zeros; a pickle or a zip file never begins with them.
            if not any(stream.read(64)):
                return False
    return True


def stable_weights(run_dir: Path) -> int | None:
    """Return the highest step whose weights are complete, None if there is none."""
    broadcasts = steps_in(run_dir / "broadcasts")
    stable = [step for step, folder in broadcasts.items() if (folder / "STABLE").is_file()]
    return max(stable, default=None)


def start_arguments(run_dir: Path, steps: int, fresh: bool) -> list[str] | None:
    """Return prime-rl's arguments for a start, None if the run is already complete.

    A run resumes from its complete checkpoint; without one it starts over, which loses nothing
    that could be resumed. ``fresh`` discards everything. Raises Text2SqlError if the checkpoint is
    beyond the last step.
    """
    if fresh:
        return ["--clean"]
    if stable_weights(run_dir) == steps:
        return None
    step = complete_checkpoint(run_dir)
    if step is not None and step >= steps:
        asked = counted(steps, "step is", "steps are")
        raise Text2SqlError(
            f"{run_dir} is already trained to step {step}, but {asked} asked for: set more steps, "
            "or start afresh."
        )
    return ["--clean"] if step is None else ["--resume.step", str(step)]


def prune_broadcasts(run_dir: Path, kept: int) -> list[Path]:
    """Remove the weights for serving except those of step ``kept``; return the removed folders.

    A checkpoint needs the weights of its own step to resume, so those stay as well.
    """
    needed = {kept, *steps_in(run_dir / "checkpoints")}
    removed = []
    for step, folder in sorted(steps_in(run_dir / "broadcasts").items()):
        if step not in needed:
            shutil.rmtree(folder)
            removed.append(folder)
    return removed
