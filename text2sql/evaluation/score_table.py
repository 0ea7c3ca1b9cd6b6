"""Scores as tables that people read."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from text2sql.evaluation.parts import PARTS
from text2sql.evaluation.scores import BASE, TRAINED, Comparison, Scores
from text2sql.evaluation.statistics import p_text

Row = dict[str, str]


def score_rows(scores: Scores, parts: Sequence[str] = PARTS) -> list[Row]:
    """Return a row for each part of the split, setting and the two policies side by side.

    ``corrected`` stands below ``all``, the official accuracy, where there are known issues.

    Each share is percent with its 95 % interval and n; gained and lost count the questions
    that the trained policy answers and the base does not, and the reverse.
    """
    rows = []
    compared = {(c.setting, c.part, c.name): c for c in scores.comparisons}
    shown = [s for s in scores.scores if s.policy == BASE and s.part in parts and s.n]
    names = list(dict.fromkeys((score.part, score.name) for score in shown))
    names.sort(key=lambda name: PARTS.index(name[0]))
    for base in sorted(shown, key=lambda score: names.index((score.part, score.name))):
        trained = scores.find(TRAINED, base.setting, base.part, base.name)
        row = {
            "questions": (base.name or "all").replace("_", " "),
            "setting": base.setting,
            "base": str(base),
            "trained": str(trained) if trained else "",
        }
        rows.append(row | _gained_and_lost(compared.get((base.setting, base.part, base.name))))
    return rows


def _gained_and_lost(comparison: Comparison | None) -> Row:
    if comparison is None:
        return {"gained": "", "lost": "", "p": ""}
    gained, lost = str(comparison.won), str(comparison.lost)
    return {"gained": gained, "lost": lost, "p": p_text(comparison.p)}


def text_table(rows: Sequence[Row]) -> str:
    """Return rows as aligned columns."""
    if not rows:
        return ""
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def markdown_table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    if not rows:
        return ""
    cells = ([_cell(value) for value in row.values()] for row in rows)
    lines = [list(rows[0]), ["---"] * len(rows[0]), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(text: str) -> str:
    """Escape what Markdown would read as the end of a cell or as HTML."""
    return escape(" ".join(text.split()), quote=False).replace("|", "\\|")
