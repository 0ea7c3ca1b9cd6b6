"""Scores as tables that people read."""

from __future__ import annotations

from collections.abc import Sequence

from text2sql.evaluation import BASE, TRAINED, Comparison, Scores

Row = dict[str, str]


def score_rows(scores: Scores, parts: Sequence[str] = ("all", "subset", "difficulty")) -> list[Row]:
    """Return a row for each part of the split, setting and the two policies side by side.

    Each share is percent with its 95 % interval and n; won and lost count the questions that
    the trained policy answers and the base does not, and the reverse.
    """
    rows = []
    compared = {(c.setting, c.part, c.name): c for c in scores.comparisons}
    for base in scores.scores:
        if base.policy != BASE or base.part not in parts or not base.n:
            continue
        trained = scores.find(TRAINED, base.setting, base.part, base.name)
        row = {
            "questions": (base.name or "all").replace("_", " "),
            "setting": base.setting,
            "base": str(base),
            "trained": str(trained) if trained else "",
        }
        rows.append(row | _won_and_lost(compared.get((base.setting, base.part, base.name))))
    return sorted(rows, key=lambda row: _order(scores, row["questions"]))


def _won_and_lost(comparison: Comparison | None) -> Row:
    if comparison is None:
        return {"won": "", "lost": "", "p": ""}
    return {"won": str(comparison.won), "lost": str(comparison.lost), "p": f"{comparison.p:.2g}"}


def _order(scores: Scores, questions: str) -> int:
    """Keep the rows of one part together, in the order in which the parts were scored."""
    names = list(dict.fromkeys((s.name or "all").replace("_", " ") for s in scores.scores))
    return names.index(questions)


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
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
