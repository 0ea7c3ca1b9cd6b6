"""The report's tables of scores."""

from __future__ import annotations

from collections.abc import Sequence

from text2sql.common.charts import shown_ks
from text2sql.evaluation.report import html
from text2sql.evaluation.report.reference import PUBLISHED, published
from text2sql.evaluation.report.words import interval
from text2sql.evaluation.scores import BASE, TRAINED, Score, Scores
from text2sql.evaluation.slices import CORRECTED, DATABASE, DIFFICULTY, GOLD, STRENGTH, SUBSET
from text2sql.evaluation.statistics import p_text
from text2sql.evaluation.vote_curve import Curve, CurvePoint

DEFINITIONS = {
    "greedy": "One reply at temperature 0 a question; the share of questions whose result is "
    "gold's. Wilson's interval.",
    "single-turn": "One greedy reply a question without tools: the schema is in the prompt, the "
    "query is taken from the reply, nothing is repaired. Wilson's interval.",
    "vote@k": "The result that most of k sampled rollouts return; errors, writes and empty "
    "results have no vote. In the table of settings ties go to the lowest sample; in the curve, "
    "which averages over all choices of k and their orders, each tied result wins equally often.",
    "pass@k": "Whether any of k rollouts is right (unbiased estimator of Chen et al., 2021): the "
    "ceiling of voting.",
    "mean@k": "The average share of right rollouts.",
    "95 % interval": "Over the questions, taken as independent: Wilson's for shares of right "
    "questions, the normal one for mean@k, percentiles of 1,000 bootstrap resamples for curves. "
    "With few questions, or shares near 0 or 100 %, the bootstrap's intervals are too narrow.",
    "gained, lost": "Questions that only the second, or only the first of two policies answers; "
    "p is McNemar's exact test. With p of 0.05 or more a difference is inside the noise.",
    "corrected": "Judged by the list of known issues, without flagged questions; everything else "
    "is official.",
    "gold without rows": "Questions whose gold returns nothing: any query that returns nothing "
    "matches. They count in the official number, and are not trained on.",
    "strong, weak": "Questions whose reward tells near-misses from gold well, or badly.",
}


def settings_of(scores: Scores) -> list[str]:
    """Return the settings in the order in which they were scored."""
    return list(dict.fromkeys(score.setting for score in scores.scores if score.part == "all"))


def settings_table(scores: Scores, same_as_published: bool) -> str:
    """Return base and trained in every setting; with published figures only on the same data."""
    compared = {one.setting: one for one in scores.comparisons if one.part == "all"}
    rows = []
    for setting in settings_of(scores):
        one = compared.get(setting)
        changes = [str(one.won), str(one.lost), p_text(one.p)] if one else ["", "", ""]
        pair = [_shown(scores.find(policy, setting)) for policy in (BASE, TRAINED)]
        rows.append([setting, *pair, *changes])
    head = ["setting", "base", "trained", "gained", "lost", "p"]
    if not same_as_published:
        return html.table(head, rows, 1)
    others = [one.setting for one in PUBLISHED if one.setting not in settings_of(scores)]
    rows += [[setting, "", "", "", "", ""] for setting in dict.fromkeys(others)]
    rows = [[*row, *(_share(published(p, row[0])) for p in (BASE, TRAINED))] for row in rows]
    return html.table([*head, "published base", "published trained"], rows, 1)


def parts_section(scores: Scores) -> str:
    """Return greedy and voting by subset, difficulty, strength and database."""
    text = "<h2>By part</h2>"
    for part, title in (
        (CORRECTED, "Corrected"),
        (GOLD, "Gold"),
        (DIFFICULTY, "Difficulty"),
        (SUBSET, "Subset"),
        (STRENGTH, "Strength"),
        (DATABASE, "Database"),
    ):
        names = dict.fromkeys(s.name for s in scores.scores if s.part == part and s.n)
        if not names:
            continue
        table = _parts_table(scores, part, list(names))
        text += html.folded(f"{title} ({len(names)})", table) if len(names) > 12 else table
    return text + (
        '<p class="about">Gained and lost: questions that only the trained policy, or only the '
        "base answers, greedily. p is McNemar's of each part by itself: of twenty parts without "
        "any difference at most one is expected to have p below 0.05.</p>"
    )


