"""The picture of all stages in the README: ``python -m documentation.stage_picture`` draws it.

A column for each group of assets, in the order in which a model goes through them. Its labels are
readable at the width of a README, which those of Dagster's own graph are not.
"""

from __future__ import annotations

from pathlib import Path

from pipelines.definitions import defs

FILE = Path(__file__).resolve().parent.parent / "docs" / "images" / "stages.svg"
COLUMNS = {
    "bird": "1 Ingestion",
    "difficulty": "2 Difficulty filter",
    "training": "3 GRPO",
    "evaluation": "4 Dev evaluation",
    "reporting": "5 Daily answers",
}
"""Groups of assets and the names of the stages, from left to right."""

_WIDTH, _GAP, _BOX, _STEP, _TOP = 164, 24, 34, 44, 56
_STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2328; text-anchor: middle }
.title { font-weight: 600 }
rect { fill: #eef4ff; stroke: #4f6bd8 } path { stroke: #6e7781; stroke-width: 2; fill: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } rect { fill: #1c2744; stroke: #7d95f2 } path { stroke: #9198a1 }
}
"""


def picture() -> str:
    """Return the picture as SVG."""
    graph = defs.resolve_asset_graph()
    groups: dict[str, list[str]] = {group: [] for group in COLUMNS}
    for key in graph.toposorted_asset_keys:
        groups[graph.get(key).group_name].append(key.to_user_string())
    height = _TOP + _STEP * max(map(len, groups.values()))
    width = len(groups) * (_WIDTH + _GAP) - _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>The stages and their assets: {', '.join(COLUMNS.values())}</title>",
        f"<style>{_STYLE}</style>",
    ]
    for column, (group, assets) in enumerate(groups.items()):
        left = column * (_WIDTH + _GAP)
        middle = left + _WIDTH / 2
        parts.append(f'<text class="title" x="{middle}" y="24">{COLUMNS[group]}</text>')
        for row, asset in enumerate(assets):
            top = _TOP - 16 + row * _STEP
            parts.append(
                f'<rect x="{left + 1}" y="{top}" width="{_WIDTH - 2}" height="{_BOX}" rx="6"/>'
                f'<text x="{middle}" y="{top + 22}">{asset}</text>'
            )
        if column:
            parts.append(f'<path d="M{left - _GAP + 4} 19h{_GAP - 8}m-6-5 6 5-6 5"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    FILE.write_text(picture(), encoding="utf-8")
    print(FILE)
