"""The difficulty filter: ratings, bounds, order, cost, and failed rollouts drawn again."""

import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random

import dagster as dg
import pandas as pd
import pytest
import yaml

from assets.training.config import TrainingPromptsConfig
from assets.training.difficulty import check_prompts, check_ratings
from pipelines.definitions import defs
from tests.pipelines.test_lifecycle import metadata_of, run_assets
from tests.support.agent_databases import make_database
from tests.support.lifecycle_tools import CORPUS, answering
from tests.support.scripted_server import ScriptedServer, fails, submits
from tests.support.stored_rollouts import latest
from text2sql.datasets.gold.stored import renewed
from text2sql.datasets.stored import load_questions
from text2sql.errors import Text2SqlError
from text2sql.judge.verdicts import GoldResult, run_gold
from text2sql.questions import Question
from text2sql.rollouts.cost import PaceKeeper, duration, estimate
from text2sql.rollouts.store import Rollout, RolloutStore
from text2sql.sandbox import Status
from text2sql.training.difficulty import Bounds, Difficulty, Kind, Tally, rate, select

INGESTION = ["bird_archive", "bird_questions", "bird_databases", "gold_results"]
FILTER = ["base_rollouts", "training_prompts"]


def rollout(number: int, sample: int, verdict: str = "match", **changes) -> Rollout:
    fields = {
        "key": f"train/{number}",
        "sample": sample,
        "policy": "p",
        "policy_revision": "r",
        "prompt_revision": "q",
        "mode": "agentic",
        "sampling": {},
        "messages": [{"role": "tool", "content": "x" * 1000}],
        "calls": [],
        "sql": "SELECT 1",
        "status": "ok",
        "verdict": verdict,
        "digest": "",
        "row_count": 1,
        "reward": None,
        "write_attempts": 0,
        "turns": 1,
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "seconds": 1.0,
        "stop_reason": "infrastructure" if verdict == "infrastructure" else "submit",
    }
    return Rollout(**(fields | changes))


def question(number: int) -> Question:
    return Question(f"train/{number}", "shop", Path("shop.sqlite"), "?", sql="SELECT 1")


def gold(number: int, rows: int = 1) -> GoldResult:
    return GoldResult(f"train/{number}", Status.OK, "d", "d", "d", rows, 0.1, "")


@pytest.mark.parametrize(
    ("solved", "valid", "bounds", "kind"),
    [
        (0, 8, Bounds(), Kind.TOO_HARD),
        (1, 8, Bounds(), Kind.TRAINABLE),
        (7, 8, Bounds(), Kind.TRAINABLE),
        (8, 8, Bounds(), Kind.TOO_EASY),
        (6, 6, Bounds(), Kind.TOO_EASY),
        (3, 5, Bounds(), Kind.UNKNOWN),
        (1, 8, Bounds(least_solved=2), Kind.TOO_HARD),
        (5, 8, Bounds(most_solved=4), Kind.TOO_EASY),
        (4, 8, Bounds(least_solved=2, most_solved=4), Kind.TRAINABLE),
        (8, 8, Bounds(most_solved=100), Kind.TOO_EASY),
        (15, 16, Bounds(), Kind.TRAINABLE),
    ],
)
def test_bounds(solved: int, valid: int, bounds: Bounds, kind: Kind) -> None:
    assert bounds.kind(solved, valid) is kind


@pytest.mark.parametrize(
    "bad", [{"least_solved": 0}, {"least_solved": 4, "most_solved": 3}, {"minimum_valid": 1}]
)
def test_bounds_that_keep_nothing_are_refused(bad: dict) -> None:
    with pytest.raises(Text2SqlError):
        TrainingPromptsConfig(**bad)


def test_of_each_sample_the_first_valid_rollout_counts() -> None:
    tally = Tally(
        [
            rollout(1, 0, "infrastructure", error="server down"),
            rollout(1, 0, "match"),
            rollout(1, 0, "wrong"),
            rollout(1, 3, "error"),
            rollout(2, 0, "infrastructure", error="later"),
            rollout(2, 0, "infrastructure"),
        ]
    )
    assert (tally.solved("train/1"), tally.valid("train/1")) == (1, 2)
    assert (tally.solved("train/2"), tally.valid("train/2"), tally.valid("none")) == (0, 0, 0)
    assert (len(tally), tally.right, tally.invalid) == (3, 1, 1)
    assert tally.error == "server down"


