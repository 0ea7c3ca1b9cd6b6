"""The tables of a report: heads and rows, which the page's template sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from text2sql.common.charts import shown_ks
from text2sql.evaluation import slices
from text2sql.evaluation.report.words import interval
from text2sql.evaluation.scores import BASE, TRAINED, Score, Scores
from text2sql.evaluation.statistics import p_text
from text2sql.evaluation.vote_curve import Curve, CurvePoint
from text2sql.judge.verdicts import Verdict
from text2sql.questions import Question

DEFINITIONS = {
    "greedy": "One reply at temperature 0 per question; the share of questions whose result is "
    "gold's. Wilson's interval.",
    "single-turn": "One greedy reply per question without tools: the schema is in the prompt, the "
    "query is taken from the reply, nothing is repaired. Wilson's interval.",
    "vote@k": "The result that most of k sampled rollouts return; errors, writes and empty "
    "results have no vote. In the table of settings ties go to the lowest sample; in the curve, "
    "which averages over all choices of k and their orders, each tied result wins equally often.",
    "pass@k": "Whether any of k rollouts is right (unbiased estimator of Chen et al., 2021): the "
    "upper limit of voting.",
    "mean@k": "The average share of right rollouts.",
    "95 % interval": "Over the questions, taken as independent: Wilson's for shares of right "
    "questions, the normal one for mean@k, percentiles of 1,000 bootstrap resamples for curves. "
    "With few questions, or shares near 0 or 100 %, the bootstrap's intervals are too narrow.",
    "gained, lost": "Questions that only the second, or only the first, of two policies answers; "
    "p is McNemar's exact test. With p of 0.05 or more a difference is within the noise.",
    "corrected": "Judged by the list of known issues, without flagged questions; everything else "
    "is official.",
    "gold without rows": "Questions whose gold returns nothing: any query that returns nothing "
    "matches. They count in the official number, and are not used for training.",
    "strong, weak": "Questions whose reward separates near-misses from gold well, or badly.",
}
RULE_NAMES = {
    "official": "official (sets)",
    "multiset": "multiset",
    "ordered": "ordered",
    "soft_f1": "Soft-F1",
    "r_ves": "R-VES",
    "ves": "VES",
}
NO_RESULT = ("missing", Verdict.INFRASTRUCTURE.value)
SHOWN_CLASSES = 16

SOURCE = (
    "BIRD dev, 1,534 questions: the figures of the published 9B model that the README names as "
    "the one to reproduce, as its authors report them; none of them was measured here"
)
BIRD_DEV = {
    *("california_schools", "card_games", "codebase_community", "debit_card_specializing"),
    *("european_football_2", "financial", "formula_1", "student_club", "superhero"),
    *("thrombosis_prediction", "toxicology"),
}
PUBLISHED = {
    (BASE, "greedy"): "49.7",
    (TRAINED, "single-turn"): "58.2",
    (TRAINED, "greedy"): "63.4",
    (TRAINED, "vote@8"): "67.0",
    (TRAINED, "vote@32"): "67.4",
}
"""What others published about the same questions, in percent, by policy and setting."""


def is_bird_dev(questions: Sequence[Question]) -> bool:
    """Whether these are BIRD's dev questions, all of them: by their number and databases."""
    databases = {question.db_id for question in questions}
    return len(questions) == 1534 and databases == BIRD_DEV


