"""How far it is: a bar on a terminal, lines elsewhere."""

import os
import pty
import subprocess
import sys
from pathlib import Path

from text2sql.common.progress import ProgressLines, show_progress

CODE = """
from text2sql.common.progress import show_progress
with show_progress("rollouts", print) as report:
    for done in range(3, 8):
        report(done, 7)
"""


def run(stderr):
    root = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, "-c", CODE]
    environment = os.environ | {"PYTHONPATH": root, "TERM": "xterm", "COLUMNS": "100"}
    return subprocess.run(command, stderr=stderr, stdout=subprocess.PIPE, env=environment)


def test_a_bar_on_a_terminal():
    ours, theirs = pty.openpty()
    result = run(theirs)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    assert (result.returncode, result.stdout) == (0, b"")
    assert "rollouts" in shown
    assert "7/7" in shown


def test_without_a_terminal_progress_is_lines():
    result = run(subprocess.PIPE)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def test_the_rate_counts_only_new_rollouts():
    said = []
    report = ProgressLines("rollouts", said.append, every=0.0)
    report(1000, 4000)
    report(1010, 4000)
    assert said[0] == "rollouts: 1,000 of 4,000"
    assert said[1].startswith("rollouts: 1,010 of 4,000; ")
    assert said[1].endswith(" s to go")


def test_lines_are_seconds_apart():
    said = []
    report = ProgressLines("rollouts", said.append)
    for done in range(100):
        report(done, 100)
    assert said == []
    with show_progress("x", said.append) as shown:
        shown(1, 1)
