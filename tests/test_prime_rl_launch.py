"""The launcher of prime-rl, with stand-ins for its programs: real processes, signals and files."""

import os
import random
import signal
import subprocess
import time

import pytest
from prime_rl_place import FULL, REPO, Place

from text2sql.policy.loading import load_model
from text2sql.policy.open import policy_directory
from text2sql.policy.revision import directory_revision
from text2sql.processes import GuardedProcess


@pytest.fixture
def place(tmp_path):
    """A place with stand-ins."""
    return Place(tmp_path)


def guarded(place: Place, grace: float, **changes) -> GuardedProcess:
    """Start a launcher as a Dagster step does."""
    os.makedirs(place.output, exist_ok=True)
    environment = place.environment | {"PYTHONPATH": str(REPO)}
    return GuardedProcess(place.command(**changes), place.output / "train.log", environment, grace)


def wait_until(condition, seconds: float = 30.0) -> bool:
    """Wait for a condition; return whether it came true."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(condition())


def nothing_left(place: Place) -> bool:
    """Say whether no process and no port of a run is left, within 20 s."""
    return wait_until(lambda: not place.processes() and not place.busy_ports(), 20)


def test_a_run_ends_with_a_policy_that_can_be_loaded(place):
    done = place.launch(**FULL)
    assert done.returncode == 0, done.stdout + done.stderr
    policy, base = place.output / "policy", policy_directory("pocket")
    assert len(list(policy.glob("*.safetensors"))) == 2
    trained, _ = load_model(policy, 1)
    original, _ = load_model(base, 1)
    for name, weights in original.state_dict().items():
        assert trained.state_dict()[name].equal(weights)
    assert f'"revision": "{directory_revision(policy)}"' in (policy / "training.json").read_text()
    assert nothing_left(place)


def test_both_metrics_files_become_one(place):
    place.behave(step_seconds=0.05, kl=0.02)
    done = place.launch()
    steps = place.steps()
    assert sorted(steps) == [1, 2, 3, 4, 5, 6]
    expected = {"reward": 0.32, "exact_match": 0.16, "loss": 1 / 6, "entropy": 0.5, "kl": 0.02,
                "off_policy_lag": 1.0, "tokens_per_second": 1000.0, "seconds": 0.05}  # fmt: skip
    assert {name: pytest.approx(steps[6][name]) for name in expected} == expected
    assert "ALARM: the KL mismatch is 0.0200, above 0.015" in done.stdout


def test_an_adapter_comes_with_the_flags_to_serve_it(place):
    assert place.launch().returncode == 0
    text = (place.output / "policy" / "training.json").read_text()
    assert "--enable-lora" in text and f"text2sql={place.output / 'policy'}" in text
    assert (place.output / "policy" / "adapter_config.json").exists()


CRASHES = [
    ("torchrun", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", 1, 11, "memory"),
    ("orchestrator", "ModuleNotFoundError: No module named 'text2sql_env'", 1, 12, "imported"),
    ("torchrun", "torch.distributed.DistBackendError: NCCL error in: Socket", 1, 13, "NCCL"),
    ("orchestrator", "2 validation errors for OrchestratorConfig", 1, 10, "refused"),
    ("orchestrator", "", -9, 15, "killed"),
    ("torchrun", "RuntimeError: something else", 1, 1, "ended with status 1"),
]


@pytest.mark.parametrize(("program", "text", "status", "exit_code", "said"), CRASHES)
def test_failures_are_told_apart(place, program, text, status, exit_code, said):
    place.behave(crash={program: [2, text, status]})
    done = place.launch()
    assert (done.returncode, said in done.stderr) == (exit_code, True), done.stderr
    assert nothing_left(place)


def test_a_full_disk_is_named(place):
    place.behave(full_disk_at=2)
    done = place.launch()
    assert done.returncode == 14 and "No space left on device" in done.stderr
    assert nothing_left(place)


def test_cancelled_at_random_moments_nothing_is_left(place):
    moments = random.Random(6)
    for _ in range(int(os.environ.get("TEXT2SQL_MOMENTS", "3"))):
        place.behave(step_seconds=0.3)
        run = guarded(place, grace=20, steps=100)
        time.sleep(moments.uniform(0, 6))
        begun = time.monotonic()
        run.stop()
        assert time.monotonic() - begun < 20
        assert nothing_left(place)


def test_programs_that_ignore_the_signal_are_killed_after_the_grace(place):
    place.behave(stubborn=True, hang_at=1)
    run = guarded(place, grace=3, steps=100)
    assert wait_until(lambda: len(place.busy_ports()) == 3)
    run.stop()
    assert nothing_left(place)


@pytest.mark.parametrize("victim", ["guard", "launcher", "rl"])
def test_killing_any_of_them_ends_all(place, victim):
    place.behave(step_seconds=0.3)
    with guarded(place, grace=10, steps=100) as run:
        assert wait_until(lambda: len(place.busy_ports()) == 3)
        launcher = next(pid for pid in place.processes() if parent(pid) == run.pid)
        rl = next(pid for pid in place.processes() if parent(pid) == launcher)
        os.kill({"guard": run.pid, "launcher": launcher, "rl": rl}[victim], signal.SIGKILL)
        assert nothing_left(place)


def parent(pid: int) -> int:
    """The parent of a process."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def test_stopped_by_hand_it_says_how_to_go_on(place):
    place.behave(step_seconds=0.3)
    run = subprocess.Popen(
        place.command(steps=100), cwd=REPO, env=place.environment, stdout=subprocess.PIPE, text=True
    )
    assert wait_until(lambda: len(place.busy_ports()) == 3)
    run.terminate()
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 143 and "Stopped by SIGTERM: checkpoints are kept" in output
    assert nothing_left(place)


def test_a_crashed_run_goes_on_with_other_steps_and_learning_rate(place):
    place.behave(crash={"torchrun": [5, "boom", 1]})
    assert place.launch().returncode == 1
    place.behave()
    done = place.launch(steps=8, learning_rate=2e-5)
    assert "prime-rl starts with --resume.step 4." in done.stdout
    assert done.returncode == 0
    rates = {step: line["learning_rate"] for step, line in place.steps().items()}
    assert (rates[4], rates[5], max(rates)) == (1e-5, 2e-5, 8)


def test_half_a_checkpoint_is_none(place):
    place.behave(checkpoint_torn=True, crash={"torchrun": [5, "boom", 1]})
    place.launch()
    assert (place.run_dir / "checkpoints" / "step_4" / "trainer" / ".metadata").exists()
    place.behave()
    assert "prime-rl starts with --clean." in place.launch().stdout


def test_a_finished_run_is_continued_or_started_afresh_only_on_request(place):
    assert place.launch().returncode == 0
    again = place.launch()
    assert again.returncode == 1 and "was trained to step 6 already" in again.stderr
    less = place.launch(steps=4)
    assert less.returncode == 1 and "trained to step 6 and 4 steps are asked for" in less.stderr
    afresh = place.launch(fresh=True, steps=3)
    assert "prime-rl starts with --clean." in afresh.stdout
    assert set(place.steps()) == {1, 2, 3}
