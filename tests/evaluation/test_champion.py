"""The champion's registry: its history, going back, promoting by hand, and what goes wrong."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.evaluation.promotion_place import candidate, champion
from tests.support.full_disk import no_room
from text2sql.cli.main import cli
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.candidate import read_candidate
from text2sql.evaluation.promotion.champion import champion_record, choose, read_incumbent
from text2sql.evaluation.promotion.changes import PROMOTION, history, promote, roll_back
from text2sql.evaluation.promotion.gate import Finding

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An artifact root, and the champions june, july and august."""
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path))
    for number, run in enumerate(("june", "july", "august")):
        candidate(tmp_path, run, 20 + 5 * number)
        crown(tmp_path, run)
    return tmp_path


def crown(root: Path, run: str) -> dict:
    """Make a training run champion."""
    checks = [Finding("accuracy_holds", True, "Fine.")]
    seat, found = read_incumbent(root), read_candidate(root, run)
    return promote(root, seat, found, checks, PROMOTION, "better", "run-1")


def called(*words: str):
    """Run ``text2sql champion`` in this process; an error that the user can fix is raised."""
    return CliRunner().invoke(cli, ["champion", *words], catch_exceptions=False)


def names(root: Path) -> list[str]:
    """Return the training runs of the history."""
    return [record["training_run"] for record in history(root)]


def test_the_history_records_every_champion_and_why(root):
    past = history(root)
    assert [record["number"] for record in past] == [1, 2, 3]
    assert names(root) == ["june", "july", "august"]
    last = past[-1]
    assert last == champion(root)
    assert last["greedy"].startswith("75.0 [") and last["scores"] == {"greedy": last["greedy"]}
    assert (last["act"], last["reason"], last["dagster_run"]) == ("promotion", "better", "run-1")
    assert last["findings"] == [{"check": "accuracy_holds", "passed": True, "sentence": "Fine."}]
    assert last["by"].count("@") == 1 and last["promoted_at"].endswith("+00:00")
    assert (last["dataset"], last["prompt_revision"]) == ("data-1", "prompts-1")


def test_going_back_goes_back_further_each_time(root):
    assert "july (number 4" in called("rollback", "--reason", "wrong in chat").stdout
    assert champion(root)["training_run"] == "july"
    roll_back(root, "still wrong")
    assert champion(root)["training_run"] == "june"
    with pytest.raises(Text2SqlError, match="no champion before the training run june"):
        roll_back(root, "more")
    roll_back(root, "august was fine", to=3)
    assert names(root) == ["june", "july", "august", "july", "june", "august"]
    last = champion(root)
    assert (last["act"], last["restores"], last["reason"]) == ("rollback", 3, "august was fine")
    roll_back(root, "and again")
    assert champion(root)["training_run"] == "july"


def test_going_back_needs_a_reason_and_unchanged_weights(root):
    before = champion(root)
    for words in (["rollback"], ["promote", "june"]):
        assert called(*words).exit_code == 2
    with pytest.raises(Text2SqlError, match="Give a reason of 1 to 1,000"):
        roll_back(root, " \n ")
    with pytest.raises(Text2SqlError, match="no champion number 9"):
        roll_back(root, "why not", to=9)
    with pytest.raises(Text2SqlError, match="august is the champion already"):
        roll_back(root, "why not", to=3)
    july = root / "training" / "july" / "v1" / "policy"
    (july / "model.safetensors").write_text("tampered")
    with pytest.raises(Text2SqlError, match=r"number 2, .* july, cannot come back: .*have changed"):
        roll_back(root, "why not")
    shutil.rmtree(july)
    with pytest.raises(Text2SqlError, match="its weights are gone from"):
        roll_back(root, "why not")
    assert champion(root) == before and len(history(root)) == 3


def test_promoting_by_hand_records_the_failed_checks(root):
    candidate(root, "worse", 12)
    said = called("promote", "worse", "--reason", "a customer  needs it\n").stdout
    assert "FAILED   accuracy_holds: " in said and "Worse beyond noise" in said
    assert "is champion now, in spite of accuracy_holds; not run: back_test." in said
    record = champion(root)
    assert (record["act"], record["reason"]) == ("by hand", "a customer needs it")
    candidate(root, "lenient", 11)
    said = called("promote", "lenient", "--reason", "bounds", "--significance", "1e-9").stdout
    assert "passed   accuracy_holds: Not better beyond noise than the base" in said
    assert called("promote", "june", "--reason", "x", "--missing", "2").exit_code == 2
    roll_back(root, "only tried")
    record = champion(root)
    assert [one["passed"] for one in record["findings"]] == [False, True, True, None]
    with pytest.raises(Text2SqlError, match="worse has the champion's own weights already"):
        called("promote", "worse", "--reason", "again")
    shutil.rmtree(root / "training" / "june" / "v1")
    with pytest.raises(Text2SqlError, match="june cannot be promoted: its weights are gone"):
        called("promote", "june", "--reason", "again")
    with pytest.raises(Text2SqlError, match="No evaluation of a training run 'may'"):
        called("promote", "may", "--reason", "again")
    assert champion(root) == record


