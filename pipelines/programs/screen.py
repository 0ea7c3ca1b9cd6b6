"""A run on the screen: a line for each finished stage, and a live one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.runs.launch import CommandRuns
from pipelines.runs.progress import RunProgress, Stage
from text2sql.common.counting import counted
from text2sql.evaluation.scores import score_rows, text_table
from text2sql.evaluation.stored import read_scores

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
        self._print(stage.name, f"{stage.seconds:7.1f} s  {_note(stage)}")

    def tick(self, progress: RunProgress) -> None:
        """Show the stage at work, and once that a stage waits for a pool."""
        for name, pool in progress.pools.items():
            if (name, pool) not in self._waits:
                self._print(name, f"waits for the pool {pool}")
                self._waits.add((name, pool))
        running = [s for s in progress.stages.values() if s.ended is None and s.name in LABELS]
        if self.live and running:
            stage, latest = running[-1], running[-1].latest
            text = f"  {LABELS[stage.name]:<20}{stage.seconds:7.1f} s"
            if "step" in latest:
                text += f"  step {latest['step']}, reward {latest.get('reward', 0):.2f}"
            print(f"\r\x1b[K{text} ...", end="", flush=True)

    def _print(self, name: str, words: str) -> None:
        """Print a line about a stage, in place of the live one."""
        clear = "\r\x1b[K" if self.live else ""
        print(f"{clear}  {LABELS.get(name, name):<20}{words}".rstrip(), flush=True)


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
        shares = [values.get(f"{policy} greedy") for policy in ("base", "trained")]
        base, trained = ("no result" if share is None else f"{share:.1%}" for share in shares)
        return f"greedy {base} -> {trained}"
    return ""


def follow(runs: CommandRuns, job: str, partition: str, config: Mapping[str, Any]) -> RunProgress:
    """Run a job to its end and show its stages."""
    screen = Screen()
    return runs.run(job, partition, config, on_stage=screen.finished, on_tick=screen.tick)


def scores_text(root: Path, run: str) -> str:
    """Return the scores of a training run as a table, with a line that explains it."""
    return (
        f"\n{text_table(score_rows(read_scores(root, run), ('all', 'subset')))}\n\n"
        "Percent of questions answered right [95 % interval]; gained and lost against the base.\n"
        "Rollouts are drawn at random: another run ends some points elsewhere."
    )
