"""Evaluation in real Dagster runs: rules, checks that fail, small metadata, a held-out split."""

import json
import shutil
import sqlite3
from pathlib import Path

import dagster as dg
import pytest

from assets.data import bird, known_issues, strength
from assets.evaluation import checks as evaluation_checks
from assets.evaluation import dev_rollouts, held_out
from assets.promotion import champion
from assets.training import grpo as training
from resources.artifact_root import ArtifactRoot
from resources.policy import PolicyResource
from resources.reporting import ReportingDatabase
from resources.sandbox import SandboxResource
from resources.trainer import TrainerResource
from tests.support.lifecycle_tools import answering
from text2sql.common.artifacts import held_out_log
from text2sql.common.json_files import write_json
from text2sql.evaluation.promotion.candidate import read_candidate, rival_of
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.evaluation.promotion.changes import adopt
from text2sql.evaluation.promotion.gate import GateRules, run_checks

MODULES = [bird, strength, known_issues, training, dev_rollouts, champion, held_out]
ASSETS = dg.load_assets_from_modules(MODULES)
CHECKS = dg.load_asset_checks_from_modules([evaluation_checks])
INGEST = ["bird_archive", "bird_questions", "bird_databases", "gold_results", "reward_strength"]
EVALUATE = ["dev_rollouts", "dev_scores"]
NAMES = [
    "scores_complete", "little_infrastructure_lost", "few_write_attempts", "accuracy_as_before"
]  # fmt: skip
"""The checks of dev_scores."""
HELD_OUT = ["held_out_rollouts", "held_out_scores"]


def write_dataset(folder: Path) -> Path:
    """Write three splits on one database; the last dev question has a gold without rows."""
    place = folder / "databases" / "shop" / "shop.sqlite"
    place.parent.mkdir(parents=True)
    with sqlite3.connect(place) as connection:
        connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL)")
        rows = [(n, f"item {n % 5}", n * 1.5) for n in range(40)]
        connection.executemany("INSERT INTO item VALUES (?, ?, ?)", rows)
    for split, count in (("train", 4), ("dev", 12), ("test", 6)):
        questions = [
            {"question_id": n, "db_id": "shop", "question": f"The {split} items after {n}?",
             "evidence": "", "difficulty": "simple",
             "SQL": f"SELECT name FROM item WHERE id > {n if n < 11 else 99} ORDER BY id"}
            for n in range(count)
        ]  # fmt: skip
        (folder / f"{split}.json").write_text(json.dumps(questions))
    return folder


@pytest.fixture(scope="module")
def ingested(tmp_path_factory):
    """An artifact root with the dataset ingested."""
    place = tmp_path_factory.mktemp("ingested")
    source = {"source": str(write_dataset(place / "own")), "splits": ["train", "dev", "test"]}
    assert run(place / "root", INGEST, bird_archive={"config": source}).success
    return place / "root"


@pytest.fixture
def place(ingested, tmp_path, monkeypatch):
    """An artifact root of its own, a copy of the ingested one."""
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "root"))
    return Path(shutil.copytree(ingested, tmp_path / "root"))