def test_a_back_test_counts_if_it_was_run_against_this_champion(root):
    candidate(root, "next", 35)
    verdict = {"champion_revision": champion(root)["revision"], "passed": False,
               "candidate_revision": read_candidate(root, "next").revision,
               "sentence": "Lost: a."}  # fmt: skip
    (root / "evaluation" / "next" / "back_test.json").write_text(json.dumps(verdict))
    said = called("promote", "next", "--reason", "a was wrong").stdout
    assert "FAILED   back_test: Lost: a." in said and "in spite of back_test." in said


def test_show_and_history_for_people_and_programs(root):
    shown = json.loads(called("show", "--json").stdout)
    assert (shown["training_run"], shown["problem"]) == ("august", "")
    assert "outcomes" not in shown
    lines = called("history", "--json").stdout.splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1, 2, 3]
    assert "passed   accuracy_holds: Fine." in called("show").stdout
    listed = called("history").stdout
    assert "training run" in listed and listed.count("better") == 3 and "(3 rows)" in listed
    shutil.rmtree(root / "training" / "august")
    with pytest.raises(Text2SqlError, match="champion cannot answer: its weights are gone"):
        called("show")


def test_show_checks_the_weights_where_an_edited_record_says(root):
    record = champion(root) | {"policy": str(root / "elsewhere")}
    (root / "champion.json").write_text(json.dumps(record))
    with pytest.raises(Text2SqlError, match=r"its weights are gone from .*elsewhere"):
        called("show")


def test_show_and_rollback_without_a_champion_fail(tmp_path, monkeypatch):
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path))
    with pytest.raises(Text2SqlError, match="No champion below"):
        called("show")
    assert "(0 rows)" in called("history").stdout
    with pytest.raises(Text2SqlError, match="nothing to go back to"):
        called("rollback", "--reason", "x")


@pytest.mark.parametrize(
    ("edited", "named"),
    [
        ("{", "cannot be read as JSON"),
        ("[1]", "must hold one JSON object"),
        ('{"policy": "p", "revision": 3}', "lacks revision, training_run"),
        ('{"policy":"p","revision":"r","training_run":"t","outcomes":{"a":"b"}}', "outcomes"),
    ],
)
def test_an_invalid_record_is_reported_and_never_overwritten(root, edited, named):
    file, lines = root / "champion.json", (root / "champion_history.jsonl").read_text()
    file.write_text(edited)
    candidate(root, "next", 35)
    for act in (
        lambda: choose(None),
        lambda: called("show"),
        lambda: called("promote", "next", "--reason", "x"),
        lambda: called("rollback", "--reason", "x"),
    ):
        with pytest.raises(Text2SqlError, match=named):
            act()
    assert file.read_text() == edited
    assert (root / "champion_history.jsonl").read_text() == lines


def test_nothing_falls_back_to_another_policy_when_the_record_is_gone(root):
    (root / "champion.json").unlink()
    with pytest.raises(Text2SqlError, match="is gone, although champion_history"):
        choose(None)
    with pytest.raises(Text2SqlError, match="text2sql champion rollback"):
        crown(root, "june")
    roll_back(root, "it was deleted")
    assert champion(root)["training_run"] == "august"
    assert choose(None).revision == champion(root)["revision"]


def test_an_invalid_history_is_reported_and_never_overwritten(root):
    file = root / "champion_history.jsonl"
    first, *others = file.read_text().splitlines(keepends=True)
    file.write_text("".join([first, "nonsense\n", *others]))
    edited = file.read_text()
    with pytest.raises(Text2SqlError, match=r"champion_history\.jsonl, line 2, cannot be read"):
        crown(root, "june")
    assert file.read_text() == edited and champion(root)["training_run"] == "august"
    file.write_text(first.replace('"number": 1, ', ""))
    assert '"number"' not in file.read_text()
    with pytest.raises(Text2SqlError, match="line 1, has no number"):
        history(root)
    file.write_text("".join([first, *others]).rstrip("\n"))
    crown(root, "june")
    assert names(root) == ["june", "july", "august", "june"], "an editor left out the line break"


