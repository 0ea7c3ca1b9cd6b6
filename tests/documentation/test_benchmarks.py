"""Benchmarks: what runs them all, and the script that runs the stages without Dagster."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assets.common.partitions import assets_of, require_training_run
from assets.data.own_dataset import own_dataset
from benchmarks import lifecycle_script
from tests.support.lifecycle_tools import commands
from tests.support.waiting import wait_until
from text2sql.common.guard import descendants
from text2sql.errors import Text2SqlError

REPO = Path(__file__).resolve().parents[2]


def test_the_script_has_what_stages_ask_of_their_run(tmp_path):
    context = lifecycle_script._context("demo")
    require_training_run(context)
    assert assets_of(context) == set()
    with pytest.raises(Text2SqlError, match="archive"):  # it looks in the root, not in a run
        own_dataset(context, tmp_path)
    files = sorted((REPO / "assets").rglob("*.py"))
    asked = {name for file in files for name in STAGES_ASK.findall(file.read_text())}
    assert asked - vars(context).keys() == {"variables"}  # what Great Expectations has


STAGES_ASK = re.compile(r"\bcontext\.(\w+)")


@pytest.fixture
def benchmark_below() -> Iterator[tuple[subprocess.Popen, list[int]]]:
    """All benchmarks, as they run the first; with the processes below."""
    command = [sys.executable, "-m", "benchmarks.all", "--quick", "--only", "sandbox"]
    with subprocess.Popen(command, cwd=REPO, stdout=subprocess.DEVNULL) as running:
        assert wait_until(lambda: any("benchmarks.sandbox" in c for c in commands(below(running))))
        yield running, below(running)
        running.kill()


def below(running: subprocess.Popen) -> list[int]:
    return descendants(running.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_benchmark_ends_with_the_program_that_runs_all(benchmark_below, number):
    running, started = benchmark_below
    running.send_signal(number)
    running.wait(10)
    assert wait_until(lambda: not commands(started), 30), commands(started)