@dataclass(frozen=True)
class Table:
    """A table; from the column ``numbers`` on cells are set as numbers, 0: none.

    A cell that is a list holds question keys, which are shown as links.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numbers: int = 1

    def is_number(self, column: int) -> bool:
        """Whether a column is set as numbers."""
        return bool(self.numbers) and column >= self.numbers


def settings_of(scores: Scores) -> list[str]:
    """Return the settings, in the order in which they were scored."""
    return list(dict.fromkeys(score.setting for score in scores.scores if score.part == "all"))


def settings(scores: Scores, same_as_published: bool) -> Table:
    """Return base and trained in every setting; with published figures only on the same data."""
    compared = {one.setting: one for one in scores.comparisons if one.part == "all"}
    rows = []
    for setting in settings_of(scores):
        one = compared.get(setting)
        changes = [str(one.won), str(one.lost), p_text(one.p)] if one else ["", "", ""]
        pair = [_shown(scores.find(policy, setting)) for policy in (BASE, TRAINED)]
        rows.append([setting, *pair, *changes])
    head = ["setting", "base", "trained", "gained", "lost", "p"]
    if same_as_published:
        head += ["published base", "published trained"]
        others = dict.fromkeys(setting for _, setting in PUBLISHED)
        rows += [[one, "", "", "", "", ""] for one in others if one not in settings_of(scores)]
        for row in rows:
            row += [PUBLISHED.get((policy, row[0]), "") for policy in (BASE, TRAINED)]
    return Table(head, rows)


def parts(scores: Scores) -> list[tuple[str, Table]]:
    """Return greedy and voting by subset, difficulty, strength and database, each with a title."""
    shown = (slices.CORRECTED, slices.GOLD, slices.DIFFICULTY, slices.SUBSET, slices.STRENGTH)
    tables = []
    for part in (*shown, slices.DATABASE):
        names = dict.fromkeys(s.name for s in scores.scores if s.part == part and s.n)
        if names:
            tables.append((part.capitalize(), _part(scores, part, names)))
    return tables


def _part(scores: Scores, part: str, names: Iterable[str]) -> Table:
    voted = f"vote@{scores.k}"
    changed = {(c.setting, c.part, c.name): c for c in scores.comparisons}
    rows = []
    for name in names:
        cells = [
            _shown(scores.find(policy, setting, part, name))
            for setting in ("greedy", voted)
            for policy in (BASE, TRAINED)
        ]
        one = changed.get(("greedy", part, name))
        counts = [f"{one.won} / {one.lost}", p_text(one.p)] if one else ["", ""]
        rows.append([name, *cells, *counts])
    head = [part, "base greedy", "trained greedy", f"base {voted}", f"trained {voted}"]
    return Table([*head, "gained / lost", "p"], rows)


def weakest(scores: Scores) -> list[str]:
    """Name the subset and the difficulty that the trained policy answers worst, greedily."""
    found = []
    for part in (slices.SUBSET, slices.DIFFICULTY):
        own = (TRAINED, "greedy", part)
        asked = [s for s in scores.scores if (s.policy, s.setting, s.part) == own and s.n]
        if len(asked) > 1:
            least = min(asked, key=lambda score: score.value)
            found.append(f"Lowest by {part}: {least.name}, {interval(least)}.")
    return found


def curves(shown: Sequence[Curve]) -> tuple[Table, Table]:
    """Return vote@k and pass@k of each policy, at some k and at every k."""
    longest = max(len(curve.points) for curve in shown)
    head = ["k", *(f"{curve.policy} {what}@k" for curve in shown for what in ("vote", "pass"))]
    rows = {
        k: [str(k), *(cell for curve in shown for cell in _point(curve.points[k - 1 : k]))]
        for k in range(1, longest + 1)
    }
    return Table(head, [rows[k] for k in shown_ks(longest)]), Table(head, list(rows.values()))


def _point(points: Sequence[CurvePoint]) -> list[str]:
    """Return the cells of one k: empty where a policy has fewer rollouts."""
    shares = [(p.vote, p.vote_low, p.vote_high) for p in points]
    shares += [(p.ceiling, p.ceiling_low, p.ceiling_high) for p in points]
    cells = [f"{100 * value:.1f} [{100 * low:.1f}, {100 * up:.1f}]" for value, low, up in shares]
    return cells or ["", ""]


def curve_parts(found: Sequence[Curve]) -> Table:
    """Return the trained policy's vote@k and, in brackets, pass@k of each part at some k."""
    own = [one for one in found if one.policy == TRAINED and one.name and one.points]
    ks = shown_ks(max((len(one.points) for one in own), default=0))
    rows = []
    for one in own:
        shares = [(one.points[k - 1].vote, one.points[k - 1].ceiling) for k in ks]
        cells = [f"{100 * vote:.1f} ({100 * ceiling:.1f})" for vote, ceiling in shares]
        rows.append([one.part, one.name, one.n, *cells])
    return Table(["part", "", "n", *(f"k = {k}" for k in ks)], rows, 2)