def weakest(scores: Scores) -> list[str]:
    """Name the subset and the difficulty that the trained policy answers worst, greedily."""
    found = []
    for part in (SUBSET, DIFFICULTY):
        own = [
            s for s in scores.scores if (s.policy, s.setting, s.part) == (TRAINED, "greedy", part)
        ]
        asked = [score for score in own if score.n]
        if len(asked) > 1:
            least = min(asked, key=lambda score: score.value)
            found.append(f"Lowest by {part}: {least.name}, {interval(least)}.")
    return found


def _parts_table(scores: Scores, part: str, names: Sequence[str]) -> str:
    voted = f"vote@{scores.k}"
    rows = []
    for name in names:
        cells = [
            _shown(scores.find(policy, setting, part, name))
            for setting in ("greedy", voted)
            for policy in (BASE, TRAINED)
        ]
        changed = next(
            (
                c
                for c in scores.comparisons
                if (c.setting, c.part, c.name) == ("greedy", part, name)
            ),
            None,
        )
        counts = [f"{changed.won} / {changed.lost}", p_text(changed.p)] if changed else ["", ""]
        rows.append([name, *cells, *counts])
    head = [part, "base greedy", "trained greedy", f"base {voted}", f"trained {voted}"]
    return html.table([*head, "gained / lost", "p"], rows, 1)


def curve_table(curves: Sequence[Curve]) -> str:
    """Return vote@k and pass@k of each policy at some k; every k is folded in."""
    longest = max(len(curve.points) for curve in curves)
    every = _curve_rows(curves, range(1, longest + 1))
    few = _curve_rows(curves, shown_ks(longest))
    head = ["k", *(f"{c.policy} {what}@k" for c in curves for what in ("vote", "pass"))]
    return html.table(head, few, 1) + html.folded("Every k", html.table(head, every, 1))


def curve_parts(curves: Sequence[Curve]) -> str:
    """Return the trained policy's vote@k and, in brackets, pass@k of each part at some k."""
    found = [one for one in curves if one.policy == TRAINED and one.name and one.points]
    if not found:
        return ""
    ks = shown_ks(max(len(one.points) for one in found))
    rows = [[one.part, one.name, one.n, *(_pair(one.points[k - 1]) for k in ks)] for one in found]
    table = html.table(["part", "", "n", *(f"k = {k}" for k in ks)], rows, 2)
    words = '<p class="about">Trained policy, percent: vote@k (pass@k).</p>'
    return html.folded("By difficulty and database", words + table)


def _pair(point: CurvePoint) -> str:
    return f"{100 * point.vote:.1f} ({100 * point.ceiling:.1f})"


def _curve_rows(curves: Sequence[Curve], ks: Sequence[int]) -> list[list[str]]:
    return [
        [str(k), *(cell for curve in curves for cell in _point(curve.points[k - 1 : k]))]
        for k in ks
    ]


def _point(points: Sequence[CurvePoint]) -> list[str]:
    if not points:
        return ["", ""]
    p = points[0]
    return [
        _interval(p.vote, p.vote_low, p.vote_high),
        _interval(p.ceiling, p.ceiling_low, p.ceiling_high),
    ]


def origin_section(scores: Scores) -> str:
    """Say what each number means, where it comes from, and how to trace it."""
    facts = scores.provenance | {f"{n} policy revision": r for n, r in scores.revisions.items()}
    words = "".join(
        f"<dt>{html.text(name)}</dt><dd>{html.text(what)}</dd>"
        for name, what in DEFINITIONS.items()
    )
    origin = html.table(["", ""], [[k.replace("_", " "), v] for k, v in sorted(facts.items())])
    return (
        "<h2>How to trace a number</h2><p>rollouts.csv beside this page has a line for every "
        "rollout that was scored, with its verdict and the file and line where it lies whole, "
        "below the artifact root. A greedy or single-turn share is the share of <code>match</code> "
        "among the lines of that policy and set; votes, passes and curves count the lines of the "
        "set <code>sampled</code> by question and digest. The columns db_id, difficulty, subset, "
        "gold and strength give the parts, corrected the verdict by the known issues, multiset to "
        "ves the other rules, classes the failures, turns to stop_reason the effort; the calls of "
        "tools are in the rollouts themselves. scores.csv has every share with its interval and "
        "n; <code>text2sql lineage</code> goes on to data, settings and commits.</p>"
        f"<h2>Definitions</h2><dl>{words}</dl><h2>Origin</h2>{origin}"
    )


def _shown(score: Score | None) -> str:
    return str(score) if score and score.n else ""


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _interval(value: float, low: float, high: float) -> str:
    return f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
