"""The sources that each asset's result depends on: what makes its code version.

An asset whose code version is another than that of its last materialization is outdated in
Dagster; what follows is outdated once its data version has changed. So a source stands at the
assets whose own work it shapes, and not at those that only read their results.
"""

from __future__ import annotations

from functools import cache

from assets.versions import behaviour_version, code_version


def _library(*names: str) -> tuple[str, ...]:
    return tuple(f"text2sql/{name}" for name in names)


def _assets(*names: str) -> tuple[str, ...]:
    return tuple(f"assets/{name}.py" for name in names)


SANDBOX = _library("sandbox")
JUDGE = (*_library("judge.py"), *SANDBOX)
SCHEMA = _library("description_rows.py", "descriptions.py", "render.py", "schema.py")
AGENT = (
    *_library("agent.py", "prompts.py", "questions.py", "settings.py"),
    *_library("schema_text.py", "thinking.py", "tool_calls.py", "tools.py"),
    *SCHEMA,
)
ROLLOUTS = (*AGENT, *JUDGE, *_library("policy", "rollouts.py", "rollout_store.py"))
SAMPLING = (
    *ROLLOUTS,
    *_library("difficulty.py"),
    *_assets("rollout_sets", "sampling"),
    "resources/policy.py",
)
SCORING = (
    *_assets("evaluated_sets", "evaluating", "rivals"),
    *_library("evaluation.py", "evaluation_report", "failures", "known_issues.py"),
    *_library(
        "outcomes.py", "parts.py", "scores.py", "statistics.py", "vote_curve.py", "voting.py"
    ),
    *_library("efficiency.py", "rule_scores.py", "rules.py", "submissions.py"),
)
EXPECTATIONS = _assets("checks_page", "expectations", "expectations_view", "split_checks", "suites")
GOLDS = (*_library("datasets/checks.py"), *JUDGE)
FLAGS = _library(
    *(f"datasets/gold_{name}.py" for name in ("casts", "findings", "flags", "limits")),
    *(f"datasets/{name}.py" for name in ("aggregates", "bare_columns", "concatenations")),
    *(f"datasets/{name}.py" for name in ("extremes", "parsing", "row_numbers")),
    *(f"datasets/text_{name}.py" for name in ("keys", "numbers")),
)

SOURCES: dict[str, tuple[str, ...]] = {
    "bird_archive": (
        *_assets("bird", "bird_config", "bird_splits"),
        *_library(
            *(f"datasets/{name}.py" for name in ("archives", "databases", "layout", "sources")),
            "datasets/pocket",
        ),
    ),
    "bird_questions": (
        *_assets("bird", "bird_config", "bird_splits", "data"),
        *_library(*(f"datasets/{name}.py" for name in ("bird", "databases", "gold_file", "rows"))),
        *_library("datasets/json_rows.py", "datasets/text_files.py"),
        *EXPECTATIONS,
    ),
    "bird_databases": (
        *_assets("bird"),
        *_library("datasets/checks.py", "datasets/reports.py"),
        *SCHEMA,
        *SANDBOX,
        *EXPECTATIONS,
    ),
    "gold_results": (
        *_assets("bird", "bird_config", "gold"),
        *_library("datasets/dialects.py"),
        *GOLDS,
        *FLAGS,
        *EXPECTATIONS,
    ),
    "reward_strength": (
        *_assets("strength"),
        *_library("strength", "known_results.py"),
        *JUDGE,
    ),
    "known_issues": (*_assets("known_issues"), *_library("known_issues.py"), *JUDGE),
    "base_rollouts": (*_assets("difficulty", "difficulty_config"), *SAMPLING),
    "training_prompts": (
        *_assets("difficulty", "difficulty_config", "prompt_files"),
        *_library("difficulty.py"),
    ),
    "grpo_policy": (
        *_assets("trainers", "training", "training_config", "training_plan"),
        *_library("training", "environment.py"),
        *ROLLOUTS,
    ),
    "dev_rollouts": (*_assets("dev_config", "dev_rollouts", "rivals"), *SAMPLING),
    "dev_scores": (*_assets("evaluation"), *SCORING),
    "held_out_rollouts": (*_assets("held_out"), *_library("held_out.py"), *SAMPLING),
    "held_out_scores": (*_assets("held_out"), *_library("held_out.py"), *SCORING),
    "model_card": _library("model_card.py", "score_table.py"),
    "champion_policy": (
        *_assets("back_test", "champion"),
        *_library("candidate.py", "champion.py", "champion_history.py"),
        *_library("promoting.py", "promotion.py"),
    ),
    "report_questions": (
        *_assets("report_questions"),
        *_library("datasets/pocket/business.py"),
        *_library("reporting/question_file.py", "reporting/questions.py", "reporting/seeding.py"),
    ),
    "report_answers": (
        *_assets("report_config", "reporting"),
        *_library("reporting", "voting.py"),
        *ROLLOUTS,
    ),
}

ROLLOUT_BEHAVIOUR = (
    *AGENT,
    *_library(
        "judge.py", "policy/calls.py", "policy/json_calls.py", "policy/replies.py", "rollouts.py"
    ),
    *(f"text2sql/sandbox/{name}.py" for name in ("connection", "execution", "limits", "results")),
    *(
        f"text2sql/sandbox/{name}.py"
        for name in ("forms", "statements", "tokens", "work", "write_forms")
    ),
)
"""What shapes a rollout beside its policy, prompts, data and sampling."""

TRAINING_BEHAVIOUR = {
    "trl": _library(*(f"training/{name}.py" for name in ("config", "environment", "trl"))),
    "prime_rl": _library(
        "environment.py", *(f"training/prime_rl/{name}.py" for name in ("settings", "toml"))
    ),
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
