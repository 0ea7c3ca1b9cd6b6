"""prime-rl as a Slurm job: ``python -m text2sql.training.prime_rl.slurm_job OUTPUT_DIR POLL_SECONDS
RL_ARGUMENTS...``.

Takes the place of prime-rl's ``rl`` for the launcher: it has ``rl`` write the job's script,
submits it, runs as long as the job does, and ends the job when a signal asks for the end. The job's
id is kept in the file ``slurm_job`` until the job is gone, so that a later attempt can end what an
earlier one left. While the job waits for machines, the file ``waiting`` says why.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from text2sql.common.files import write_whole
from text2sql.errors import Text2SqlError
from text2sql.training.prime_rl import slurm
from text2sql.training.prime_rl.files import JOB_FILE, RUN_NAME
from text2sql.training.prime_rl.program import prime_rl_directory, rl_program
from text2sql.training.progress import WAITING_FILE
from text2sql.training.usage import misuse

SCRIPT = "rl.sbatch"
_SLICE_SECONDS = 0.2
_FORGOTTEN = 60.0
"""Slurm's accounting may learn later than the queue that a job has ended."""


class SlurmJob:
    """One job of a training run, from its submission to its end."""

    def __init__(self, output: Path, poll_seconds: float) -> None:
        self._record = output / JOB_FILE
        self._waiting = output / WAITING_FILE
        self._poll = poll_seconds
        self._said = ""
        self.stopped = False

    def stop(self, _number: int, _frame: object) -> None:
        """Note that a signal asked for the end."""
        self.stopped = True

    def end_earlier(self) -> None:
        """Cancel the job that an earlier attempt left, if Slurm still knows it."""
        job = self._record.read_text(encoding="utf-8").strip() if self._record.is_file() else ""
        if job:
            slurm.require_slurm()
            state = slurm.look(job)
            if state is None or state.alive:
                _say(f"Slurm job {job} of an earlier attempt is cancelled first.")
                self.end(job)
        self._record.unlink(missing_ok=True)

    def submit(self, script: Path) -> str:
        """Submit the script; return the job's id."""
        job = slurm.submit(script)
        write_whole(self._record, f"{job}\n")
        _say(f"Slurm job {job} was submitted: {script}.")
        return job

    def follow(self, job: str) -> slurm.JobState:
        """Wait for a job's end and return its last state; the state of now, once stopped."""
        known = time.monotonic()
        while True:
            state = slurm.look(job)
            self._tell(job, state)
            if state != slurm.GONE:
                known = time.monotonic()
            forgotten = state == slurm.GONE and time.monotonic() - known < _FORGOTTEN
            if state is not None and not state.alive and not forgotten:
                return state
            if self._pause():
                return state or slurm.GONE

    def end(self, job: str) -> None:
        """Cancel a job and wait until it is gone; repeated, since Slurm may be out of reach."""
        said = ""
        while (state := slurm.look(job)) is None or state.alive:
            complaint = slurm.cancel(job)
            if complaint and complaint != said:
                _say(f"Slurm job {job} cannot be cancelled: {complaint}")
            said = complaint
            time.sleep(min(self._poll, 2.0))
        _say(f"Slurm job {job} is gone ({state.name}).")

    def close(self) -> None:
        """Forget the job and that it waited."""
        self._record.unlink(missing_ok=True)
        self._waiting.unlink(missing_ok=True)

    def _tell(self, job: str, state: slurm.JobState | None) -> None:
        """Say what has changed about a job."""
        if state is None:
            sentence = f"Slurm does not answer; job {job} is asked for again."
        elif state.waits:
            sentence = f"Slurm job {job} waits for machines: {state.reason or state.name}."
            write_whole(self._waiting, sentence)
        else:
            sentence = f"Slurm job {job}: {state.name.lower()}." if state.alive else ""
            self._waiting.unlink(missing_ok=True)
        if sentence and sentence != self._said:
            self._said = sentence
            _say(sentence)

    def _pause(self) -> bool:
        """Sleep until it is time to ask again; say whether the end was asked for."""
        deadline = time.monotonic() + self._poll
        while not self.stopped and time.monotonic() < deadline:
            time.sleep(_SLICE_SECONDS)
        return self.stopped


def run(output: Path, poll_seconds: float, arguments: list[str]) -> int:
    """Do what the module says; return the exit status, 0 where the job completed."""
    directory = prime_rl_directory()
    if directory is None:
        raise Text2SqlError("PRIME_RL_DIR is not set: let it name prime-rl's checkout.")
    job_of = SlurmJob(output, poll_seconds)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, job_of.stop)
    command = [str(rl_program(directory)), *arguments, "--dry-run"]
    written = subprocess.run(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, check=False
    )
    if job_of.stopped or written.returncode != 0:
        return written.returncode or 1
    job = job_of.submit(output / RUN_NAME / SCRIPT)
    state = job_of.follow(job)
    if state.alive or job_of.stopped:
        job_of.end(job)
        job_of.close()
        return 1
    job_of.close()
    return _result(job, state)


def _result(job: str, state: slurm.JobState) -> int:
    if state == slurm.GONE:
        _say(f"Slurm has forgotten job {job}: what it left tells whether it came to its end.")
        return 0
    _say(f"Slurm job {job} ended as {state.name} (exit code {state.code or 'unknown'}).")
    return 0 if state.name == slurm.COMPLETED else 1


def _say(sentence: str) -> None:
    """Say it in prime-rl's log and in the launcher's."""
    print(sentence, flush=True)
    print(sentence, file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Run the program; what Slurm refuses is one sentence."""
    named = ("OUTPUT_DIR", "POLL_SECONDS", "[ARGUMENT...]")
    if (status := misuse(arguments, "text2sql.training.prime_rl.slurm_job", *named)) is not None:
        return status
    output, poll_seconds, *rest = arguments
    try:
        return run(Path(output), float(poll_seconds), rest)
    except (Text2SqlError, OSError) as error:
        _say(f"error: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
