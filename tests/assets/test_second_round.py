"""Training runs in Dagster: unchanged ones are not made again, what is outdated is shown, and a
second round starts from the champion."""

import itertools
import json
import shutil
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from assets.common.sources import SOURCES, version_for
from pipelines.definitions import defs
from pipelines.programs import train
from tests.pipelines.life_place import ALL, FIRST, OPS, SECOND, SIZES, Life, life, needs_weights
from text2sql.cli.main import cli
from text2sql.common.artifacts import prompts_folder
from text2sql.common.checkout import CHECKOUT
from text2sql.errors import Text2SqlError

__all__ = ["life"]
pytestmark = [pytest.mark.slow, needs_weights]


def outdated(life: Life, run: str = SECOND, definitions: dg.Definitions = defs) -> set[str]:
    """Return the assets that Dagster calls stale; everything of the lifecycle is there."""
    graph = definitions.resolve_asset_graph()
    resolver = CachingStaleStatusResolver(
        life.instance, graph, LoadingContextForTest(life.instance)
    )
    found = set()
    for name in ALL:
        key = dg.AssetKey(name)
        partition = run if graph.get(key).partitions_def else None
        status = resolver.get_status(key, partition)
        assert status is not StaleStatus.MISSING, name
        found |= {name} if status is StaleStatus.STALE else set()
    return found


def with_changed(source: str, folder: Path, patch: pytest.MonkeyPatch) -> dg.Definitions:
    """Return the definitions as they would load with one source file edited."""
    for name in ("assets", "resources", "text2sql"):
        ignore = shutil.ignore_patterns("*.safetensors", "__pycache__", "*.json")
        shutil.copytree(CHECKOUT / name, folder / name, ignore=ignore)
    with (folder / source).open("a") as file:
        file.write("\nCHANGED = True\n")
    with patch.context() as there:
        there.setattr("text2sql.common.provenance.CHECKOUT", folder)
        versions = {name: version_for(name) for name in SOURCES}
    return defs.map_asset_specs(
        func=lambda spec: spec.replace_attributes(code_version=versions[spec.key.to_user_string()])
    )


def test_an_unchanged_rerun_makes_the_same_versions(life):
    assert life.first == life.again
    assert set(life.first) == set(ALL)
    assert outdated(life) == set()


PROMPTED = {"base_rollouts", "grpo_policy", "dev_rollouts"}
JUDGED = PROMPTED | {"gold_results", "reward_strength", "known_issues", "dev_scores"}
READ = {"bird_archive", "bird_questions", "bird_databases", "gold_results"}
SCORED = {"known_issues", "dev_scores", "model_card"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("text2sql/agent/prompts.py", PROMPTED),
        ("text2sql/agent/tools.py", PROMPTED),
        ("text2sql/judge/verdicts.py", JUDGED),
        ("text2sql/datasets/reading/rows.py", READ),
        ("text2sql/evaluation/statistics.py", SCORED),
        ("text2sql/evaluation/model_card.py", SCORED),
        ("text2sql/reporting/delivery/page.py", set()),
    ],
)
def test_a_changed_source_outdates_only_its_dependents(
    life, tmp_path, monkeypatch, source, expected
):
    assert outdated(life, SECOND, with_changed(source, tmp_path, monkeypatch)) == expected


def test_the_second_round_starts_from_the_champion_with_a_filter_of_its_own(life):
    first, second = (
        json.loads((life.root / "training" / run / "training.json").read_text())
        for run in (FIRST, SECOND)
    )
    assert second["start"] == {"from": "champion", "policy": first["policy"], "training_run": FIRST}
    assert second["start_revision"] == first["policy_revision"] != first["start_revision"]
    assert second["base_revision"] == first["base_revision"] == first["start_revision"]
    filters = [record["prompts_about"] for record in (first, second)]
    assert filters[0]["policy_revision"] == first["base_revision"]
    assert filters[1]["policy_revision"] == first["policy_revision"]
    stores = [life.root / "rollouts" / one["rollouts"] for one in filters]
    assert stores[0] != stores[1]
    for store, about in zip(stores, filters, strict=True):
        lines = [line for file in store.glob("*.jsonl") for line in file.open()]
        revisions = {json.loads(line)["policy_revision"] for line in lines}
        assert (len(lines), revisions) == (SIZES["train"] * 4, {about["policy_revision"]})


def test_a_training_run_is_a_partition_and_a_dagster_run(life):
    assert life.instance.get_dynamic_partitions("training_run") == [FIRST, SECOND]
    (run,) = life.instance.get_runs(dg.RunsFilter(job_name="training"))
    assert run.status is dg.DagsterRunStatus.SUCCESS
    assert run.tags["dagster/partition"] == SECOND
    champion = json.loads((life.root / "champion.json").read_text())
    assert champion["training_run"] == FIRST
    assert f"text2sql compare {FIRST} {SECOND}" in life.said


def command(*arguments: str):
    """Run the command line."""
    return CliRunner().invoke(cli, arguments)