def test_the_same_seed_gives_the_same_order() -> None:
    questions = [question(number) for number in range(50)]
    ratings = [Difficulty(q.key, 1, 8, Kind.TRAINABLE) for q in questions[:40]]
    first, again, other = (select(questions, ratings, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert {q.key for q in first} == {q.key for q in questions[:40]}
    assert first != questions[:40]


def test_unusable_gold_is_never_trained_on() -> None:
    rollouts = [
        rollout(n, sample, "match" if sample else "wrong") for n in (1, 2, 3) for sample in range(8)
    ]
    golds = {"train/1": gold(1), "train/2": gold(2, rows=0)}
    ratings = rate(map(question, (1, 2, 3)), golds, Tally(rollouts), Bounds())
    assert [rating.kind for rating in ratings] == [Kind.TRAINABLE, Kind.UNUSABLE, Kind.UNUSABLE]


def test_gold_that_changes_by_itself_is_never_trained_on_and_renewed_elsewhere(
    sandbox, tmp_path
) -> None:
    database = make_database(tmp_path / "t.db", "CREATE TABLE t(a); INSERT INTO t VALUES (1)")
    asked = Question("train/1", "t", database, "?", sql="SELECT strftime('%s', 'now'), random()")
    steady = Question("train/2", "t", database, "?", sql="SELECT a FROM t")
    golds = {one.key: run_gold(one, sandbox) for one in (asked, steady)}
    tally = Tally([rollout(n, i, "match" if i else "wrong") for n in (1, 2) for i in range(8)])
    ratings = rate([asked, steady], golds, tally, Bounds())
    assert [rating.kind for rating in ratings] == [Kind.UNUSABLE, Kind.TRAINABLE]
    again = renewed(golds, [asked, steady], sandbox)
    assert again["train/1"].digest != golds["train/1"].digest
    assert again["train/2"] is golds["train/2"]


def test_a_cost_is_unknown_until_it_was_measured(tmp_path: Path) -> None:
    folder = tmp_path / "train-sampled-r-v"
    unknown = estimate(75_424, [folder])
    assert unknown.to_dict() == {"rollouts": 75_424}
    assert "tokens unknown" in str(unknown) and "time unknown" in str(unknown)
    store = RolloutStore(folder / "shard-0-of-1.jsonl")
    for sample in range(4):
        store.append(rollout(1, sample, prompt_tokens=500 * (1 + sample % 3)))
    store.append(rollout(2, 0, "infrastructure", prompt_tokens=10**9))
    tokens_only = estimate(100, [folder]).to_dict()
    assert tokens_only == {
        "rollouts": 100,
        "prompt_tokens": 87_500,
        "completion_tokens": 5_000,
        "measured_on": 4,
    }
    said: list[str] = []
    pace = PaceKeeper(store.path, "run", said.append)
    for done in range(5):
        pace(done, 8)
    pace.began -= 3600
    pace.note()
    measured = estimate(8, [folder])
    assert measured.hours == pytest.approx(2.0, rel=0.01)
    assert "2.0 h at 0.00 a second as last time" in str(measured)
    assert str(estimate(0, [folder])) == "No rollout is missing: nothing will be asked."


def test_spans_are_written_for_people() -> None:
    assert [duration(s) for s in (40, 720, 15_120)] == ["40 s", "12 min", "4.2 h"]


def test_nothing_drawn_leaves_no_pace(tmp_path: Path) -> None:
    pace = PaceKeeper(tmp_path / "s.jsonl", "run", print)
    pace(8, 8)
    pace.note()
    assert not list(tmp_path.iterdir())


def test_a_pace_that_was_edited_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.pace.json").write_text("{}")
    with pytest.raises(Text2SqlError, match=r"s\.pace\.json cannot be read .* delete it"):
        estimate(1, [tmp_path])


PROMPT = {
    "key": "train/1",
    "db_id": "shop",
    "question": "How many?",
    "database": "shop.sqlite",
    "database_found": True,
    "solved": 3,
    "valid": 8,
    "row_count": 1,
}


def prompts(*changes: dict) -> pd.DataFrame:
    return pd.DataFrame([PROMPT | {"key": f"train/{n}"} | c for n, c in enumerate(changes)])


def test_good_prompts_pass() -> None:
    assert check_prompts(prompts({}, {"solved": 1}, {"solved": 7}), 3).success


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"key": "train/0"}, "no prompt occurs twice"),
        ({"solved": 0}, "each is solved 1 to 7 times"),
        ({"solved": None}, "each is solved 1 to 7 times"),
        ({"solved": 8}, "each is solved 1 to 7 times"),
        ({"solved": 6, "valid": 6}, "none is always solved"),
        ({"database_found": False}, "every prompt has its database"),
        ({"row_count": 0}, "every prompt has a gold result with rows"),
        ({"row_count": None}, "every prompt has a gold result with rows"),
    ],
)
def test_a_prompt_that_cannot_teach_blocks(change: dict, sentence: str) -> None:
    outcome = check_prompts(prompts({}, change), 1)
    assert outcome.blocks
    assert sentence in {failure.expectation for failure in outcome.failures}
    assert len(outcome.examples)


