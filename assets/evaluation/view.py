"""What Dagster shows of an evaluation: numbers, tables and small pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.common.plots import plot, records
from text2sql.common.charts import Chart
from text2sql.evaluation.report.charts import curve_chart, score_chart
from text2sql.evaluation.report.files import PAGE
from text2sql.evaluation.report.words import difference, interval
from text2sql.evaluation.scores import BASE, SINGLE_TURN, TRAINED, Score, Scores, score_rows
from text2sql.evaluation.slices import ALL, CORRECTED, DATABASE, GOLD, RULE, SUBSET

MOST_DATABASES = 12
"""The most databases in a picture: those with the most questions."""
SHOWN = 60
"""The most rows of a table in metadata."""
PICTURE = 15_000
"""Bytes of one picture; three of them leave room for the tables within 64 KB."""


def describe_scores(folder: Path, scores: Scores) -> dict[str, Any]:
    """Return the metadata of an evaluation whose files lie in ``folder``."""
    greedy, base = (scores.find(policy, "greedy") for policy in (TRAINED, BASE))
    once, partial = scores.find(TRAINED, SINGLE_TURN), partial_settings(scores)
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
    found |= _pictures(folder, scores) | {"missing": scores.missing[TRAINED]}
    if partial:
        found["partial"] = partial
    return found | {
        "path": dg.MetadataValue.path(folder / "scores.json"),
        "report": dg.MetadataValue.url((folder / PAGE).resolve().as_uri()),
    }


def partial_settings(scores: Scores) -> dict[str, str]:
    """Return the settings of the trained policy that lack questions, with how many they have."""
    settings = dict.fromkeys(score.setting for score in scores.scores if score.part == ALL)
    found = {setting: scores.partial(TRAINED, setting) for setting in settings}
    return {setting: words for setting, words in found.items() if words}


def _pictures(folder: Path, scores: Scores) -> dict[str, Any]:
    """Draw both policies' greedy accuracy, overall and by database, and the voting curves."""

    def chart(shown: Sequence[Score]) -> Chart:
        base, trained = (
            [scores.find(policy, "greedy", score.part, score.name) for score in shown]
            for policy in (BASE, TRAINED)
        )
        return score_chart([score.name or "all" for score in shown], base, trained)

    about = (TRAINED, "greedy")
    greedy = [one for one in scores.scores if (one.policy, one.setting) == about and one.n]
    parts = [one for one in greedy if one.part in (ALL, CORRECTED, GOLD, SUBSET)]
    largest = sorted((one for one in greedy if one.part == DATABASE), key=lambda one: -one.n)
    charts = {
        "greedy accuracy": ("scores.png", chart(parts)),
        "greedy by database": ("databases.png", chart(largest[:MOST_DATABASES])),
    }
    if curves := [one for one in scores.curves if one.part == ALL and one.points]:
        charts["voting at every k"] = ("curves.png", curve_chart(curves))
    return {
        name: plot(folder / file, drawn, limit=PICTURE) for name, (file, drawn) in charts.items()
    }
