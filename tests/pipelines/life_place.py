"""A whole small life for tests of what it leaves: two training runs of the pocket policy.

``first`` is trained from the base and made champion by hand; ``second`` is started by
``text2sql train`` from the champion, with a difficulty filter of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from pipelines.definitions import defs
from pipelines.home import open_instance
from pipelines.partitions import add_training_run
from resources.policy import PolicyResource
from text2sql.evaluation.promotion.changes import promote_by_hand
from text2sql.evaluation.promotion.gate import GateRules

FIRST, SECOND = "first", "second"
SIZES = {"train": 16, "new_databases": 4, "unseen_words": 2, "general": 0}
SAMPLED = {"shards": 1, "samples": 4}
OPS: dict[str, Any] = {
    "bird_archive": {"config": {"sizes": SIZES}},
    "base_rollouts": {"config": SAMPLED},
    "training_prompts": {"config": {"minimum_prompts": 2, "minimum_valid": 2}},
    "grpo_policy": {
        "config": {"trainer": {"trl": {"steps": 1, "groups_per_step": 2, "group_size": 4}}}
    },
    "dev_rollouts": {"config": SAMPLED | {"single_turn": False}},
    "dev_scores": {"config": {"other_rules": False}},
}
DATA = ("bird_archive", "bird_questions", "bird_databases", "gold_results")
ABOUT_GOLD = ("reward_strength", "known_issues")
FILTERED = ("base_rollouts", "training_prompts")
EVALUATED = ("dev_rollouts", "dev_scores", "model_card")
ALL = (*DATA, *ABOUT_GOLD, *FILTERED, "grpo_policy", *EVALUATED)
QUIET = {"console": {"config": {"log_level": "CRITICAL"}}}

needs_weights = pytest.mark.skipif(
    not any(PolicyResource().directory().glob("*.safetensors")),
    reason="the pocket policy's weights are not here",
)


@dataclass(frozen=True)
class Life:
    """An artifact root with two training runs, and the versions of the first one's assets."""

    root: Path
    instance: dg.DagsterInstance
    first: dict[str, str]
    again: dict[str, str]
    said: str

    def materialize(self, names: tuple[str, ...], run: str = FIRST, **ops: Any) -> dict[str, str]:
        """Materialize assets in this process; return their data versions."""
        return materialize(self.instance, names, run, OPS | ops)


def materialize(
    instance: dg.DagsterInstance, names: tuple[str, ...], run: str, ops: dict[str, Any]
) -> dict[str, str]:
    """Materialize assets of the lifecycle in this process; return their data versions."""
    result = defs.resolve_job_def("lifecycle").execute_in_process(
        instance=instance,
        partition_key=run,
        asset_selection=[dg.AssetKey(name) for name in names],
        run_config={"ops": {k: v for k, v in ops.items() if k in names}, "loggers": QUIET},
    )
    return {
        event.asset_key.to_user_string(): event.materialization.tags["dagster/data_version"]
        for event in result.get_asset_materialization_events()
    }


def train(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``text2sql train`` as people do."""
    program = "from text2sql.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "train", *arguments],
        env=os.environ | {"TEXT2SQL_ROOT": str(root)},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """Train, run again, promote, and train a second round from the champion."""
    root = tmp_path_factory.mktemp("life") / "root"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEXT2SQL_ROOT", str(root))
        patch.setenv("DAGSTER_HOME", "")
        with open_instance() as instance:
            add_training_run(instance, FIRST)
            first = materialize(instance, ALL, FIRST, OPS)
            again = materialize(instance, ALL, FIRST, OPS)
            promote_by_hand(root, FIRST, "the first there is", GateRules())
            config = root / "second.yaml"
            ops = {name: OPS[name] for name in OPS if name != "bird_archive"}
            config.write_text(yaml.safe_dump({"ops": ops}))
            done = train(root, SECOND, "--from", "champion", "--config", str(config))
            assert done.returncode == 0, done.stdout + done.stderr
            yield Life(root, instance, first, again, done.stdout)
