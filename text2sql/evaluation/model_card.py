"""The model card of a trained policy: what it is, how it was made, what it scored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from text2sql.common.counting import counted
from text2sql.evaluation.scores import (
    SINGLE_TURN,
    TRAINED,
    Score,
    Scores,
    markdown_table,
    score_rows,
)
from text2sql.evaluation.slices import EMPTY, FAILING, GOLD

NAMED = {
    "dataset": "dataset fingerprint",
    "prompt_revision": "prompt revision",
    "code_version": "code version",
    "sampling": "sampling",
    "known_issues": "known issues",
    "dagster_run": "Dagster run",
}


def render_card(name: str, scores: Scores, training: Mapping[str, Any]) -> str:
    """Return the card as Markdown.

    ``training`` says what the policy was trained from and with: ``base``, ``base_revision``,
    ``policy_revision``, ``prompts``, ``seconds``, ``settings``; of a second round also ``start``.
    """
    named = "\n".join(
        f"- {label}: {scores.provenance[key]}"
        for key, label in NAMED.items()
        if key in scores.provenance
    )
    return f"""---
library_name: transformers
tags: [text-to-sql, grpo]
{_model_index(name, scores)}
---
# {name}

A text-to-SQL agent for SQLite: `{training["base"]}` (revision {training["base_revision"]}) after
GRPO on execution reward{_earlier_round(training)}. Revision {training["policy_revision"]}.

## Training

{_about_training(training)}

## Scores

{_about_scores(scores)}

## What the numbers do not say

They hold for these databases and this way of asking. Equal results on one database are not always
equal queries: a wrong operator that returns the same rows counts as right.

## Provenance

{named}
"""


def _about_training(training: Mapping[str, Any]) -> str:
    settings = "\n".join(f"- {key}: {value}" for key, value in training["settings"].items())
    prompts = counted(training["prompts"], "prompt")
    return f"""\
{prompts} that the base solves sometimes but not always; {training["seconds"]:g}
seconds. A rollout earns 1.0 for the gold result, 0.1 for another result, -1.0 for trying to write
and 0.0 for everything else.

{settings}"""


def _about_scores(scores: Scores) -> str:
    rows = markdown_table(score_rows(scores))
    verdicts = ", ".join(f"{verdict} {n}" for verdict, n in scores.verdicts[TRAINED].items())
    questions = counted(scores.questions, "question")
    return f"""\
Execution accuracy by BIRD's official rule (results as sets of rows), in percent, with 95 %
intervals, on the {scores.split} split: {scores.metric}.
*greedy* is one rollout at temperature 0;{_about_single_turn(scores)}
*vote@{scores.k}* the answer that most of {scores.k} sampled rollouts agree on; *pass@{scores.k}*
whether any of them is right; *mean@{scores.k}* their average.
*gained* and *lost* count questions that only the trained or only the base policy answers; *p* is
McNemar's exact test.{_about_base(scores)}{_about_parts(scores)}

{rows}

Without a valid result: {scores.missing[TRAINED]} of {questions}. Greedy verdicts:
{verdicts}. {scores.write_rate[TRAINED]:.2%} of all rollouts tried to write."""


def _earlier_round(training: Mapping[str, Any]) -> str:
    """Say which training run's policy it was trained from, where it was not the base's."""
    run = training.get("start", {}).get("training_run")
    return f", trained on from the run {run} (revision {training['start_revision']})" if run else ""


def _model_index(name: str, scores: Scores) -> str:
    """Return the scores on the whole split as Hugging Face's metadata has results.

    Its form: https://huggingface.co/docs/hub/model-cards. JSON text is YAML as well.
    """
    fingerprint, split = scores.provenance.get("dataset", "unknown"), scores.split
    metrics = "".join(
        f"""
        - type: execution_accuracy
          name: {json.dumps(_metric_name(score, scores.questions))}
          value: {100 * score.value:.2f}"""
        for score in scores.scores
        if (score.policy, score.part) == (TRAINED, "all") and score.n
    )
    return f"""model-index:
  - name: {json.dumps(name)}
    results:
      - task:
          type: text-generation
          name: Text-to-SQL
        dataset:
          type: text-to-sql
          name: {json.dumps(f"{split} questions of the dataset {fingerprint}")}
          split: {split}
          revision: {json.dumps(fingerprint)}
        metrics:{metrics or " []"}"""


def _metric_name(score: Score, questions: int) -> str:
    """Name a setting with its interval; one that lacks questions says so."""
    ends = f"95 % interval {100 * score.low:.1f} to {100 * score.high:.1f}"
    partial = (
        "" if score.n == questions else f", partial: {score.n} of {counted(questions, 'question')}"
    )
    return f"Execution accuracy in percent, {score.setting} ({ends}{partial})"


def _about_single_turn(scores: Scores) -> str:
    """Say what single-turn means, where it was asked."""
    if scores.find(TRAINED, SINGLE_TURN) is None:
        return ""
    return f" *{SINGLE_TURN}* is one reply without tools, with the schema in the prompt;"


def _about_base(scores: Scores) -> str:
    return "".join(f" {sentence}" for sentence in scores.notes)


def _about_parts(scores: Scores) -> str:
    """Say what strong, weak and corrected mean, where there are such rows."""
    text = ""
    if scores.strong is not None:
        text += f"""

*strong* are questions whose reward strength is at least {scores.strong:g}: the share of the gold
query's near-misses that return something else on this database. *weak* are the others with a
score."""
    if scores.find(TRAINED, "greedy", GOLD, EMPTY):
        text += f"""

*{EMPTY}* are questions whose gold query returns nothing: any query that returns nothing matches.
They count in the official number."""
    if scores.find(TRAINED, "greedy", GOLD, FAILING):
        text += f"""

*{FAILING}* are questions whose gold query does not run: nothing matches it. They count in the
official number."""
    if scores.issues:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(scores.issues.items()))
        text += f"""

*corrected* is judged by the list of known issues ({kinds}), without flagged questions. Everything
else is official."""
    return text
