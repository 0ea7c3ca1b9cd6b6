"""Programs that start a run and follow it: what they print, and how they end."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from pipelines.programs.screen import Screen
from pipelines.runs.progress import Stage
from tests.support.waiting import wait_until

REPO = Path(__file__).resolve().parents[2]
START = (
    "import sys; from pipelines.programs.program import run_program; "
    "sys.exit(run_program('written'))"
)
WRITTEN = """
import sys, time
from pathlib import Path
from text2sql.errors import Text2SqlError

if sys.argv[1] == "imports":
    Path(sys.argv[2]).touch()
    time.sleep(60)
if sys.argv[1] == "refuses":
    raise Text2SqlError("A variable is wrong.")

def main(arguments):
    if arguments[0] == "wrong":
        raise Text2SqlError("It is wrong.")
    if arguments[0] == "prints":
        for number in range(20_000):
            print("line", number)
        return
    Path(arguments[1]).touch()
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def written(tmp_path, monkeypatch):
    """Let the programs find the module that they run."""
    (tmp_path / "written.py").write_text(WRITTEN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-c", START, *arguments]


@pytest.mark.parametrize(
    ("end", "status", "told"),
    [
        ("wrong", 1, "error: It is wrong.\n"),
        ("refuses", 1, "error: A variable is wrong.\n"),
        ("prints > /dev/null", 0, ""),
        ("prints > /dev/full", 1, "error: Cannot write the output: No space left on device.\n"),
        ("prints >&-", 1, "error: Cannot write the output: Bad file descriptor.\n"),
        ("prints | true; exit ${PIPESTATUS[0]}", 141, ""),
    ],
)
def test_how_a_program_ends_is_told_in_a_sentence_and_its_status(end, status, told):
    done = subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" {end}', sys.executable, START],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (status, told)


@pytest.mark.parametrize(
    ("at", "twice"), [("waits", False), ("waits", True), ("imports", False), ("imports", True)]
)
def test_a_stopped_program_says_that_it_can_go_on(tmp_path, at, twice):
    ready = tmp_path / "ready"
    running = subprocess.Popen(program(at, str(ready)), cwd=REPO, stderr=subprocess.PIPE, text=True)
    assert wait_until(ready.exists)
    for _ in range(1 + twice):
        running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=60)[1] == "stopped; run it again to go on\n"
    assert running.returncode == 130


def test_a_signal_before_a_program_is_there_waits_for_it(tmp_path):
    command = f"""
import os, signal, sys
from text2sql.common.stopping import block_signals
block_signals()
os.kill(os.getpid(), signal.SIGINT)
os.execv(sys.executable, {program("imports", str(tmp_path / "ready"))!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", command],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (130, "stopped; run it again to go on\n")
    assert not (tmp_path / "ready").exists()


@pytest.mark.parametrize("name", ["TEXT2SQL_TIME_ZONE", "TEXT2SQL_TRAINING_GPUS"])
def test_a_variable_that_makes_no_sense_is_told_in_a_sentence(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "-1")
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.programs.train", '{"name": "july"}'],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {name} is '-1'")
    assert done.stderr.count("\n") == 1


def test_a_program_whose_terminal_is_closed_ends_as_stopped(tmp_path):
    ready = tmp_path / "ready"
    terminal, inside = pty.openpty()
    running = subprocess.Popen(
        program("waits", str(ready)),
        cwd=REPO,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(inside)
    assert wait_until(ready.exists)
    os.close(terminal)
    assert running.wait(30) == 129


def test_a_stage_without_a_result_is_shown(capsys):
    for metadata in ({}, {"base greedy": 0.25}, {"base greedy": 0.25, "trained greedy": 0.5}):
        Screen().finished(Stage("dev_scores", 0.0, 1.0, metadata))
    shown = [line.partition(" s  ")[2] for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        "greedy no result -> no result",
        "greedy 25.0% -> no result",
        "greedy 25.0% -> 50.0%",
    ]
