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

DRAWN = (ALL, CORRECTED, GOLD, SUBSET)
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
    return {
        "what happened": _summary(scores),
        **({"trained greedy": greedy.value} if greedy and greedy.n else {}),
        **({"base greedy": base.value} if base and base.n else {}),
        "what the numbers are": scores.metric,
        **({f"trained {SINGLE_TURN}": str(once)} if once else {}),
        **_corrected(scores),
        "scores": records(score_rows(scores)[:SHOWN]),
        **_rules(scores),
        **_pictures(folder, scores),
        "missing": scores.missing[TRAINED],
        **({"partial": partial} if partial else {}),
        "path": dg.MetadataValue.path(folder / "scores.json"),
        "report": dg.MetadataValue.url((folder / PAGE).resolve().as_uri()),
    }


def _summary(scores: Scores) -> str:
    """Return the trained policy's accuracy, its interval, and the comparison with the base."""
    greedy = scores.find(TRAINED, "greedy")
    found = [f"Greedy: {interval(greedy)}." if greedy and greedy.n else "Greedy: no valid result."]
    found += [
        difference(one, "the base")
        for one in scores.comparisons
        if (one.setting, one.part) == ("greedy", ALL)
    ]
    return " ".join([*found, *scores.notes])


def _corrected(scores: Scores) -> dict[str, Any]:
    """Return official and corrected accuracy, if there are known issues."""
    corrected = scores.find(TRAINED, "greedy", CORRECTED, CORRECTED)
    if corrected is None:
        return {}
    return {
        "trained greedy, official": str(scores.find(TRAINED, "greedy")),
        "trained greedy, corrected": str(corrected),
        "known issues": scores.issues,
    }


def partial_settings(scores: Scores) -> dict[str, str]:
    """Return the settings of the trained policy that lack questions, with how many they have."""
    settings = dict.fromkeys(score.setting for score in scores.scores if score.part == ALL)
    found = {setting: scores.partial(TRAINED, setting) for setting in settings}
    return {setting: words for setting, words in found.items() if words}


def _rules(scores: Scores) -> dict[str, Any]:
    names = dict.fromkeys(score.name for score in scores.scores if score.part == RULE)
    rows = [
        {"rule": name}
        | {p: str(scores.find(p, "greedy", RULE, name) or "") for p in (BASE, TRAINED)}
        for name in names
    ]
    return {"greedy by other rules": records(rows)} if rows else {}


def _pictures(folder: Path, scores: Scores) -> dict[str, Any]:
    parts = _greedy(scores, DRAWN)
    databases = sorted(_greedy(scores, (DATABASE,)), key=lambda score: -score.n)[:MOST_DATABASES]
    found = {
        "greedy accuracy": plot(folder / "scores.png", _parts(scores, parts), limit=PICTURE),
        "greedy by database": plot(
            folder / "databases.png", _parts(scores, databases), limit=PICTURE
        ),
    }
    curves = [one for one in scores.curves if one.part == ALL and one.points]
    if curves:
        picture = plot(folder / "curves.png", curve_chart(curves), limit=PICTURE)
        found["voting at every k"] = picture
    return found


def _greedy(scores: Scores, parts: Sequence[str]) -> list[Score]:
    """Return the trained policy's greedy scores on some parts."""
    return [
        score
        for score in scores.scores
        if (score.policy, score.setting) == (TRAINED, "greedy") and score.part in parts and score.n
    ]


def _parts(scores: Scores, shown: Sequence[Score]) -> Chart:
    """Draw both policies' greedy accuracy on the parts of some scores."""
    base, trained = (
        [scores.find(policy, "greedy", score.part, score.name) for score in shown]
        for policy in (BASE, TRAINED)
    )
    return score_chart([score.name or "all" for score in shown], base, trained)