def test_both_runs_are_compared_and_traced(life):
    compared = command("compare", FIRST, SECOND)
    assert compared.exit_code == 0, compared.output
    assert "greedy: A" in compared.output
    done = command("lineage", SECOND, "--json")
    assert done.exit_code == 0, done.output
    links = json.loads(done.output)["links"]
    runs = [link["name"] for link in links if link["kind"] == "training run"]
    starts = [link["name"] for link in links if link["kind"] == "started from"]
    assert (runs, starts) == ([SECOND, FIRST], ["champion", "base"])
    known = {run.run_id for run in life.instance.get_runs()}
    named = [link["facts"].get("Dagster run") for link in links]
    assert len({run for run in named if run}) >= 2 and {run for run in named if run} <= known
    (settings, _) = [link["facts"] for link in links if link["kind"] == "config"]
    assert (settings["set: steps"], settings["set: groups_per_step"], settings["seed"]) == (1, 2, 1)
    assert sum(link["kind"] == "dataset" for link in links) == 1


def ask(capsys, life, name: str, **request) -> str:
    """Ask for a training run without starting it."""
    train.main([json.dumps({"name": name, "dry_run": True, **request})])
    return capsys.readouterr().out


def test_a_run_is_shown_before_it_is_started(life, capsys):
    said = ask(
        capsys,
        life,
        "third",
        start_from=SECOND,
        settings={"learning_rate": "3e-4", "training_prompts.minimum_prompts": "8"},
    )
    assert f"starts from   {SECOND} (training run {SECOND}, revision" in said
    assert "learning_rate 0.0003" in said and "minimum_prompts: 8" in said
    as_json = ask(capsys, life, "third", as_json=True)
    assert json.loads(as_json)["config"]["ops"]["grpo_policy"]["config"] == {"trainer": {"trl": {}}}
    assert "third" not in life.instance.get_dynamic_partitions("training_run")


@pytest.mark.parametrize(
    ("name", "request_", "sentence"),
    [
        ("a b", {}, "'a b' cannot name a training run"),
        ("x" * 65, {}, "use up to 64 letters"),
        ("champion", {}, "it stands for a policy to start from"),
        ("third", {"start_from": "nobody"}, r"cannot start from 'nobody': .* \(first, second\)"),
        (SECOND, {"start_from": SECOND}, "second cannot start from its own policy"),
        ("third", {"settings": {"speed": "1"}}, "trl has no setting 'speed': it has steps"),
        ("third", {"settings": {"steps": "0"}}, "trl: steps is 0"),
        ("third", {"backend": "tpu"}, "no trainer 'tpu': use trl, prime_rl"),
        ("third", {"settings": {"dev_scores.x": "1"}}, "The run config is wrong"),
        (
            SECOND,
            {"settings": {"steps": "9"}},
            r"second exists with other settings \(steps: 1, not 9.*starts from: "
            r"champion \(first\), not base\): choose another name",
        ),
    ],
)
def test_invalid_requests_fail_with_one_sentence(life, name, request_, sentence):
    with pytest.raises(Text2SqlError, match=sentence):
        train.main([json.dumps({"name": name, "dry_run": True, **request_})])


def test_a_run_does_not_start_from_missing_or_changed_weights(life, tmp_path):
    record = json.loads((life.root / "training" / SECOND / "training.json").read_text())
    policy = Path(record["policy"])
    policy.rename(tmp_path / "policy")
    try:
        with pytest.raises(
            Text2SqlError, match=f"weights of the training run {SECOND} are missing"
        ):
            train.main([json.dumps({"name": "third", "start_from": SECOND, "dry_run": True})])
    finally:
        (tmp_path / "policy").rename(policy)
    settings = policy / "generation_config.json"
    before = settings.read_text()
    settings.write_text(before + "\n")
    try:
        with pytest.raises(Text2SqlError, match="differ from their record"):
            life.materialize(
                ("base_rollouts",), FIRST, base_rollouts={"config": {"start_from": SECOND}}
            )
    finally:
        settings.write_text(before)


def failure(life: Life, name: str, run: str) -> str:
    """Materialize an asset that fails; return what its step says."""
    with pytest.raises(Text2SqlError) as raised:
        life.materialize((name,), run)
    return str(raised.value)


def test_a_partition_without_its_files_and_a_record_that_was_edited(life):
    life.instance.add_dynamic_partitions("training_run", ["empty", "a b"])
    assert "The training run empty has no policy" in failure(life, "dev_rollouts", "empty")
    assert "'a b' cannot name a training run" in failure(life, "grpo_policy", "a b")
    record = life.root / "training" / SECOND / "training.json"
    before = record.read_text()
    record.write_text(before.replace('"steps": 1', '"steps": 2'))
    try:
        assert "training.json was edited by hand" in failure(life, "model_card", SECOND)
    finally:
        record.write_text(before)


def test_a_changed_setting_or_dataset_outdates_everything_downstream(life):
    filtering = OPS["training_prompts"]["config"]
    file = prompts_folder(life.root) / "prompts.jsonl"
    prompts = file.read_text().splitlines()
    for seed in itertools.count(2):  # of a few prompts another seed may choose the same order
        changed = filtering | {"seed": seed}
        life.materialize(("training_prompts",), training_prompts={"config": changed})
        if file.read_text().splitlines() != prompts:
            break
    assert outdated(life) == {"grpo_policy"}
    sizes = SIZES | {"train": 20}
    life.materialize(("bird_archive",), bird_archive={"config": {"sizes": sizes}})
    assert outdated(life) == {"grpo_policy", "bird_questions", "bird_databases"}
