"""prime-rl as a Slurm job, with stand-ins for Slurm's programs that run it as a real process."""

import os
import signal
import subprocess
import sys
import time

import pytest

from resources.trainer import TrainingMonitor
from tests.support.prime_rl_place import REPO, SLURM, Place
from tests.support.waiting import wait_until
from text2sql.common.processes import GuardedProcess
from text2sql.errors import Text2SqlError
from text2sql.training.prime_rl import slurm
from text2sql.training.prime_rl.failures import failure

SMALL = {"backend": "prime_rl_slurm", "poll_seconds": 0.2, "failure_wait_seconds": 0}


@pytest.fixture
def place(tmp_path):
    """A place with stand-ins for prime-rl and for Slurm."""
    place = Place(tmp_path)
    place.install_slurm()
    controller = [sys.executable, str(SLURM), "slurmctld", str(tmp_path / "slurm")]
    with subprocess.Popen(controller) as slurmctld:
        yield place
        slurmctld.kill()


def guarded(place: Place, **changes) -> GuardedProcess:
    """Start a launcher as a Dagster step does."""
    environment = place.environment | {"PYTHONPATH": str(REPO)}
    command = place.command(**SMALL, **changes)
    return GuardedProcess(command, place.output / "train.log", environment, 30)


def test_a_job_is_submitted_followed_and_its_policy_assembled(place):
    full = place.folder / "slurm" / "full"
    full.touch()
    with guarded(place) as run:
        assert wait_until((place.output / "waiting").exists, 60)
        full.unlink()
        assert run.wait(120) == 0
    said = (place.output / "train.log").read_text()
    assert "Slurm job 101 is waiting for machines: Resources." in said
    assert "Slurm job 101 ended as COMPLETED (exit code 0:0)." in said
    assert sorted(place.steps()) == [1, 2, 3, 4, 5, 6]
    assert (place.output / "policy" / "config.json").exists()
    left = {"slurm_job", "waiting"} & {file.name for file in place.output.iterdir()}
    assert not left and place.is_clear()
    script = (place.run_dir / "rl.sbatch").read_text()
    assert "--clean" in script and "--dry-run" not in script


def test_a_time_limit_is_told_and_the_run_goes_on_with_a_longer_one(place):
    place.behave(step_seconds=0.3)
    place.install_slurm(end=[4, "TIMEOUT"])
    ended = place.launch(**SMALL, steps=40)
    assert ended.returncode == 16 and "set a higher time_limit" in ended.stderr
    place.behave()
    place.install_slurm(purge=True)
    done = place.launch(**SMALL, steps=40, time_limit="48:00:00")
    assert done.returncode == 0 and "prime-rl starts with --resume.step" in done.stdout
    assert "ended as COMPLETED" in done.stderr  # squeue had forgotten it, sacct had not
    assert place.is_clear()


def test_cancelled_the_job_is_gone_even_if_slurm_does_not_answer_at_first(place):
    place.behave(step_seconds=0.3)
    run = guarded(place, steps=100)
    assert wait_until(lambda: len(place.busy_ports()) == 3)
    deaf = place.folder / "slurm" / "deaf"
    deaf.touch()
    said = place.output / "train.log"
    assert wait_until(lambda: "Slurm does not answer" in said.read_text())
    run.process.terminate()
    assert wait_until(lambda: "cannot be cancelled" in said.read_text())
    deaf.unlink()
    run.stop()
    assert place.slurm_jobs()[0]["state"] == "CANCELLED by 1000" and place.is_clear()


def test_a_killed_launcher_takes_its_job_along_and_a_killed_watcher_leaves_it_to_the_next(place):
    place.behave(step_seconds=2.0)
    with guarded(place, steps=100):
        assert wait_until(lambda: len(place.busy_ports()) == 3)
        os.kill(one(place, "prime_rl.launch"), signal.SIGKILL)
        assert place.is_clear()
    with guarded(place, steps=100) as run:
        assert wait_until(lambda: len(place.busy_ports()) == 3)
        os.kill(one(place, "prime_rl.slurm"), signal.SIGKILL)
        assert run.wait(60) == 15  # killed
        assert place.busy_ports() and (place.output / "slurm_job").read_text() == "102\n"
    place.behave()
    done = place.launch(**SMALL, steps=40)
    assert "Slurm job 102 of an earlier attempt is cancelled first." in done.stderr
    assert done.returncode == 0 and place.is_clear()
    assert [job["state"].split()[0] for job in place.slurm_jobs()] == [
        *("CANCELLED", "CANCELLED", "COMPLETED")
    ]


