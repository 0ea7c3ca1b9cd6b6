"""prime-rl as a Slurm job: ``python -m text2sql.training.prime_rl.slurm OUTPUT_DIR POLL_SECONDS
RL_ARGUMENTS...``.

Replaces prime-rl's ``rl`` for the launcher: it has ``rl`` write the job's script, submits it, runs
as long as the job does, and cancels the job on a signal. The file ``slurm_job`` keeps the job's id
until the job is gone, so that a later attempt can cancel what an earlier one left. While the job
waits for machines, the file ``waiting`` says why.

The output of Slurm's programs is described in the manual pages of sbatch, squeue, sacct and scancel
(https://slurm.schedmd.com/man_index.html).
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from text2sql.common.files import write_whole
from text2sql.errors import Text2SqlError
from text2sql.training.child import check_usage
from text2sql.training.metrics import WAITING_FILE
from text2sql.training.prime_rl.checkout import require_prime_rl, rl_program
from text2sql.training.prime_rl.settings import LaunchPlan

SCRIPT = "rl.sbatch"
JOB_FILE = "slurm_job"
"""Holds the id of the Slurm job that trains."""

_ALIVE = (
    *("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING"),
    *("RESIZING", "STAGE_OUT", "POWER_UP_NODE", "SPECIAL_EXIT"),
    *("REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD"),
)
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD")
_UNKNOWN_SECONDS = 60.0
"""Slurm's accounting may learn that a job has ended later than the queue does."""


@dataclass(frozen=True)
class JobState:
    """A job's state under Slurm's name; ``reason`` says why it waits, ``code`` how it ended."""

    name: str
    reason: str = ""
    code: str = ""

    @property
    def alive(self) -> bool:
        """Whether the job may still have machines, or get some."""
        return self.name in _ALIVE


UNKNOWN = JobState("UNKNOWN")
"""The state of a job that Slurm no longer knows."""


def require_slurm() -> str:
    """Return where Slurm is installed; raises Text2SqlError if one of its programs is missing."""
    for name in ("sbatch", "squeue", "sacct", "scancel"):
        if shutil.which(name) is None:
            raise Text2SqlError(
                f"Slurm's {name} is not on PATH: start the run on a machine that can submit jobs, "
                "or choose a backend for one machine."
            )
    return f"Slurm's programs are in {Path(shutil.which('sbatch') or '').parent}."


def job_state(job: str) -> JobState | None:
    """Return a job's state, None if Slurm does not answer now."""
    status, output, errors = _run(
        *("squeue", "--noheader", "--states=all", "--format=%T|%r", f"--jobs={job}")
    )
    if status != 0 and "Invalid job id" not in errors:
        return None
    queued = UNKNOWN.name
    if status == 0 and (line := output.strip().partition("\n")[0]):
        queued, _, reason = line.partition("|")
        if queued in _ALIVE:
            return JobState(queued, reason)
    status, output, _ = _run(
        *("sacct", "--noheader", "--parsable2", "--allocations"),
        *("--format=State,ExitCode", f"--jobs={job}"),
    )
    line = output.strip().partition("\n")[0] if status == 0 else ""
    state, _, code = line.partition("|")
    accounted = state.split()[0] if state.split() else ""  # "CANCELLED by 1000" is CANCELLED
    if not accounted or (accounted in _ALIVE and queued != UNKNOWN.name):
        return JobState(queued)
    return JobState(accounted, code=code)


