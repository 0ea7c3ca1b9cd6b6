"""Each stage fails once by a real cause; re-executed from failure, it and what follows come to the
same as without the failure, and what was there before is not made again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.reconstruct import ReconstructableRepository

from pipelines.home import open_instance
from pipelines.partitions import add_training_run
from resources.policy import PolicyResource
from tests.support.lifecycle_tools import SIZES, answering
from tests.support.scripted_server import ScriptedServer
from text2sql.common.json_files import write_json
from text2sql.datasets.pocket.corpus import CorpusSizes, generate
from text2sql.datasets.stored import load_current, load_questions

RUN, DAY = "demo", "2026-03-02"
ASIDE = ".aside"
TRL = {"steps": 1, "groups_per_step": 2, "group_size": 2, "save_every": 1}
QUIET = {"console": {"config": {"log_level": "CRITICAL"}}}


@dataclass(frozen=True)
class Case:
    """A stage, the assets that run before and after it, and what it fails of.

    ``away`` is something below the artifact root that it reads and that is not there, ``taken``
    a file that it writes and in whose place there is a folder, ``silent`` a server whose model
    is not loaded. ``*`` stands for the dataset's fingerprint.
    """

    stage: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    away: str = ""
    taken: str = ""
    silent: str = ""


CASES = [
    Case("bird_archive", (), ("bird_questions",), away="dataset"),
    Case("bird_questions", ("bird_archive",), (), taken="bird/*/train/questions.jsonl"),
    Case("bird_databases", ("bird_archive",), (), taken="bird/*/databases.parquet"),
    Case("gold_results", ("bird_databases",), ("known_issues",), taken="bird/*/gold_flags.jsonl"),
    Case("reward_strength", ("gold_results",), (), taken="bird/*/strength.parquet"),
    Case("known_issues", ("gold_results",), (), taken="bird/*/known_issues.json"),
    Case("base_rollouts", ("gold_results",), ("training_prompts",), silent="base"),
    Case("training_prompts", ("base_rollouts",), (), taken="prompts/prompts.jsonl"),
    Case("dev_rollouts", ("gold_results",), ("dev_scores",), silent="trained"),
    Case("dev_scores", ("dev_rollouts",), ("model_card",), taken="evaluation/demo/scores.json"),
    Case("model_card", ("dev_scores",), ("champion_policy",), taken="evaluation/demo/README.md"),
    Case("champion_policy", (), (), away="evaluation/demo/outcomes.json"),
    Case("report_questions", (), ("report_answers",), away="questions.yaml"),
    Case("report_answers", ("report_questions",), (), silent="trained"),
]


class Project:
    """A finished lifecycle of a small corpus, with a policy that was trained elsewhere."""

    def __init__(self, root: Path, servers: dict[str, ScriptedServer]) -> None:
        self.root, self.servers = root, servers
        self.instance = open_instance()
        checkout = str(Path(__file__).parents[2])
        self.repository = ReconstructableRepository.for_module(
            "tests.pipelines.lifecycle_in_process", "defs", working_directory=checkout
        )
        add_training_run(self.instance, RUN)
        generate(root / "corpus", 1, CorpusSizes(**SIZES)).rename(root / "dataset")

    def finish(self) -> None:
        """Run every stage but the training."""
        self.run(*(case.stage for case in CASES[:8]))
        self.train_elsewhere()
        self.run(*(case.stage for case in CASES[8:12]))
        question = load_questions(self.root, "dev")[0]
        asked = {"id": "q", "question": question.question, "database": str(question.database)}
        (self.root / "questions.yaml").write_text(yaml.safe_dump([asked]))
        self.run("report_questions", "report_answers")

    def train_elsewhere(self) -> None:
        """Note a policy that was trained outside."""
        policy = self.servers["trained"].url
        record = {"policy": policy, "policy_revision": PolicyResource().revision(policy)}
        record |= {"base": "scripted", "base_revision": "b", "prompts": 9, "seconds": 1.5}
        path = self.root / "training" / RUN / "training.json"
        write_json(path, record | {"settings": {"steps": 3}})

    def run(self, *names: str) -> None:
        """Materialize assets; they must succeed."""
        with self.execute(names) as result:
            assert result.success, _failures(result)

    def execute(self, names: tuple[str, ...], after: str = "", base: Path | None = None) -> Any:
        """Run assets, or what a failed run of them left to do; ``base`` is another base policy."""
        daily = "report_answers" in names
        job = self.repository.get_reconstructable_job("daily_answers" if daily else "lifecycle")
        again = dg.ReexecutionOptions.from_failure(after, self.instance) if after else None
        return dg.execute_job(
            job,
            self.instance,
            run_config=self.config(names, base),
            tags={"dagster/partition": DAY if daily else RUN},
            asset_selection=None if again else [dg.AssetKey(name) for name in names],
            reexecution_options=again,
        )

    def config(self, names: tuple[str, ...], other: Path | None = None) -> dict[str, Any]:
        """Return the run config of a selection."""
        every = {
            "bird_archive": {"config": {"source": str(self.root / "dataset")}},
            "training_prompts": {"config": {"minimum_prompts": 4}},
            "grpo_policy": {"config": {"trainer": {"trl": TRL}}},
            "report_questions": {"config": {"file": str(self.root / "questions.yaml")}},
        }
        base = {"policy": {"config": {"base": str(other or self.servers["base"].url)}}}
        ops = {name: value for name, value in every.items() if name in names}
        return {"ops": ops, "resources": base, "loggers": QUIET}

    def versions(self, stages: set[str]) -> dict[str, str]:
        """Return the data versions of assets."""
        keys = map(dg.AssetKey, stages)
        found = {key: self.instance.get_latest_materialization_event(key) for key in keys}
        return {
            key.to_user_string(): event.asset_materialization.tags["dagster/data_version"]
            for key, event in found.items()
        }

    @contextmanager
    def broken(self, case: Case) -> Iterator[None]:
        """Let a stage fail inside the block, and mend what was wrong with it."""
        server = self.servers.get(case.silent)
        models = list(server.models) if server else []
        path = self.path(case.away or case.taken) if case.away or case.taken else None
        if path:
            path.rename(path.with_name(path.name + ASIDE))
        if case.taken:
            path.mkdir()
        if server:
            server.models.clear()
        yield
        if server:
            server.models.extend(models)
        if case.taken:
            path.rmdir()
        if path:
            path.with_name(path.name + ASIDE).rename(path)

    def path(self, pattern: str) -> Path:
        """Return a path below the root."""
        return self.root / pattern.replace("*", load_current(self.root).fingerprint)


def _failures(result: Any) -> str:
    return "\n".join(
        str(event.step_failure_data.error)[-1500:]
        for event in result.all_events
        if event.is_step_failure
    )


def stages(result: Any, kind: str) -> set[str]:
    """Return the stages whose steps ended in a way."""
    return {
        event.step_key.partition(".")[0]
        for event in result.all_events
        if event.event_type_value == kind and event.step_key
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Iterator[Project]:
    """A finished project; each test leaves it as it was."""
    root = tmp_path_factory.mktemp("reexecution") / "root"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEXT2SQL_ROOT", str(root))
        patch.setenv("DAGSTER_HOME", "")
        with answering(root, 0.5) as base, answering(root, 0.9, name="trained") as trained:
            found = Project(root, {"base": base, "trained": trained})
            found.finish()
            yield found
            found.instance.dispose()
    shutil.rmtree(root)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stage)
def test_failed_stage_goes_on_where_it_was(project, case):
    made = {case.stage, *case.after}
    expected = project.versions(made)
    names = (*case.before, case.stage, *case.after)
    with project.broken(case), project.execute(names) as failed:
        assert stages(failed, "STEP_FAILURE") == {case.stage}, _failures(failed)
        assert set(case.before) <= stages(failed, "STEP_SUCCESS")
        assert not set(case.after) & stages(failed, "STEP_START")
    asked = {name: len(server.requests) for name, server in project.servers.items()}
    with project.execute(names, after=failed.run_id) as mended:
        assert mended.success, _failures(mended)
        assert not set(case.before) & stages(mended, "STEP_START")
        assert made <= stages(mended, "STEP_SUCCESS")
    assert project.versions(made) == expected
    assert {name: len(server.requests) for name, server in project.servers.items()} == asked


def test_every_stage_is_there(project):
    job = project.repository.get_reconstructable_job("lifecycle").get_definition()
    lifecycle = {key.to_user_string() for key in job.asset_layer.executable_asset_keys}
    assert lifecycle | {"report_answers"} == {case.stage for case in CASES} | {"grpo_policy"}


@pytest.mark.slow
@pytest.mark.skipif(
    not any(PolicyResource().directory().glob("*.safetensors")),
    reason="the pocket policy's weights are not here",
)
def test_failed_training_goes_on_where_it_was(project):
    """The last one, since it replaces the policy that was trained elsewhere."""
    base = shutil.copytree(PolicyResource().directory(), project.root / "base")
    names = ("training_prompts", "grpo_policy")
    weights = next(base.glob("*.safetensors"))
    with (
        project.broken(Case("grpo_policy", (), (), away=str(weights))),
        project.execute(names, base=base) as failed,
    ):
        assert stages(failed, "STEP_FAILURE") == {"grpo_policy"}, _failures(failed)
    with project.execute(names, after=failed.run_id, base=base) as mended:
        assert mended.success, _failures(mended)
        assert not stages(mended, "STEP_START") & {"training_prompts"}
    record = json.loads((project.root / "training" / RUN / "training.json").read_text())
    assert list(Path(record["policy"]).glob("*.safetensors"))
