"""The report's part on other rules: beside the official number, never in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from text2sql.common.counting import counted
from text2sql.evaluation.report import html
from text2sql.evaluation.rule_scores import DEFINITIONS
from text2sql.evaluation.scores import BASE, TRAINED, Scores
from text2sql.evaluation.slices import RULE

NAMES = {
    "official": "official (sets)",
    "multiset": "multiset",
    "ordered": "ordered",
    "soft_f1": "Soft-F1",
    "r_ves": "R-VES",
    "ves": "VES",
}


def section(scores: Scores, about: Mapping[str, Any] | None) -> str:
    """Return the greedy answers by every rule; nothing where they were not looked at."""
    if about is None:
        return ""
    found = {score.name for score in scores.scores if score.part == RULE}
    rows = [
        [name, *(str(scores.find(p, "greedy", RULE, rule) or "") for p in (BASE, TRAINED))]
        for rule, name in NAMES.items()
        if rule in found
    ]
    words = "".join(
        f"<dt>{html.text(name)}</dt><dd>{html.text(DEFINITIONS[rule])}</dd>"
        for rule, name in NAMES.items()
        if rule in found
    )
    return (
        "<h2>By other rules</h2>"
        f"{html.table(['rule', 'base greedy', 'trained greedy'], rows, 1)}"
        '<p class="about">The official rule gives the number. The greedy queries and gold were run '
        f"once more for this, a query that failed counts 0.{_timing(about['timed_runs'])}</p>"
        f"{_changed(about['changed'])}{html.folded('What the rules mean', f'<dl>{words}</dl>')}"
    )


def _timing(runs: int) -> str:
    if not runs:
        return " Time was not measured (timed_runs)."
    return (
        f" Times are medians of {counted(runs, 'run')} of gold and query by turns on one warm "
        "connection, rows read and digested; they depend on this machine, its load and SQLite's "
        "version, and queries of less than a millisecond mostly measure the call."
    )


def _changed(changed: Mapping[str, Sequence[str]]) -> str:
    """Name the questions whose verdict the second run does not confirm."""
    return "".join(
        f'<p class="note">Of the {html.text(policy)} policy {counted(len(keys), "verdict")} came '
        f"out differently the second time, since their queries depend on time or chance: "
        f"{', '.join(map(html.link, keys[:20]))}</p>"
        for policy, keys in changed.items()
        if keys
    )
