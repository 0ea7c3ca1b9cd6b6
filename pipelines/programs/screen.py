"""A run on the screen: a line for each finished stage, and a live one."""

from __future__ import annotations

import sys

from pipelines.runs.progress import RunProgress, Stage
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
    """Shows a line for each finished stage and, on a terminal, a live one."""

    def __init__(self) -> None:
        """Find out whether there is a terminal."""
        self.live = sys.stdout.isatty()
        self._waits: set[tuple[str, str]] = set()

    def finished(self, stage: Stage) -> None:
        """Print a finished stage."""
        self._print(f"  {_label(stage.name):<20}{stage.seconds:7.1f} s  {_note(stage)}")

    def tick(self, progress: RunProgress) -> None:
        """Show the stage at work, and once that a stage waits for a pool."""
        for name, pool in progress.pools.items():
            if (name, pool) not in self._waits:
                self._print(f"  {_label(name):<20}waits for the pool {pool}")
                self._waits.add((name, pool))
        running = [stage for stage in progress.stages.values() if stage.ended is None]
        running = [stage for stage in running if stage.name in LABELS]
        if self.live and running:
            stage = running[-1]
            text = f"  {LABELS[stage.name]:<20}{stage.seconds:7.1f} s  {_moving(stage)}"
            print(f"\r\x1b[K{text.rstrip()} ...", end="", flush=True)

    def _print(self, line: str) -> None:
        """Print a line, in place of the live one."""
        clear = "\r\x1b[K" if self.live else ""
        print(f"{clear}{line}".rstrip(), flush=True)


def _label(name: str) -> str:
    return LABELS.get(name, name)


def _note(stage: Stage) -> str:
    """Return the result of a finished stage in a few words."""
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
