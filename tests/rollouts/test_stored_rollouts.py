"""Stored rollouts as scoring reads them: complete but for transcripts, and small."""

import json
import tracemalloc
from dataclasses import replace

import pytest

from tests.support.stored_rollouts import latest
from text2sql.errors import Text2SqlError
from text2sql.rollouts.located import Place, by_question, read_located, whole_rows
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


def stored(path, *rollouts):
    """Write rollouts to a store; returns its path."""
    store = RolloutStore(path)
    for one in rollouts:
        store.append(one)
    store.close()
    return path


def test_everything_but_transcripts_comes_back(tmp_path):
    made = [rollout(number, sample) for number in range(3) for sample in range(4)]
    made.append(rollout(9, 0, sql=None, status="error", digest="", error="no such table: \ud800"))
    file = stored(tmp_path / "r.jsonl", *made)
    bare = [replace(one, messages=[], calls=[]) for one in made]
    assert read_located([file], {one.key for one in made}, 4).rollouts == bare
    places = [Place(file, line) for line in (2, 5)]
    found = dict(whole_rows(places))
    assert [found[place] for place in places] == [made[1].to_dict(), made[4].to_dict()]


@pytest.mark.parametrize("field", ["turns", "row_count", "seconds", "reward"])
def test_a_field_of_another_type_is_refused(tmp_path, field):
    file = stored(tmp_path / "r.jsonl", rollout(0, 0), rollout(0, 0, **{field: "three"}))
    with pytest.raises(Text2SqlError, match=r"r\.jsonl, line 2 is not a rollout .* move the file"):
        latest(file)


def test_questions_have_their_valid_rollouts_by_sample():
    made = [rollout(1, 2), rollout(0, 0), rollout(1, 0), rollout(1, 1, verdict="infrastructure")]
    made.append(rollout(2, 0, stop_reason="infrastructure"))
    found = [(key, [one.sample for one in group]) for key, group in by_question(made)]
    assert found == [("dev/1", [0, 2]), ("dev/0", [0]), ("dev/2", [])]


def test_the_last_line_and_the_first_valid_file_hold(tmp_path):
    lost = {"verdict": "infrastructure", "stop_reason": "infrastructure"}
    files = {
        "a": [rollout(1, 1), rollout(0, 0, **lost), rollout(1, 0, turns=1), rollout(1, 0, turns=2)],
        "b": [rollout(1, 0, turns=3), rollout(0, 0, turns=4), rollout(0, 7), rollout(5, 0)],
    }
    for name, rollouts in files.items():
        stored(tmp_path / f"{name}.jsonl", *rollouts)
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


def test_a_great_many_rollouts_are_small(tmp_path):
    file = tmp_path / "r.jsonl"
    with file.open("w") as lines:
        for number in range(6_000):
            lines.write(json.dumps(rollout(number % 600, number // 600).to_dict()) + "\n")
    tracemalloc.start()
    found = read_located([file], {f"dev/{number}" for number in range(600)}, 10)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 6_000 and size * 50_000 / 6_000 < 150e6