def one(place: Place, module: str) -> int:
    """The process that runs a module."""
    for pid in place.processes():
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode().split("\0")
        if words[1:3] == ["-m", f"text2sql.training.{module}"]:
            return pid
    raise AssertionError(f"{module} does not run")


ENDS = [
    ("Slurm job 7 ended as DEADLINE (exit code 0:15).", 16),
    ("Slurm job 7 ended as NODE_FAIL (exit code 1:0).", 17),
    ("Slurm job 7 ended as PREEMPTED (exit code 0:15).", 17),
    ("Slurm job 7 ended as OUT_OF_MEMORY (exit code 0:125).", 15),
    ("error: sbatch rejects the job rl.sbatch: invalid partition specified: clutser.", 10),
    ("Slurm job 7 ended as FAILED (exit code 1:0).", 1),
]


@pytest.mark.parametrize(("text", "exit_code"), ENDS)
def test_each_end_has_its_exit_status(tmp_path, text, exit_code):
    log = tmp_path / "rl.log"
    log.write_text(f"{text}\n")
    error = failure(1, log, tmp_path)
    assert error.exit_code == exit_code and text.removesuffix(".") in str(error)


def test_the_output_of_a_job_shows_why_it_failed(tmp_path):
    (tmp_path / "rl.log").write_text("Slurm job 8 ended as FAILED (exit code 1:0).\n")
    (tmp_path / "job_8.log").write_text("RuntimeError: NCCL error: unhandled system error\n")
    assert failure(1, tmp_path / "rl.log", tmp_path).exit_code == 13


def test_states_of_a_job(place, monkeypatch):
    monkeypatch.setenv("PATH", place.environment["PATH"])
    script = place.folder / "rl.sbatch"
    script.write_text("exit 3\n")
    submit = slurm.SlurmJob(place.folder, 1.0).submit
    job = submit(script)
    assert wait_until(lambda: not slurm.job_state(job).alive)
    assert slurm.job_state(job) == slurm.JobState("FAILED", code="3:0")
    place.install_slurm(purge=True, no_accounting=True)
    assert slurm.job_state(job) == slurm.UNKNOWN
    (place.folder / "slurm" / "deaf").touch()
    assert slurm.job_state(job) is None
    place.install_slurm(refuse="Batch job submission failed: Invalid account")
    with pytest.raises(Text2SqlError, match=r"rejects the job .*Invalid account"):
        submit(script)


def test_without_slurm_the_missing_program_is_named(place, monkeypatch):
    (place.folder / "bin" / "sacct").unlink()
    monkeypatch.setenv("PATH", str(place.folder / "bin"))
    with pytest.raises(Text2SqlError, match="Slurm's sacct is not on PATH"):
        slurm.require_slurm()


def test_a_queue_and_a_word_in_the_log_are_no_stall(tmp_path):
    said: list[str] = []
    monitor = TrainingMonitor(tmp_path, 0.0, lambda metrics: None, said.append)
    monitor.poll()
    assert "made no progress for 0 s" in monitor.stalled()
    (tmp_path / "waiting").write_text("Slurm job 7 waits for machines: Resources.")
    patient = TrainingMonitor(tmp_path, 60.0, lambda metrics: None, said.append)
    assert not (tmp_path / "waiting").exists()  # an earlier attempt's
    (tmp_path / "waiting").write_text("Slurm job 7 waits for machines: Resources.")
    for _ in range(2):
        patient.poll()
    (tmp_path / "waiting").unlink()
    patient.stall_seconds = 0.0
    assert patient.stalled()
    patient.stall_seconds = 0.5
    time.sleep(0.6)
    (tmp_path / "train.log").write_text("GPUs: 0 NVIDIA H200.")
    assert patient.stalled().endswith("end with:\ntrain.log:\nGPUs: 0 NVIDIA H200.")
    patient.poll()
    assert said == ["Slurm job 7 waits for machines: Resources."] and not patient.stalled()


def test_the_job_script_is_asked_for_before_anything_is_submitted(place):
    place.behave(refuse="slurm.partition: Input should be a valid string")
    done = place.launch(**SMALL)
    assert "Input should be a valid string" in done.stderr
    assert done.returncode == 1 and not place.slurm_jobs()
