"""The folders that each asset's result depends on: what makes its code version.

An asset whose code version is another than that of its last materialization is outdated in
Dagster; what follows is outdated once its data version has changed. So a folder stands at the
assets whose own work it shapes, and not at those that only read their results. Whole folders, so
that a new module counts without anybody's doing.
"""

from __future__ import annotations

from functools import cache

from assets.common.versions import behaviour_version, code_version

SANDBOX = ("text2sql/sandbox",)
JUDGE = ("text2sql/judge", *SANDBOX)
SCHEMA = ("text2sql/agent/schema",)
GOLDS = ("text2sql/datasets/gold", *JUDGE)
ROLLOUTS = ("text2sql/agent", "text2sql/policy", "text2sql/rollouts", *JUDGE)
SAMPLING = ("assets/rollouts", "resources/policy.py", *ROLLOUTS)
INGESTION = ("assets/data", "assets/checks", "text2sql/datasets", *SCHEMA, *SANDBOX)
SCORING = ("assets/evaluation", "text2sql/evaluation", "text2sql/judge")

SOURCES: dict[str, tuple[str, ...]] = {
    "bird_archive": INGESTION,
    "bird_questions": INGESTION,
    "bird_databases": INGESTION,
    "gold_results": (*INGESTION, *JUDGE),
    "reward_strength": ("assets/data", *JUDGE),
    "known_issues": ("assets/data", "text2sql/evaluation", *JUDGE),
    "base_rollouts": ("assets/training", "text2sql/training/difficulty.py", *SAMPLING),
    "training_prompts": (
        *("assets/training", "assets/checks"),
        *("text2sql/training/difficulty.py", "text2sql/training/prompts.py"),
    ),
    "grpo_policy": ("assets/training", "text2sql/training", *ROLLOUTS),
    "dev_rollouts": ("assets/evaluation", *SAMPLING),
    "dev_scores": SCORING,
    "held_out_rollouts": ("assets/evaluation", "text2sql/evaluation", *SAMPLING),
    "held_out_scores": SCORING,
    "model_card": ("assets/evaluation", "text2sql/evaluation"),
    "champion_policy": ("assets/promotion", "text2sql/evaluation/promotion"),
    "report_questions": ("assets/reporting", "text2sql/reporting", "text2sql/datasets/pocket"),
    "report_answers": ("assets/reporting", "text2sql/reporting", *ROLLOUTS),
}

ROLLOUT_BEHAVIOUR = (
    *("text2sql/agent", "text2sql/judge", "text2sql/rollouts", "text2sql/sandbox"),
    *("text2sql/policy/calls", "text2sql/policy/served"),
)
"""What shapes a rollout beside its policy, prompts, data and sampling."""

TRAINING_BEHAVIOUR = {
    "trl": ("text2sql/training/trl",),
    "prime_rl": ("text2sql/training/prime_rl", "text2sql/training/verifiers_env.py"),
}
"""What shapes a training run beside its rollouts, by backend."""


def version_for(asset: str) -> str:
    """Return the code version of an asset."""
    return code_version(*SOURCES[asset])


@cache
def rollout_version() -> str:
    """Return what rollouts must have in common beside policy, prompts, data and sampling.

    It is looked up once: a process goes on with the code that it has loaded.
    """
    return behaviour_version(*ROLLOUT_BEHAVIOUR)


@cache
def training_version(backend: str) -> str:
    """Return a version of the code that shapes a training run with this backend."""
    kind = "trl" if backend == "trl" else "prime_rl"
    return behaviour_version(*ROLLOUT_BEHAVIOUR, *TRAINING_BEHAVIOUR[kind])
