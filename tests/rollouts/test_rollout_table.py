"""Rollouts packed for scoring: nothing is lost but transcripts, and a great many are small."""

import tracemalloc
from dataclasses import replace

import pytest

from text2sql.errors import Text2SqlError
from text2sql.rollouts.located import Place, read_located
from text2sql.rollouts.packed import RolloutTable, by_question
from text2sql.rollouts.store import Rollout, RolloutStore


def rollout(number: int, sample: int, **fields) -> Rollout:
    """Make a rollout with a long query of its own."""
    values = {
        "key": f"dev/{number}",
        "sample": sample,
        "policy": "p",
        "policy_revision": "1",
        "prompt_revision": "2",
        "mode": "agentic",
        "sampling": {"temperature": 1.0, "seed": sample % 2},
        "messages": [{"role": "user", "content": "?" * 1000}],
        "calls": [{"name": "submit"}],
        "sql": f"SELECT {number} -- {sample}" + "x" * 400,
        "status": "ok",
        "verdict": "match",
        "digest": f"{number:032x}",
        "row_count": 2**40,
        "reward": None if sample == 1 else 0.1,
        "write_attempts": 1,
        "turns": 3,
        "prompt_tokens": 5_000_000_000,
        "completion_tokens": 7,
        "seconds": 1.25,
        "stop_reason": "submit",
        "error": "",
        "run_id": f"run {sample % 3}",
    }
    return Rollout(**(values | fields))


def test_everything_but_transcripts_comes_back():
    made = [rollout(number, sample) for number in range(3) for sample in range(4)]
    made.append(rollout(9, 0, sql=None, status="error", digest="", error="no such table: é"))
    bare = [replace(one, messages=[], calls=[]) for one in made]
    table = RolloutTable(made)
    assert list(table) == bare and len(table) == 13
    assert (table[-1], list(table[2:4])) == (bare[-1], bare[2:4])
    assert list(table.where(lambda one: one.sample == 0).select([2, 0])) == [bare[8], bare[0]]
    assert list(RolloutTable(made, sql=False)) == [replace(one, sql=None) for one in bare]


def test_a_field_of_another_type_is_refused():
    with pytest.raises(Text2SqlError, match=r"dev/0, sample 5 is malformed .* draw it again"):
        RolloutTable([rollout(0, 5, turns="three")])


def test_questions_have_their_valid_rollouts_by_sample():
    made = [rollout(1, 2), rollout(0, 0), rollout(1, 0), rollout(1, 1, verdict="infrastructure")]
    made.append(rollout(2, 0, stop_reason="infrastructure"))
    for rollouts in (made, RolloutTable(made)):
        found = [(key, [one.sample for one in group]) for key, group in by_question(rollouts)]
        assert found == [("dev/1", [0, 2]), ("dev/0", [0]), ("dev/2", [])]


def test_the_last_line_and_the_first_valid_file_hold(tmp_path):
    lost = {"verdict": "infrastructure", "stop_reason": "infrastructure"}
    files = {
        "a": [rollout(1, 1), rollout(0, 0, **lost), rollout(1, 0, turns=1), rollout(1, 0, turns=2)],
        "b": [rollout(1, 0, turns=3), rollout(0, 0, turns=4), rollout(0, 7), rollout(5, 0)],
    }
    for name, rollouts in files.items():
        store = RolloutStore(tmp_path / f"{name}.jsonl")
        for one in rollouts:
            store.append(one)
        store.close()
    found = read_located(tmp_path.glob("*.jsonl"), ["dev/0", "dev/1"], 2)
    assert [(one.rollout.key, one.rollout.sample, one.rollout.turns) for one in found] == [
        ("dev/1", 0, 2),
        ("dev/1", 1, 3),
        ("dev/0", 0, 4),
    ]
    assert [one.place for one in found] == [
        Place(tmp_path / "a.jsonl", 4),
        Place(tmp_path / "a.jsonl", 1),
        Place(tmp_path / "b.jsonl", 2),
    ]
    assert found[-1] == found[2] and [one.place.line for one in found[1:]] == [1, 2]
    with pytest.raises(IndexError):
        found[3]


def test_a_great_many_rollouts_are_small():
    questions = (number % 600 for number in range(6_000))
    tracemalloc.start()
    table = RolloutTable((rollout(n, i // 600) for i, n in enumerate(questions)), sql=False)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table) == 6_000 and held / len(table) < 150
