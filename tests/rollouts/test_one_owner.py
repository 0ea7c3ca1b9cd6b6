"""Rollouts are drawn, judged and voted on in one place."""

import ast
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PACKAGES = ("text2sql", "text2sql_env", "assets", "resources", "pipelines")


def importers(name):
    """Return the product's modules that import a name from another module."""
    return {
        str(file.relative_to(REPO))
        for package in PACKAGES
        for file in (REPO / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}
    }


def test_only_trainers_run_the_loop_themselves():
    assert importers("run_episode") == {
        "text2sql/rollouts/draw.py",
        "text2sql/training/trl/rollouts.py",
        "text2sql/training/verifiers_env.py",
    }


def test_only_replays_and_prediction_files_vote_on_something_else_than_rollouts():
    assert importers("vote") == {
        "text2sql/rollouts/draw.py",
        "text2sql/evaluation/predictions/vote.py",
        "text2sql/reporting/answering/replay.py",
    }


def test_everyone_who_draws_uses_the_plan():
    assert importers("RolloutPlan") == {
        "assets/rollouts/sampling.py",
        "text2sql/evaluation/predictions/predict.py",
        "text2sql/reporting/answering/attempt.py",
        "text2sql/rollouts/ask.py",
    }