def test_too_few_prompts_block_and_unknown_questions_warn() -> None:
    assert check_prompts(prompts({}, {}), 3).blocks
    ratings = pd.DataFrame(
        [
            {"key": f"t/{n}", "solved": n, "valid": 3, "kind": kind}
            for n, kind in enumerate(("unknown", "trainable", "too_easy"))
        ]
    )
    outcome = check_ratings(ratings)
    assert not outcome.success and not outcome.blocks
    assert list(outcome.examples["key"]) == ["t/0"]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An artifact root of its own, with the small corpus ingested."""
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    assert run_assets(tmp_path / "root", INGESTION, "pocket", "demo", **CORPUS).success
    return tmp_path / "root"


def config(**values) -> dict:
    few = {"minimum_prompts": 1, "seed": 7}
    return {
        "base_rollouts": {"config": {"shards": 2, "concurrency": 4}},
        "training_prompts": {"config": few | values},
    }


def test_the_filter_as_assets(root: Path) -> None:
    with answering(root, 0.5) as server:
        first = run_assets(root, FILTER, server.url, "demo", **config())
        again = run_assets(root, FILTER, server.url, "demo", **config())
        narrow = run_assets(root, FILTER, server.url, "demo", **config(least_solved=3, seed=8))
        assert len(server.requests) == 16 * 8
    assert first.success and again.success and narrow.success
    base, filtered = metadata_of(first, "base_rollouts"), metadata_of(first, "training_prompts")
    assert base["estimate before"].startswith("128 rollouts to ask; tokens unknown")
    later = metadata_of(again, "base_rollouts")
    assert later["estimate before"] == "No rollout is missing: nothing will be asked."
    assert (base["new"], later["new"]) == (128, 0)
    assert filtered["fingerprint"] == metadata_of(again, "training_prompts")["fingerprint"]
    for picture in ("solved", "kept by database", "kept by difficulty"):
        assert "data:image/png;base64" in filtered[picture]
    (event,) = [
        e
        for e in first.get_asset_materialization_events()
        if e.asset_key == dg.AssetKey("training_prompts")
    ]
    assert len(dg.serialize_value(event.materialization)) < 120_000
    about = json.loads((root / "prompts" / "about.json").read_text())
    page = root / "bird" / about["dataset"] / "checks.html"
    assert all(name in page.read_text() for name in ("prompts_can_teach", "gold_determined"))
    rows = [json.loads(line) for line in (root / "prompts" / "prompts.jsonl").open()]
    assert about["kept"] == len(rows) and about["fingerprint"] != filtered["fingerprint"]
    rated = [json.loads(line) for line in (root / "prompts" / "difficulty.jsonl").open()]
    kept = {row["key"] for row in rated if 3 <= row["solved"] <= 7}
    assert {row["key"] for row in rows} == kept
    extent = f"{len(kept):,} kept prompts and {len(rated):,} questions that were asked"
    assert f"{extent} checked" in page.read_text()
    expected = [q.key for q in load_questions(root, "train") if q.key in kept]
    Random(8).shuffle(expected)
    assert [row["key"] for row in rows] == expected


def test_failed_rollouts_are_drawn_again_within_the_run(root: Path) -> None:
    failed: set[str] = set()

    def script(body: dict):
        asked = next(m["content"] for m in body["messages"] if m["role"] == "user")
        if asked not in failed and Random(asked).random() < 0.25:
            failed.add(asked)
            return fails(400, "no such luck")
        return submits("SELECT 1")

    with ScriptedServer(script) as server:
        result = run_assets(
            root,
            FILTER[:1],
            server.url,
            "demo",
            base_rollouts={"config": {"shards": 1, "samples": 2}},
        )
        invalid = len(failed)
        assert invalid and len(server.requests) == 32 + invalid
    assert result.success
    (store,) = (root / "rollouts").glob("train-*/shard-*.jsonl")
    valid = [r for r in latest(store) if r.valid]
    assert len(valid) == 32


def test_resampling_is_bounded(root: Path) -> None:
    def script(body: dict):
        asked = next(m["content"] for m in body["messages"] if m["role"] == "user")
        return fails(400, "never") if Random(asked).random() < 0.25 else submits("SELECT 1")

    with ScriptedServer(script) as server:
        sampling = {"shards": 1, "samples": 2, "resampling": 1}
        result = run_assets(
            root,
            FILTER,
            server.url,
            "demo",
            base_rollouts={"config": sampling},
            training_prompts={"config": {"minimum_valid": 2}},
        )
        invalid = len(server.requests) - 32
    assert not result.success and invalid > 0
    rated = [json.loads(line) for line in (root / "prompts" / "difficulty.jsonl").open()]
    unknown = [row for row in rated if row["kind"] == "unknown"]
    assert len(unknown) * 2 == invalid
    (check,) = result.get_asset_check_evaluations()
    assert "enough valid rollouts" in check.description and "at least 16 questions" in str(check)


def test_later_shards_do_not_hold_what_they_read(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path / "s.jsonl")
    store.append(rollout(1, 0))
    store.append(replace(rollout(1, 0), verdict="wrong"))
    assert [r.verdict for r in store.scan()] == ["match", "wrong"]
    assert all(not r.messages for r in store.scan())


@pytest.mark.parametrize("name", ["difficulty-filter", "checks"])
def test_the_configuration_in_the_documentation_is_valid(name: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / f"{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        assert dg.validate_run_config(defs.resolve_job_def("lifecycle"), yaml.safe_load(block))
