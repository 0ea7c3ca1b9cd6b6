"""A small project in which everything up to a champion has happened, made by real runs."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dagster as dg

from pipelines.definitions import defs
from pipelines.home import open_instance
from pipelines.partitions import add_training_run
from resources.policy import PolicyResource
from tests.support.interface import Interface
from tests.support.lifecycle_tools import SIZES
from tests.support.scripted_server import ScriptedServer, Step, asked_in, replies_with
from text2sql.common.json_files import write_json
from text2sql.datasets.pocket.corpus import SHIPPED_QUESTIONS
from text2sql.datasets.stored import load_questions
from text2sql.reporting.tables.question_file import read_questions

FIRST_RUN = "first"
UP_TO_PROMPTS = (
    *("bird_archive", "bird_questions", "bird_databases", "gold_results"),
    *("reward_strength", "known_issues", "base_rollouts", "training_prompts"),
)
FROM_EVALUATION = ("dev_rollouts", "dev_scores", "model_card", "champion_policy")
REMOTE = (
    "fetch stores marked remote under status",
    "SELECT name FROM stores WHERE status = 'remote'",
)
PICTURED = {"train": 64, "new_databases": 96, "unseen_words": 48, "general": 16}
"""The questions of a corpus whose evaluation looks like one in pictures."""

FEW = {"shards": 1, "samples": 8, "concurrency": 8}


class Served:
    """A policy that submits the right query with a chance; both may change while it serves.

    It is surer of what reports ask; of one question it has no idea.
    """

    def __init__(self, root: Path, chance: float) -> None:
        self.root, self.chance, self.seconds = root, chance, 0.0
        self._known: dict[str, tuple[str, float]] = {}
        self._dice = random.Random(7)

    def __call__(self, body: Mapping[str, Any]) -> Step:
        asked = asked_in(body)
        greedy = not body.get("temperature")
        luck = random.Random(asked).random() if greedy else self._dice.random()
        sql, chance = self._right(asked)
        sql = sql if luck < chance else f"SELECT {luck:.3f}"
        return replace(replies_with(sql, body), wait=self.seconds)

    def _right(self, asked: str) -> tuple[str, float]:
        if asked not in self._known:
            for split in ("train", "dev"):
                for question in load_questions(self.root, split):
                    self._known[question.question] = (question.sql, self.chance)
            for one in read_questions(SHIPPED_QUESTIONS):
                self._known[one.question] = (
                    one.verified_sql or "",
                    0.85 if one.verified_sql else 0,
                )
            self._known[REMOTE[0]] = (REMOTE[1], 0.85)
        return self._known[asked]


@contextmanager
def instance_of(root: Path) -> Iterator[dg.DagsterInstance]:
    """Open the Dagster instance of an artifact root; the environment is as before afterwards."""
    before = {name: os.environ.get(name) for name in ("TEXT2SQL_ROOT", "DAGSTER_HOME")}
    os.environ["TEXT2SQL_ROOT"] = str(root)
    try:
        with open_instance(root) as instance:
            yield instance
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def run_assets(
    instance: dg.DagsterInstance, names: tuple[str, ...], base: str = "pocket", **ops: Any
) -> dg.ExecuteInProcessResult:
    """Run some of the lifecycle's assets for the first training run, in this process."""
    config = {name: {"config": values} for name, values in ops.items()}
    return defs.resolve_job_def("lifecycle").execute_in_process(
        instance=instance,
        partition_key=FIRST_RUN,
        asset_selection=[dg.AssetKey(name) for name in names],
        raise_on_error=False,
        run_config={
            "ops": config,
            "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            "resources": {"policy": {"config": {"base": base}}},
        },
    )


class SmallProject:
    """An artifact root, the web interface on it, and the servers of its two policies.

    Each server's policy can be made slow, or better or worse, by what is in ``policies``.
    """

    def __init__(self, root: Path, interface: Interface) -> None:
        self.root, self.interface = root, interface
        self.policies = {"base": Served(root, 0.5), "champion": Served(root, 0.6)}
        self.servers = {name: self._serve(name) for name in self.policies}
        self.urls = {name: server.url for name, server in self.servers.items()}

    def __enter__(self) -> SmallProject:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.servers):
            self.stop(name)

    def _serve(self, name: str, port: int = 0) -> ScriptedServer:
        return ScriptedServer(self.policies[name], [name], port)

    def stop(self, name: str) -> None:
        """Let a policy's server go down."""
        self.servers.pop(name).__exit__()

    def start(self, name: str) -> None:
        """Let it come up again at its address."""
        self.servers[name] = self._serve(name, urlsplit(self.urls[name]).port or 0)

    def make(self, sizes: Mapping[str, int] = SIZES) -> None:
        """Ingest, filter, evaluate and promote: the champion is what the second server serves."""
        ops = {"bird_archive": {"sizes": dict(sizes)}, "base_rollouts": FEW}
        prompts, base = {"minimum_prompts": 4}, self.urls["base"]
        sampled = FEW | {"samples": 2, "single_turn": False}
        with instance_of(self.root) as instance:
            add_training_run(instance, FIRST_RUN)
            done = run_assets(instance, UP_TO_PROMPTS, base, training_prompts=prompts, **ops)
            assert done.success
            train_elsewhere(instance, self.root, base, self.urls["champion"])
            by_hand = {"action": "promote_by_hand", "reason": "the first one"}
            ops = {"dev_rollouts": sampled, "champion_policy": by_hand}
            assert run_assets(instance, FROM_EVALUATION, base, **ops).success
            assert run_assets(instance, ("report_questions",)).success


def train_elsewhere(instance: dg.DagsterInstance, root: Path, base: str, policy: str) -> None:
    """Note a policy that was trained outside: what grpo_policy would have recorded."""
    revision = PolicyResource().revision
    record = {"policy": policy, "policy_revision": revision(policy), "prompts": 9, "seconds": 1.5}
    record |= {"base": base, "base_revision": revision(base)}
    settings = {"settings": {"steps": 3}}
    write_json(root / "training" / FIRST_RUN / "training.json", record | settings)
    made = dg.AssetMaterialization("grpo_policy", "Trained elsewhere.", partition=FIRST_RUN)
    instance.report_runless_asset_event(made)
