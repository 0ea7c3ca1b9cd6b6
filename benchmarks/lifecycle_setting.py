"""What the benchmarks of whole lifecycles share: a small one, with the pocket policy."""

from __future__ import annotations

from typing import Any

RUN, DAY = "bench", "2026-03-02"
SIZES = {"train": 96, "new_databases": 24, "unseen_words": 16, "general": 8}
TRL = {"steps": 6, "groups_per_step": 8, "group_size": 8, "save_every": 3, "seed": 1}

OPS: dict[str, dict[str, Any]] = {
    "bird_archive": {"sizes": SIZES},
    "base_rollouts": {"shards": 2, "samples": 8},
    "training_prompts": {"minimum_prompts": 8},
    "grpo_policy": {"trainer": {"trl": TRL}},
    "dev_rollouts": {"shards": 2, "samples": 8, "single_turn": False},
}
"""The settings of the stages that have others than their own."""

TINY: dict[str, dict[str, Any]] = {
    "bird_archive": {"sizes": {"train": 48, "new_databases": 8, "unseen_words": 4, "general": 0}},
    "training_prompts": {"minimum_prompts": 4},
    "grpo_policy": {
        "trainer": {"trl": {"steps": 2, "groups_per_step": 4, "group_size": 4, "save_every": 1}}
    },
}
"""What is smaller where many runs are made."""


def run_config(only: list[str] | None = None, tiny: bool = False) -> dict[str, Any]:
    """Return the run config of the lifecycle, or of some of its assets."""
    every = OPS | (TINY if tiny else {})
    ops = {name: {"config": own} for name, own in every.items() if only is None or name in only}
    return {"ops": ops}
