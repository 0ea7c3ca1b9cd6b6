"""Scores with their intervals, comparisons and curves, and the tables that show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from text2sql.common.counting import counted
from text2sql.common.render import aligned
from text2sql.evaluation.slices import ALL, SLICES
from text2sql.evaluation.statistics import mcnemar, p_text
from text2sql.evaluation.vote_curve import Curve

Row = dict[str, str]
"""A table's row: column to text."""

Outcomes = dict[str, float]
"""Question key to 1.0 (right), 0.0 (wrong), or a share in between (mean@k)."""

BASE, TRAINED = "base", "trained"
DEVELOPMENT = "development metric: the same questions decide whether a policy is promoted"
SINGLE_TURN = "single-turn"
"""The setting without tools: the schema in the prompt, one greedy reply, no repair."""


@dataclass(frozen=True)
class Score:
    """A policy's share of right answers in one setting on one slice of a split.

    ``part`` is the kind of slice, ``name`` says which one; ``low`` and ``high`` end the 95 %
    interval; ``n`` counts questions. The slice ``corrected`` is judged by the known issues' gold
    queries, without flagged questions; everything else is official.
    """

    policy: str
    setting: str
    part: str
    name: str
    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        """Show percent, interval and n: ``63.4 [61.0, 65.8] n=1534``."""
        low, high = 100 * self.low, 100 * self.high
        return f"{100 * self.value:.1f} [{low:.1f}, {high:.1f}] n={self.n}"


@dataclass(frozen=True)
class Comparison:
    """The trained policy against the base on the same questions; ``p`` is McNemar's, exact."""

    setting: str
    part: str
    name: str
    won: int
    lost: int
    n: int
    p: float


@dataclass(frozen=True)
class Scores:
    """Everything that one evaluation says.

    ``questions`` counts the split's questions, answered or not; ``verdicts`` counts the greedy
    rollouts' verdicts; ``write_rate`` is the share of the agent's rollouts (greedy and sampled)
    that attempted a write; ``missing`` counts questions without a valid result in a setting that
    they were asked in. ``strong`` is the reward strength from which a question is strong, None
    if strength was not measured; ``issues`` counts the split's known issues by kind. ``curves``
    are voting and pass at every k up to ``k``, for the whole split, its difficulties and its
    databases. ``infrastructure`` is the share of rollouts that infrastructure failures invalidated.
    """

    k: int
    questions: int
    revisions: dict[str, str]
    scores: list[Score]
    comparisons: list[Comparison]
    verdicts: dict[str, dict[str, int]]
    write_rate: dict[str, float]
    missing: dict[str, int]
    provenance: dict[str, str] = field(default_factory=dict)
    strong: float | None = None
    issues: dict[str, int] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    infrastructure: dict[str, float] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """What the numbers are for: they also decide something, or are held out."""
        return self.provenance.get("metric", DEVELOPMENT)

    @property
    def split(self) -> str:
        """The split whose questions were asked."""
        return self.provenance.get("split", "dev")

    @property
    def notes(self) -> list[str]:
        """What makes the comparison with the base special, in sentences."""
        found = []
        if len(self.revisions) > len(set(self.revisions.values())):
            found.append(
                f"Base and trained are the same weights (revision {self.revisions[BASE]}): both "
                "columns show one policy."
            )
        if other := self.provenance.get("trained_from"):
            found.append(
                f"The run was trained from another policy (revision {other}) than the base shown "
                f"here (revision {self.revisions[BASE]})."
            )
        if prompts := self.provenance.get("base_prompt_revision"):
            found.append(
                f"The base was asked with other prompts (revision {prompts}) than the trained "
                "policy, each as its agent settings say."
            )
        return found

    def find(self, policy: str, setting: str, part: str = "all", name: str = "") -> Score | None:
        """Return one score, None where there is none."""
        about = (policy, setting, part, name)
        found = (s for s in self.scores if (s.policy, s.setting, s.part, s.name) == about)
        return next(found, None)

    def partial(self, policy: str, setting: str) -> str:
        """Say that a setting lacks some of the questions; empty if it has them all."""
        score = self.find(policy, setting)
        if score is None or score.n == self.questions:
            return ""
        return f"partial: {score.n} of {counted(self.questions, 'question')}"

    def partial_settings(self, policy: str) -> dict[str, str]:
        """Return a policy's settings that lack questions, with how many they have."""
        settings = dict.fromkeys(score.setting for score in self.scores if score.part == ALL)
        found = {setting: self.partial(policy, setting) for setting in settings}
        return {setting: words for setting, words in found.items() if words}

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Scores:
        """Read what ``to_dict`` wrote."""
        scores = [Score(**score) for score in row["scores"]]
        comparisons = [Comparison(**comparison) for comparison in row["comparisons"]]
        curves = [Curve.from_dict(found) for found in row.get("curves", ())]
        return cls(**{**row, "scores": scores, "comparisons": comparisons, "curves": curves})


def compare(
    setting: str, part: str, name: str, before: Outcomes, after: Outcomes, keys: Iterable[str]
) -> Comparison:
    """Count the questions that ``after`` wins and loses against ``before``."""
    pairs = [(before[key], after[key]) for key in keys if key in before and key in after]
    won = sum(new > old for old, new in pairs)
    lost = sum(new < old for old, new in pairs)
    return Comparison(setting, part, name, won, lost, len(pairs), mcnemar(won, lost))


def score_rows(scores: Scores, parts: Sequence[str] = SLICES) -> list[Row]:
    """Return a row for each slice and setting, with the two policies side by side.

    Each share is percent with its 95 % interval and n; gained and lost count the questions
    that only the trained or only the base policy answers.
    """
    rows = []
    compared = {(c.setting, c.part, c.name): c for c in scores.comparisons}
    shown = [s for s in scores.scores if s.policy == BASE and s.part in parts and s.n]
    names = list(dict.fromkeys((score.part, score.name) for score in shown))
    names.sort(key=lambda name: SLICES.index(name[0]))
    for base in sorted(shown, key=lambda score: names.index((score.part, score.name))):
        trained = scores.find(TRAINED, base.setting, base.part, base.name)
        row = {
            "questions": (base.name or "all").replace("_", " "),
            "setting": base.setting,
            "base": str(base),
            "trained": str(trained) if trained else "",
        }
        pairs = compared.get((base.setting, base.part, base.name))
        row |= {
            "gained": str(pairs.won) if pairs else "",
            "lost": str(pairs.lost) if pairs else "",
            "p": p_text(pairs.p) if pairs else "",
        }
        rows.append(row)
    return rows


def text_table(rows: Sequence[Row]) -> str:
    """Return rows as aligned columns."""
    lines = [list(rows[0]), *(list(row.values()) for row in rows)] if rows else []
    return "\n".join(aligned(lines))


def markdown_table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    if not rows:
        return ""
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    for row in rows:
        # Escape what Markdown would read as the end of a cell or as HTML.
        cells = (escape(" ".join(text.split()), quote=False) for text in row.values())
        lines.append([cell.replace("|", "\\|") for cell in cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
