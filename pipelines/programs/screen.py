"""A run on the screen: a line for each finished stage, and one that moves."""

from __future__ import annotations

import sys

import dagster as dg

from pipelines.runs.launch import Progress, Stage
from pipelines.runs.pool_waits import PoolWaits
from text2sql.common.counting import counted

LABELS = {
    "bird_archive": "corpus",
    "bird_questions": "questions",
    "bird_databases": "databases",
    "gold_results": "gold queries",
    "reward_strength": "reward strength",
    "known_issues": "known issues",
    "base_rollouts": "base rollouts",
    "training_prompts": "difficulty filter",
    "grpo_policy": "GRPO",
    "dev_rollouts": "dev rollouts",
    "dev_scores": "scores",
    "model_card": "model card",
    "champion_policy": "champion",
    "report_questions": "business questions",
    "report_answers": "answers",
}


class Screen:
    """Shows a line for each finished stage and, on a terminal, one that moves."""

    def __init__(self, instance: dg.DagsterInstance | None = None) -> None:
        """Look whether there is a terminal; ``instance`` knows who holds a pool."""
        self.live = sys.stdout.isatty()
        self._waits = PoolWaits(instance) if instance else None
        self._seen = 0

    def finished(self, stage: Stage) -> None:
        """Print a finished stage."""
        self._print(f"  {_label(stage.name):<20}{stage.seconds:7.1f} s  {_note(stage)}")

    def tick(self, progress: Progress) -> None:
        """Show what is going on, and once what a stage waits for."""
        self._tell_waits(progress)
        running = [stage for stage in progress.stages.values() if stage.ended is None]
        running = [stage for stage in running if stage.name in LABELS]
        if self.live and running:
            stage = running[-1]
            text = f"  {LABELS[stage.name]:<20}{stage.seconds:7.1f} s  {_moving(stage)}"
            print(f"\r\x1b[K{text.rstrip()} ...", end="", flush=True)

    def _tell_waits(self, progress: Progress) -> None:
        for name, pool in progress.waits[self._seen :]:
            if self._waits and (words := self._waits.sentence(progress.run_id, name, pool)):
                self._print(f"  {_label(name):<20}{words}")
        self._seen = len(progress.waits)

    def _print(self, line: str) -> None:
        """Print a line of its own, in place of the one that moves."""
        clear = "\r\x1b[K" if self.live else ""
        print(f"{clear}{line}".rstrip(), flush=True)


def _label(name: str) -> str:
    return LABELS.get(name, name)


def _note(stage: Stage) -> str:
    """Say what a finished stage came to."""
    values = stage.metadata
    if stage.name == "training_prompts":
        return f"{counted(values['prompts'], 'prompt')} kept"
    if stage.name in ("base_rollouts", "dev_rollouts"):
        return counted(values["new"], "new rollout")
    if stage.name == "grpo_policy":
        return "reused" if values["reused"] else f"on {counted(values['prompts'], 'prompt')}"
    if stage.name == "dev_scores":
        base, trained = (_share(values.get(f"{policy} greedy")) for policy in ("base", "trained"))
        return f"greedy {base} -> {trained}"
    return ""


def _share(value: float | None) -> str:
    return "no result" if value is None else f"{value:.1%}"


def _moving(stage: Stage) -> str:
    latest = stage.latest
    if "step" not in latest:
        return ""
    return f"step {latest['step']}, reward {latest.get('reward', 0):.2f}"