def test_an_unfinished_line_is_written_again(root):
    file = root / "champion_history.jsonl"
    whole = file.read_text()
    file.write_text(whole[:-50])
    assert names(root) == ["june", "july", "august"]
    roll_back(root, "x")
    assert file.read_text().startswith(whole)
    assert names(root) == ["june", "july", "august", "july"]


def test_a_record_written_by_hand_becomes_part_of_the_history(tmp_path):
    record = {"policy": "http://127.0.0.1:1", "revision": "r", "training_run": "by-editor"}
    (tmp_path / "champion.json").write_text(json.dumps(record))
    candidate(tmp_path, "june", 20)
    crown(tmp_path, "june")
    assert names(tmp_path) == ["by-editor", "june"]
    roll_back(tmp_path, "x")
    assert champion(tmp_path)["policy"] == "http://127.0.0.1:1"


def test_of_two_promotions_at_once_one_is_refused(root):
    candidate(root, "left", 30)
    candidate(root, "right", 31)
    seen = read_incumbent(root)
    promote(root, seen, read_candidate(root, "left"), [], PROMOTION, "better")
    with pytest.raises(Text2SqlError) as refused:
        promote(root, seen, read_candidate(root, "right"), [], PROMOTION, "better")
    assert "it is now the training run left (promotion, " in str(refused.value)
    assert "this was compared with the training run august. Nothing was changed" in str(
        refused.value
    )
    assert names(root)[-1] == "left"


_AT_ONCE = """
import sys
from pathlib import Path
from text2sql.evaluation.promotion.candidate import read_candidate
from text2sql.evaluation.promotion.champion import read_incumbent
from text2sql.evaluation.promotion.changes import PROMOTION
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.changes import promote

root, runs = Path(sys.argv[1]), sys.argv[2:]
found = {run: read_candidate(root, run) for run in runs}
seen = read_incumbent(root)
print("ready", flush=True)
for turn in range(int(sys.stdin.readline())):
    try:
        promote(root, seen, found[runs[turn % len(runs)]], [], PROMOTION, "a race")
        print("promoted", flush=True)
    except Text2SqlError as error:
        assert "changed in the meantime" in str(error), error
    seen = read_incumbent(root)
"""


def racer(root: Path, *runs: str) -> subprocess.Popen[str]:
    """Start a process that promotes these runs in turn, as often as its input says."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(
        [sys.executable, "-c", _AT_ONCE, str(root), *runs],
        cwd=REPO,
        env=os.environ | {"PYTHONPATH": str(REPO)},
        **pipes,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_processes_that_promote_at_once_lose_nothing(root):
    racers = [racer(root, "june", "july"), racer(root, "july", "august")]
    for one in racers:
        one.stdin.write("40\n")
        one.stdin.flush()
    promoted = sum(one.communicate()[0].count("promoted") for one in racers)
    assert [one.returncode for one in racers] == [0, 0]
    assert 40 <= promoted <= 80
    past = history(root)
    assert [record["number"] for record in past] == list(range(1, 4 + promoted))
    assert past[-1] == champion(root)


def test_killing_a_promotion_at_any_moment_loses_no_champion(root):
    chance, before = random.Random(9), 3
    for _ in range(8):
        one = racer(root, "june", "july")
        one.stdin.write("100000\n")
        one.stdin.flush()
        one.stdout.readline()
        time.sleep(chance.random() / 20)
        one.send_signal(signal.SIGKILL)
        promoted = 1 + one.stdout.read().count("promoted")
        one.wait()
        past = history(root)
        assert champion_record(root)["training_run"] == past[-1]["training_run"]
        assert [record["number"] for record in past] == list(range(1, len(past) + 1))
        assert before + promoted <= len(past) <= before + promoted + 1
        before = len(past)
    crown(root, "august")
    assert len((root / "champion_history.jsonl").read_text().splitlines()) == before + 1


def test_a_full_disk_changes_nothing(root):
    before = champion(root)
    with no_room(), pytest.raises(Text2SqlError, match=r"Cannot write .*champion\.json: File too"):
        crown(root, "june")
    assert champion(root) == before and names(root) == ["june", "july", "august"]


def test_a_history_that_cannot_be_written_changes_nothing(root):
    file, before = root / "champion_history.jsonl", champion(root)
    file.rename(root / "kept")
    file.mkdir()
    with pytest.raises(Text2SqlError, match="cannot be written: Is a directory"):
        crown(root, "june")
    assert champion(root) == before