def run(root: Path, names: list[str], base: str = "pocket", **ops) -> dg.ExecuteInProcessResult:
    """Run some assets with their checks for the training run june."""
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("training_run", ["june"])
        defs = dg.Definitions(
            assets=ASSETS,
            asset_checks=CHECKS,
            jobs=[dg.define_asset_job("all", selection=names)],
            resources={
                "root": ArtifactRoot(root=str(root)),
                "sandbox": SandboxResource(),
                "policy": PolicyResource(base=base),
                "trainer": TrainerResource(),
                "reporting": ReportingDatabase(),
                **_others(),
            },
        )
        partitioned = set(names) & set(EVALUATE)
        return defs.resolve_job_def("all").execute_in_process(
            instance=instance,
            partition_key="june" if partitioned else None,
            run_config={"ops": ops, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            raise_on_error=False,
        )


def _others() -> dict:
    from resources.gate import PromotionGate

    return {"gate": PromotionGate()}


def train(root: Path, policy: str) -> str:
    """Note a policy that was trained outside; return its revision."""
    revision = PolicyResource().revision(policy)
    record = {"policy": policy, "policy_revision": revision, "base": "s", "base_revision": "b"}
    record |= {"prompts": 9, "seconds": 1.5, "settings": {}}
    write_json(root / "training" / "june" / "training.json", record)
    return revision


def checks(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    """Return a run's checks by name."""
    return {one.check_name: one for one in result.get_asset_check_evaluations()}


def metadata(result: dg.ExecuteInProcessResult, name: str) -> dict:
    """Return the metadata of an asset; it is small enough for Dagster's records."""
    for event in result.get_asset_materialization_events():
        if event.asset_key == dg.AssetKey(name):
            assert len(dg.serialize_value(event.materialization)) < 64_000
            return {key: value.value for key, value in event.materialization.metadata.items()}
    raise AssertionError(f"{name} was not materialized")


def test_a_dev_evaluation_and_its_checks(place):
    timed = {"config": {"timed_runs": 1}}
    with answering(place, 0.4) as base, answering(place, 2, name="better") as better:
        train(place, better.url)
        result = run(place, EVALUATE, base.url, dev_scores=timed)
    assert result.success
    assert {name: one.passed for name, one in checks(result).items()} == dict.fromkeys(NAMES, True)
    shown = metadata(result, "dev_scores")
    assert shown["trained single-turn"] == "100.0 [75.8, 100.0] n=12"
    assert shown["what the numbers are"].startswith("development metric")
    assert "trained from another policy (revision b) than the base" in shown["what happened"]
    for picture in ("greedy accuracy", "greedy by database", "voting at every k"):
        assert shown[picture].startswith("![")
    folder = place / "evaluation" / "june"
    scores = (folder / "scores.csv").read_text().splitlines()
    (r_ves,) = [line.split(",") for line in scores if line.startswith("trained,greedy,rule,r_ves,")]
    assert r_ves[4] == "1.0" and float(r_ves[5]) < 0.7 and r_ves[7] == "12"
    assert any(line.startswith("trained,greedy,gold,gold without rows,1.0,") for line in scores)
    trace = (folder / "rollouts.csv").read_text()
    assert trace.count("\ntrained,single-turn,") == 12 and ",1.0,1.0,1.0,1.0,1.0," in trace
    page = (folder / "report.html").read_text()
    for words in ("single-turn", "By other rules", "R-VES", "gold without rows"):
        assert words in page


def spoil(root: Path, change) -> None:
    """Rewrite the trained policy's stored scores."""
    file = root / "evaluation" / "june" / "scores.json"
    row = json.loads(file.read_text())
    change(row)
    file.write_text(json.dumps(row))


def test_checks_fail_where_something_is_wrong(place):
    with answering(place, 0.4) as base, answering(place, 2, name="broken") as broken:
        train(place, broken.url)
        assert run(place, EVALUATE, base.url).success
        for store in (place / "rollouts").glob("dev-greedy-*/*.jsonl"):
            lines = [json.loads(line) for line in store.read_text().splitlines()]
            for line in lines[:1]:
                line |= {"verdict": "infrastructure", "stop_reason": "infrastructure"}
            for line in lines[1:4]:
                line |= {"verdict": "write", "write_attempts": 1}
            store.write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = run(place, ["dev_scores"], base.url)
    found = checks(result)
    assert {name: one.passed for name, one in found.items()} == dict.fromkeys(NAMES, False)
    assert "trained 2, of 12" in found["scores_complete"].description
    assert "(limit 1.00%)" in found["little_infrastructure_lost"].description
    assert found["few_write_attempts"].metadata["trained"].value > 0.01
    assert "the training run june before had the interval [75.8, 100.0]" in (
        found["accuracy_as_before"].description
    )
    assert all(one.severity is dg.AssetCheckSeverity.WARN for one in found.values())


def champion_of(root: Path, policy: str, revision: str) -> None:
    """Make a policy champion."""
    row = {"policy": policy, "revision": revision, "training_run": "june", "base_revision": "b"}
    row |= {"greedy": "", "dataset": "", "outcomes": {}}
    (root / "champion.json").write_text(json.dumps(row))


def test_a_second_use_of_a_held_out_split_is_labelled(place):
    with answering(place, 0.4) as base, answering(place, 2, name="better") as better:
        revision = PolicyResource().revision(better.url)
        champion_of(place, better.url, revision)
        first = run(place, HELD_OUT, base.url)
        second = run(place, HELD_OUT, base.url)
    assert first.success
    shown = metadata(first, "held_out_scores")
    assert shown["what the numbers are"] == (
        "held-out metric: the split 'test' was evaluated once, for this policy"
    )
    assert (
        "but not a clean one: it was evaluated 2 times"
        in (metadata(second, "held_out_scores")["what the numbers are"])
    )
    assert len(held_out_log(place).read_text().splitlines()) == 2


def gate(root: Path) -> str:
    """Return what the gate says of june's accuracy."""
    june = read_candidate(root, "june")
    found = run_checks(june, rival_of(root, champion_record(root), june), GateRules())[0]
    return f"{'passed' if found.passed else 'failed'}: {found.sentence}"


def test_an_adopted_champion_is_asked_with_the_first_candidate(place):
    few = {"config": {"samples": 2, "single_turn": False, "shards": 1}}
    with answering(place, 0.4) as base, answering(place, 2, name="better") as better:
        train(place, better.url)
        with answering(place, 0.3, name="ours") as ours:
            spec = f"{ours.url}#ours"
            adopt(place, spec, PolicyResource().revision(spec), "our first model")
            without = {"config": few["config"] | {"ask_champion": False}}
            assert run(place, EVALUATE, base.url, dev_rollouts=without).success
            assert gate(place).startswith("failed: ") and "was not asked these" in gate(place)
            asked = run(place, EVALUATE, base.url, dev_rollouts=few)
        rows = metadata(asked, "dev_rollouts")["rollouts"].records
        assert "champion greedy" in [row.data["rollouts"] for row in rows]
        assert f"Better beyond noise than the adopted champion {spec}: 100.0 vs" in gate(place)
        page = (place / "evaluation" / "june" / "report.html").read_text()
        assert "Better than the adopted champion" in page
        gone = run(place, EVALUATE, base.url, dev_rollouts=few)
    assert gone.success and gate(place).startswith("failed: ")


def test_a_champion_that_is_the_base_was_asked_with_it(place):
    few = {"config": {"samples": 2, "single_turn": False, "shards": 1}}
    with answering(place, 0.1) as base, answering(place, 2, name="better") as better:
        train(place, better.url)
        adopt(place, base.url, PolicyResource().revision(base.url), "our first model")
        assert run(place, EVALUATE, base.url, dev_rollouts=few).success
    assert "champion greedy" not in json.loads(
        (place / "evaluation" / "june" / "rollouts.json").read_text()
    )
    assert f"Better beyond noise than the adopted champion {base.url}: 100.0 vs" in gate(place)
