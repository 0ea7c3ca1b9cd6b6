"""However a run with prime-rl is stopped, no process and no port of it stays."""

import os
import random
import signal
import subprocess
import time

import pytest

from tests.support.prime_rl_place import REPO, Place
from tests.support.waiting import wait_until
from text2sql.common.processes import GuardedProcess


@pytest.fixture
def place(tmp_path):
    """A place with stand-ins."""
    return Place(tmp_path)


def guarded(place: Place, grace: float, **changes) -> GuardedProcess:
    """Start a launcher as a Dagster step does."""
    environment = place.environment | {"PYTHONPATH": str(REPO)}
    command = place.command(**changes)
    return GuardedProcess(command, place.output / "train.log", environment, grace)


@pytest.mark.slow
def test_cancelled_at_random_moments_nothing_is_left(place):
    moments = random.Random(6)
    for _ in range(int(os.environ.get("TEXT2SQL_MOMENTS", "3"))):
        place.behave(step_seconds=0.3)
        run = guarded(place, grace=20, steps=100)
        time.sleep(moments.uniform(0, 6))
        begun = time.monotonic()
        run.stop()
        assert time.monotonic() - begun < 20
        assert place.is_clear()


def test_programs_that_ignore_the_signal_are_killed_after_the_grace(place):
    place.behave(stubborn=True, hang_at=1)
    run = guarded(place, grace=3, steps=100)
    assert wait_until(lambda: len(place.busy_ports()) == 3)
    run.stop()
    assert place.is_clear()


@pytest.mark.parametrize("victim", ["guard", "launcher", "rl"])
def test_killing_any_of_them_ends_all(place, victim):
    place.behave(step_seconds=0.3)
    with guarded(place, grace=10, steps=100) as run:
        assert wait_until(lambda: len(place.busy_ports()) == 3)
        launcher = next(pid for pid in place.processes() if parent(pid) == run.pid)
        rl = next(pid for pid in place.processes() if parent(pid) == launcher)
        os.kill({"guard": run.pid, "launcher": launcher, "rl": rl}[victim], signal.SIGKILL)
        assert place.is_clear()


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
    assert place.is_clear()
