"""The folders that each asset's result depends on: they make its code version.

Dagster shows an asset as outdated if its code version differs from that of its last
materialization; everything downstream follows once its data version has changed. So a folder is
listed for the assets whose own work it shapes, not for those that only read their results. Whole
folders, so that a new module counts without an edit here.
"""

from __future__ import annotations

from functools import cache

from text2sql.common.provenance import behaviour_version, code_version

SANDBOX = ("text2sql/sandbox",)
JUDGE = ("text2sql/judge", *SANDBOX)
SCHEMA = ("text2sql/agent/schema",)
STORED = ("text2sql/datasets/stored.py",)
GOLDS = ("text2sql/datasets/gold", *JUDGE)
DATABASES = ("text2sql/datasets/reading", *SCHEMA)
ROLLOUTS = ("text2sql/agent", "text2sql/policy", "text2sql/rollouts", *JUDGE)
RATING = (
    *("text2sql/training/difficulty.py", "text2sql/training/prompts.py"),
    "text2sql/training/runs.py",
)
SAMPLING = ("assets/rollouts", "resources/policy.py", *STORED, *RATING, *ROLLOUTS)
INGESTION = ("assets/data", "assets/checks", "text2sql/datasets", *SCHEMA, *SANDBOX)
SCORING = ("assets/evaluation", "text2sql/evaluation", "text2sql/judge", *STORED)
PROMOTION = ("assets/promotion", "text2sql/evaluation", "text2sql/training/runs.py")
BACK_TEST = ("text2sql/reporting/answering", "text2sql/policy/places.py", *SANDBOX)

SOURCES: dict[str, tuple[str, ...]] = {
    "bird_archive": INGESTION,
    "bird_questions": INGESTION,
    "bird_databases": INGESTION,
    "gold_results": (*INGESTION, *JUDGE),
    "reward_strength": ("assets/data", "text2sql/datasets/strength.py", *STORED, *JUDGE),
    "known_issues": ("assets/data", "text2sql/evaluation", *STORED, *JUDGE),
    "base_rollouts": ("assets/training", *SAMPLING),
    "training_prompts": ("assets/training", "assets/checks", *STORED, *RATING),
    "grpo_policy": ("assets/training", "text2sql/training", *ROLLOUTS),
    "dev_rollouts": ("assets/evaluation", *SAMPLING),
    "dev_scores": SCORING,
    "held_out_rollouts": ("assets/evaluation", "text2sql/evaluation", *SAMPLING),
    "held_out_scores": SCORING,
    "model_card": PROMOTION,
    "champion_policy": (*PROMOTION, *BACK_TEST),
    "report_questions": ("assets/reporting", "text2sql/reporting", "text2sql/datasets/pocket"),
    "report_answers": (
        *("assets/reporting", "text2sql/reporting", "text2sql/evaluation/promotion"),
        *ROLLOUTS,
    ),
}

ROLLOUT_BEHAVIOUR = (
    *("text2sql/agent", "text2sql/judge", "text2sql/rollouts", "text2sql/sandbox"),
    *("text2sql/policy/calls.py", "text2sql/policy/served"),
)
"""What shapes a rollout apart from its policy, prompts, data and sampling."""

TRAINING_BEHAVIOUR = {
    "trl": ("text2sql/training/trl",),
    "prime_rl": ("text2sql/training/prime_rl", "text2sql/training/verifiers_env.py"),
}
"""What shapes a training run apart from its rollouts, by backend."""


def version_for(asset: str) -> str:
    """Return the code version of an asset."""
    return code_version(*SOURCES[asset])


@cache
def rollout_version() -> str:
    """Return a version of the code that shapes rollouts.

    It is computed once, since a process continues with the code that it has loaded.
    """
    return behaviour_version(*ROLLOUT_BEHAVIOUR)


@cache
def training_version(backend: str) -> str:
    """Return a version of the code that shapes a training run with this backend."""
    kind = "trl" if backend == "trl" else "prime_rl"
    return behaviour_version(*ROLLOUT_BEHAVIOUR, *TRAINING_BEHAVIOUR[kind])
