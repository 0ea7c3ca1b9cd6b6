"""The model card of a trained policy: what it is, how it was made, and its scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jinja2

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
    """Return the card as Markdown, its metadata in the form that Hugging Face reads.

    ``training`` describes how the policy was trained: ``base``, ``base_revision``,
    ``policy_revision``, ``prompts``, ``seconds``, ``settings``; of a second round also ``start``.
    The metadata's form: https://huggingface.co/docs/hub/model-cards.
    """

    def metric_name(score: Score) -> str:
        interval = f"95 % interval {100 * score.low:.1f} to {100 * score.high:.1f}"
        partial = scores.partial(TRAINED, score.setting)
        shown = f"{score.setting} ({interval}{', ' if partial else ''}{partial})"
        return f"Execution accuracy in percent, {shown}"

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("text2sql.evaluation"),
        autoescape=False,  # Markdown, not HTML; the table's cells are escaped already
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # JSON text is YAML as well, whatever characters a name has.
    environment.filters |= {"json": json.dumps, "counted": counted, "metric_name": metric_name}
    return environment.get_template("model_card.md").render(
        name=name,
        scores=scores,
        training={"start": {}, **training},
        trained=TRAINED,
        fingerprint=scores.provenance.get("dataset", "unknown"),
        metrics=[
            one for one in scores.scores if (one.policy, one.part) == (TRAINED, "all") and one.n
        ],
        has=lambda *about: scores.find(TRAINED, *about) is not None,
        single_turn=SINGLE_TURN,
        gold=GOLD,
        empty=EMPTY,
        failing=FAILING,
        table=markdown_table(score_rows(scores)),
        named=NAMED,
    )