def _run(*command: str) -> tuple[int, str, str]:
    """Run one of Slurm's programs; return its status and what it printed."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60.0,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, "", str(error)
    return done.returncode, done.stdout, done.stderr.strip()


class SlurmJob:
    """The job of a training run, from its submission to its end."""

    def __init__(self, output: Path, poll_seconds: float) -> None:
        self._record = output / JOB_FILE
        self._waiting = output / WAITING_FILE
        self._poll = poll_seconds
        self._said = ""
        self.stopped = False

    def stop(self, *_: object) -> None:
        """Remember that a signal asked to stop."""
        self.stopped = True

    def cancel_earlier(self) -> None:
        """Cancel the job that an earlier attempt left, if Slurm still knows it."""
        job = self._record.read_text(encoding="utf-8").strip() if self._record.is_file() else ""
        if job:
            require_slurm()
            state = job_state(job)
            if state is None or state.alive:
                _say(f"Slurm job {job} of an earlier attempt is cancelled first.")
                self.cancel(job)
        self._record.unlink(missing_ok=True)

    def submit(self, script: Path) -> str:
        """Submit the script; return the job's id. Slurm never requeues it.

        Raises Text2SqlError with sbatch's words if it rejects the job.
        """
        status, output, errors = _run("sbatch", "--parsable", "--no-requeue", str(script))
        job = output.strip().partition(";")[0]
        if status != 0 or not job:
            raise Text2SqlError(f"sbatch rejects the job {script}: {errors or output or status}.")
        write_whole(self._record, f"{job}\n")
        _say(f"Slurm job {job} was submitted: {script}.")
        return job

    def follow(self, job: str) -> JobState:
        """Wait for a job's end and return its last state; once stopped, its present state."""
        last_known = time.monotonic()
        while True:
            state = job_state(job)
            self._report(job, state)
            if state != UNKNOWN:
                last_known = time.monotonic()
            unaccounted = state == UNKNOWN and time.monotonic() - last_known < _UNKNOWN_SECONDS
            if state is not None and not state.alive and not unaccounted:
                return state
            deadline = time.monotonic() + self._poll
            while not self.stopped and time.monotonic() < deadline:
                time.sleep(0.2)
            if self.stopped:
                return state or UNKNOWN

    def cancel(self, job: str) -> None:
        """Cancel a job and wait until it is gone; retried, since Slurm may be unreachable."""
        said = ""
        while (state := job_state(job)) is None or state.alive:
            status, output, errors = _run("scancel", job)
            complaint = errors or output or f"scancel ended with status {status}"
            if status != 0 and complaint != said:
                _say(f"Slurm job {job} cannot be cancelled: {complaint}")
                said = complaint
            time.sleep(min(self._poll, 2.0))
        _say(f"Slurm job {job} is gone ({state.name}).")

    def _report(self, job: str, state: JobState | None) -> None:
        """Say what has changed about a job."""
        if state is None:
            sentence = f"Slurm does not answer; job {job} will be checked again."
        elif state.name in _WAITING:
            sentence = f"Slurm job {job} is waiting for machines: {state.reason or state.name}."
            write_whole(self._waiting, sentence)
        else:
            sentence = f"Slurm job {job}: {state.name.lower()}." if state.alive else ""
            self._waiting.unlink(missing_ok=True)
        if sentence and sentence != self._said:
            self._said = sentence
            _say(sentence)


def run(output: Path, poll_seconds: float, arguments: list[str]) -> int:
    """Submit and follow the job; return the exit status, 0 if it completed."""
    directory = require_prime_rl()
    slurm_job = SlurmJob(output, poll_seconds)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, slurm_job.stop)
    command = [str(rl_program(directory)), *arguments, "--dry-run"]
    written = subprocess.run(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, check=False
    )
    if slurm_job.stopped or written.returncode != 0:
        return written.returncode or 1
    job = slurm_job.submit(output / LaunchPlan.model_fields["name"].default / SCRIPT)
    state = slurm_job.follow(job)
    if state.alive or slurm_job.stopped:
        slurm_job.cancel(job)
    # Only now that the job is gone: a later attempt cancels a job that still has its file.
    for name in (JOB_FILE, WAITING_FILE):
        (output / name).unlink(missing_ok=True)
    if state.alive or slurm_job.stopped:
        return 1
    if state == UNKNOWN:
        _say(f"Slurm no longer knows job {job}: its files show whether it completed.")
        return 0
    _say(f"Slurm job {job} ended as {state.name} (exit code {state.code or 'unknown'}).")
    return 0 if state.name == "COMPLETED" else 1


def _say(sentence: str) -> None:
    """Print to prime-rl's log and to the launcher's."""
    print(sentence, flush=True)
    print(sentence, file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Run the program; a rejection by Slurm is one sentence."""
    names = ("OUTPUT_DIR", "POLL_SECONDS", "[ARGUMENT...]")
    if (status := check_usage(arguments, "text2sql.training.prime_rl.slurm", *names)) is not None:
        return status
    output, poll_seconds, *rest = arguments
    try:
        return run(Path(output), float(poll_seconds), rest)
    except (Text2SqlError, OSError) as error:
        _say(f"error: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
