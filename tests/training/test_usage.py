"""Programs that other programs start print their usage."""

import subprocess
import sys
from pathlib import Path

import pytest

from text2sql.training.child import check_usage
from text2sql.training.prime_rl import launch, slurm

REPO = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("arguments", "names", "status"),
    [
        (["--help"], ("CONFIG.json",), 0),
        (["-h"], ("LOG", "COMMAND..."), 0),
        ([], ("CONFIG.json",), 2),
        (["a", "b"], ("CONFIG.json",), 2),
        (["a"], ("LOG", "COMMAND..."), 2),
        (["a"], ("CONFIG.json",), None),
        (["a", "b", "--help"], ("LOG", "COMMAND..."), None),
        (["a", "1"], ("OUTPUT_DIR", "POLL_SECONDS", "[ARGUMENT...]"), None),
    ],
)
def test_usage_is_printed_on_request_and_for_arguments_that_do_not_fit(
    arguments, names, status, capsys
):
    assert check_usage(arguments, "some.module", *names) == status
    printed = capsys.readouterr()
    usage = f"usage: python -m some.module {' '.join(names)}\n"
    assert (printed.out, printed.err) == {0: (usage, ""), 2: ("", usage), None: ("", "")}[status]


@pytest.mark.parametrize("program", [launch, slurm])
def test_training_programs_take_no_option_for_a_file(program, capsys):
    assert program.main(["--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m {program.__name__} ")
    assert program.main([]) == 2
    assert capsys.readouterr().err.startswith("usage: ")


def test_the_guard_and_the_pod_entrypoint_print_their_usage():
    for called in (["text2sql/common/guard.py"], ["-m", "text2sql.training.pod_entrypoint"]):
        command = [sys.executable, *called, "only one"]
        done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
        assert done.returncode and done.stdout == ""
        assert done.stderr.startswith("usage: python ") and len(done.stderr.splitlines()) == 1