def rule_names(scores: Scores) -> dict[str, str]:
    """Return the names of the rules that were scored."""
    found = {score.name for score in scores.scores if score.part == slices.RULE}
    return {rule: name for rule, name in RULE_NAMES.items() if rule in found}


def rules(scores: Scores) -> Table:
    """Return the greedy answers by every rule that was scored."""
    rows = [
        [name, *(str(scores.find(p, "greedy", slices.RULE, rule) or "") for p in (BASE, TRAINED))]
        for rule, name in rule_names(scores).items()
    ]
    return Table(["rule", "base greedy", "trained greedy"], rows)


def verdicts(details: Mapping[str, Any]) -> Table:
    """Return how many greedy answers had each verdict, the trained policy's most frequent first."""
    counts = {
        name: Counter(row[name]["verdict"] for row in details["questions"])
        for name in (BASE, TRAINED)
    }
    names = sorted(counts[BASE] | counts[TRAINED], key=lambda name: -counts[TRAINED][name])
    rows = [[name.replace("_", " "), counts[BASE][name], counts[TRAINED][name]] for name in names]
    return Table(["verdict", "base", "trained"], rows)


def failure_classes(classes: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    """Return the classes of failure, with questions of the trained policy as examples."""
    rows: dict[tuple[str, str], list[Any]] = {}
    for one in classes[TRAINED]:
        row = [one["name"], one["verdict"], list(one["keys"]), 0, one["count"]]
        rows[one["verdict"], one["name"]] = row
    for one in classes[BASE]:
        empty = [one["name"], one["verdict"], [], 0, 0]
        rows.setdefault((one["verdict"], one["name"]), empty)[3] = one["count"]
    head = ["class", "verdict", "for example", "base", "trained"]
    return Table(head, list(rows.values()), 3)


def effort(found: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return what answers cost: turns, tokens, time, and how many were truncated."""
    rows = []
    for policy, kinds in found.items():
        for kind, one in kinds.items():
            if one and kind != "tools":
                turns = ", ".join(f"{turn}: {count}" for turn, count in one["turns"].items())
                tokens = f"{one['prompt_tokens']:,.0f} + {one['completion_tokens']:,.0f}"
                seconds = f"{one['median_seconds']:.2f} / {one['p95_seconds']:.2f}"
                facts = [one["rollouts"], f"{one['mean_turns']:.2f}", turns, tokens, seconds]
                rows.append([f"{policy} {kind}", *facts, f"{one['truncated']:.1%}"])
    head = ["", "rollouts", "mean turns", "rollouts by turns", "tokens in + out"]
    return Table([*head, "seconds median / p95", "truncated"], rows)


def tools(found: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return how often greedy rollouts called each tool, how long that took, and how it ended."""
    rows = []
    for policy, kinds in found.items():
        for one in kinds["tools"]:
            ended = ", ".join(f"{name} {count}" for name, count in one["ended"].items())
            rows.append([policy, one["tool"], one["calls"], f"{one['mean_seconds']:.3f}", ended])
    return Table(["greedy", "tool", "calls", "mean seconds", "ended"], rows, 2)


def changed_questions(details: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the keys of the questions gained and lost against the base, greedily."""
    gained, lost = [], []
    for row in details["questions"]:
        base, trained = (row[name]["verdict"] for name in (BASE, TRAINED))
        if base in NO_RESULT or trained in NO_RESULT:
            continue
        if trained == Verdict.MATCH != base:
            gained.append(row["key"])
        elif base == Verdict.MATCH != trained:
            lost.append(row["key"])
    return gained, lost


def origin(scores: Scores) -> Table:
    """Return what the scores were made from."""
    facts = scores.provenance | {f"{n} policy revision": r for n, r in scores.revisions.items()}
    rows = [[name.replace("_", " "), value] for name, value in sorted(facts.items())]
    return Table(["", ""], rows, 0)


def _shown(score: Score | None) -> str:
    return str(score) if score and score.n else ""
