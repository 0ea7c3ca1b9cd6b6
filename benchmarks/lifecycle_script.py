"""The lifecycle without Dagster's runs: the same code, one stage after the other, by a script.

``python -m benchmarks.lifecycle_script FOLDER CONFIG`` runs it in an artifact root with a run
config of the job ``lifecycle`` (YAML), and prints the seconds of each stage. Shards are drawn side
by side by processes, training is the same child program. Left out is what Dagster does beside
calling the stages: runs, events and check results in its storage, and a process for each step.
"""

from __future__ import annotations

import inspect
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import yaml

from benchmarks.lifecycle_setting import DAY, RUN


class Script:
    """The resources, a context, and how long each stage took."""

    def __init__(self, ops: Mapping[str, Any] | None = None) -> None:
        from pipelines.definitions import defs

        self.ops = ops or {}
        self.resources = dict(defs.resources or {}) | {"trainer": Trainer()}
        self.seconds: dict[str, float] = {}
        self.partition = RUN

    def call(self, function: Callable[..., Any], **given: Any) -> Any:
        """Call a stage's plain function with what its parameters ask for."""
        own = {"context": _context(self.partition)} | self.resources | given
        return function(**{name: own[name] for name in inspect.signature(function).parameters})

    def stage(self, definition: Any, config: type | None = None) -> None:
        """Run an asset's or a check's function."""
        started = perf_counter()
        name = definition.op.name
        given = {"config": config(**self._settings(name))} if config else {}
        found = self.call(body(definition), **given)
        if inspect.isgenerator(found):
            list(found)
        self.seconds[name] = round(perf_counter() - started, 2)

    def sample(self, name: str, plan: Any, collect: Any, config: type) -> None:
        """Run a stage that samples: plan, draw the shards in processes, collect."""
        started = perf_counter()
        made = list(self.call(body(plan), config=config(**self._settings(name))))
        shards = [one.value for one in made if one.output_name == "shards"]
        (planned,) = [one.value for one in made if one.output_name != "shards"]
        counts = self._draw(shards)
        self.call(body(collect), plan=planned, sets=planned, shards=counts)
        self.seconds[name] = round(perf_counter() - started, 2)

    def _settings(self, name: str) -> dict[str, Any]:
        own = dict(self.ops.get(name, {}).get("config", {}))
        if name == "grpo_policy":
            from assets.training.config import TrlConfig

            own["trainer"] = TrlConfig(**own["trainer"]["trl"])
        return own

    def _draw(self, shards: Sequence[dict[str, Any]]) -> list[Any]:
        with multiprocessing.get_context("spawn").Pool(max(1, len(shards))) as pool:
            return pool.map(_shard, shards)


def _shard(work: dict[str, Any]) -> Any:
    from assets.rollouts.sampling import sample_shard

    return Script().call(body(sample_shard), work=work)


class Trainer:
    """Runs the training program and waits for it."""

    def run(self, context: Any, program: Any, folder: Path, *_: Any, **__: Any) -> dict[str, Any]:
        """Return nothing: what the program reports to Dagster is left out."""
        from text2sql.common.processes import GuardedProcess

        with GuardedProcess(program.command, folder / "train.log", os.environ) as child:
            while (status := child.wait(1.0)) is None:
                continue
        if status:
            raise RuntimeError(f"training failed: see {folder / 'train.log'}")
        return {}


def body(definition: Any) -> Callable[..., Any]:
    """Return the plain function of an asset, a check or an op."""
    op = getattr(definition, "op", definition)
    function: Callable[..., Any] = op.compute_fn.decorated_fn
    return function


def _context(partition: str) -> Any:
    """Return what the stages use of a context; what they log goes nowhere."""
    quiet = SimpleNamespace(**dict.fromkeys(("info", "warning", "error"), lambda text: None))
    tags = {"dagster/partition": partition}
    run = SimpleNamespace(run_id="script", parent_run_id=None, root_run_id=None)
    run.run_config, run.tags, run.asset_selection = {}, tags, None
    layer = SimpleNamespace(executable_asset_keys=[], asset_graph=None)
    return SimpleNamespace(
        log=quiet,
        log_event=lambda event: None,
        run=run,
        run_id=run.run_id,
        partition_key=partition,
        has_partition_key=True,
        asset_key=None,
        instance=SimpleNamespace(all_logs=lambda run_id, of_type: []),
        job_def=SimpleNamespace(asset_layer=layer),
    )


def run_all(ops: Mapping[str, Any]) -> dict[str, float]:
    """Run every stage of the lifecycle and of a day's answers; return their seconds."""
    from assets.data import bird, known_issues, strength
    from assets.evaluation import dev_rollouts
    from assets.evaluation import dev_scores as evaluation
    from assets.promotion import champion
    from assets.reporting import answers as reporting
    from assets.reporting import questions as report_questions
    from assets.training import difficulty
    from assets.training import grpo as training

    training.require_passed = lambda *_: None  # its verdict is in Dagster's storage
    script = Script(ops)
    script.stage(report_questions.report_questions, report_questions.ReportQuestionsConfig)
    script.stage(bird.bird_archive, bird.BirdConfig)
    script.stage(bird.bird_questions, bird.QuestionsConfig)
    script.stage(bird.bird_databases, bird.DatabasesConfig)
    script.stage(bird.gold_results, bird.GoldConfig)
    script.stage(strength.reward_strength, strength.StrengthConfig)
    script.stage(known_issues.known_issues, known_issues.KnownIssuesConfig)
    base = (difficulty.plan_base_rollouts, difficulty.collect_base_rollouts)
    script.sample("base_rollouts", *base, difficulty.BaseRolloutsConfig)
    script.stage(difficulty.training_prompts, difficulty.TrainingPromptsConfig)
    script.stage(difficulty.prompts_can_teach)
    script.stage(training.grpo_policy, training.GrpoConfig)
    dev = (dev_rollouts.plan_dev_rollouts, dev_rollouts.collect_dev_rollouts)
    script.sample("dev_rollouts", *dev, dev_rollouts.DevRolloutsConfig)
    script.stage(evaluation.dev_scores, evaluation.ScoresConfig)
    script.stage(champion.model_card)
    script.stage(champion.champion_policy, champion.ChampionConfig)
    script.partition = DAY
    script.stage(reporting.report_answers, reporting.ReportAnswersConfig)
    return script.seconds


if __name__ == "__main__":
    os.environ["TEXT2SQL_ROOT"] = sys.argv[1]
    settings = yaml.safe_load(Path(sys.argv[2]).read_text(encoding="utf-8"))
    print(json.dumps(run_all(settings["ops"])))
