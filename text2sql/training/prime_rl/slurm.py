"""Slurm, asked by its own programs: a job is submitted, looked at, and cancelled.

What they print is described in the manual pages of sbatch, squeue, sacct and scancel
(https://slurm.schedmd.com/man_index.html).
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from text2sql.errors import Text2SqlError

PROGRAMS = ("sbatch", "squeue", "sacct", "scancel")
COMPLETED = "COMPLETED"
_ALIVE = frozenset(
    (
        *("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING"),
        *("RESIZING", "STAGE_OUT", "POWER_UP_NODE", "SPECIAL_EXIT"),
        *("REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD"),
    )
)
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD")
_SECONDS = 60.0


@dataclass(frozen=True)
class JobState:
    """A job's state as Slurm names it; ``reason`` says why it waits, ``code`` how it ended."""

    name: str
    reason: str = ""
    code: str = ""

    @property
    def alive(self) -> bool:
        """Whether the job may still hold machines, or get some."""
        return self.name in _ALIVE

    @property
    def waits(self) -> bool:
        """Whether the job has no machines yet."""
        return self.name in _WAITING


GONE = JobState("UNKNOWN")
"""The state of a job that Slurm has forgotten."""


def require_slurm() -> str:
    """Say where Slurm is; raises Text2SqlError where one of its programs is missing."""
    for name in PROGRAMS:
        if shutil.which(name) is None:
            raise Text2SqlError(
                f"Slurm's {name} is not on PATH: start the run on a machine from which jobs are "
                "submitted, or choose a preset for one machine."
            )
    return f"Slurm's programs are in {Path(shutil.which('sbatch') or '').parent}."


def submit(script: Path) -> str:
    """Submit a job script and return the job's id; it is never started a second time by Slurm.

    Raises Text2SqlError with sbatch's words where it refuses.
    """
    status, output, errors = _ask("sbatch", "--parsable", "--no-requeue", str(script))
    job = output.strip().partition(";")[0]
    if status != 0 or not job:
        raise Text2SqlError(f"sbatch refuses the job {script}: {errors or output or status}.")
    return job


def look(job: str) -> JobState | None:
    """Return a job's state; None where Slurm does not answer now."""
    status, output, errors = _ask(
        *("squeue", "--noheader", "--states=all", "--format=%T|%r", f"--jobs={job}")
    )
    if status != 0 and "Invalid job id" not in errors:
        return None
    if status == 0 and (line := output.strip().partition("\n")[0]):
        name, _, reason = line.partition("|")
        if name in _ALIVE:
            return JobState(name, reason)
        return _ended(job, name)
    return _ended(job, GONE.name)


def _ended(job: str, name: str) -> JobState:
    """Ask the accounting how a job ended; ``name`` holds where it does not know."""
    status, output, _ = _ask(
        *("sacct", "--noheader", "--parsable2", "--allocations"),
        *("--format=State,ExitCode", f"--jobs={job}"),
    )
    line = output.strip().partition("\n")[0] if status == 0 else ""
    state, _, code = line.partition("|")
    known = state.split()[0] if state.split() else ""  # "CANCELLED by 1000" is CANCELLED
    if not known or (known in _ALIVE and name != GONE.name):
        return JobState(name)
    return JobState(known, code=code)


def cancel(job: str) -> str:
    """Ask Slurm to end a job; return its complaint, empty where it has none."""
    status, output, errors = _ask("scancel", job)
    return "" if status == 0 else errors or output or f"scancel ended with status {status}"


def _ask(*command: str) -> tuple[int, str, str]:
    """Run one of Slurm's programs; return its status and what it printed."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, "", str(error)
    return done.returncode, done.stdout, done.stderr.strip()
