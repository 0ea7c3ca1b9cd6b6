"""What Dagster shows of an evaluation: numbers, tables and small pictures."""

from pathlib import Path
from typing import Any

import dagster as dg

from assets.common.plots import plot, records
from text2sql.evaluation.report.charts import metadata_charts
from text2sql.evaluation.report.files import PAGE
from text2sql.evaluation.report.words import difference, interval
from text2sql.evaluation.scores import BASE, SINGLE_TURN, TRAINED, Scores, score_rows
from text2sql.evaluation.slices import ALL, CORRECTED, RULE

SHOWN = 60
"""The most rows of a table in metadata."""
PICTURE = 15_000
"""Bytes of one picture; three of them leave room for the tables within 64 KB."""


def describe_scores(folder: Path, scores: Scores) -> dict[str, Any]:
    """Return the metadata of an evaluation whose files lie in ``folder``."""
    greedy, base = (scores.find(policy, "greedy") for policy in (TRAINED, BASE))
    once, partial = scores.find(TRAINED, SINGLE_TURN), scores.partial_settings(TRAINED)
    words = [f"Greedy: {interval(greedy)}." if greedy and greedy.n else "Greedy: no valid result."]
    words += [
        difference(one, "the base")
        for one in scores.comparisons
        if (one.setting, one.part) == ("greedy", ALL)
    ]
    found: dict[str, Any] = {"what happened": " ".join([*words, *scores.notes])}
    if greedy and greedy.n:
        found["trained greedy"] = greedy.value
    if base and base.n:
        found["base greedy"] = base.value
    found["what the numbers are"] = scores.metric
    if once:
        found[f"trained {SINGLE_TURN}"] = str(once)
    if corrected := scores.find(TRAINED, "greedy", CORRECTED, CORRECTED):
        found["trained greedy, official"] = str(greedy)
        found["trained greedy, corrected"] = str(corrected)
        found["known issues"] = scores.issues
    found["scores"] = records(score_rows(scores)[:SHOWN])
    rules = [
        {"rule": name}
        | {
            policy: str(scores.find(policy, "greedy", RULE, name) or "")
            for policy in (BASE, TRAINED)
        }
        for name in dict.fromkeys(score.name for score in scores.scores if score.part == RULE)
    ]
    if rules:
        found["greedy by other rules"] = records(rules)
    for name, (file, chart) in metadata_charts(scores).items():
        found[name] = plot(folder / file, chart, limit=PICTURE)
    found["missing"] = scores.missing[TRAINED]
    if partial:
        found["partial"] = partial
    return found | {
        "path": dg.MetadataValue.path(folder / "scores.json"),
        "report": dg.MetadataValue.url((folder / PAGE).resolve().as_uri()),
    }
