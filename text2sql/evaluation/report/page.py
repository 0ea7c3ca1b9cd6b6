"""The report of an evaluation as one HTML page: how good, how sure, better, where it fails.

The page needs no network. Everything that comes from questions, databases or models is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from text2sql.common.counting import counted
from text2sql.common.html import render
from text2sql.evaluation.promotion.champion import ADOPTED_RUN
from text2sql.evaluation.report import charts, tables
from text2sql.evaluation.report.words import champion_name, difference, interval, percent
from text2sql.evaluation.rule_scores import DEFINITIONS as RULE_DEFINITIONS
from text2sql.evaluation.scores import BASE, SINGLE_TURN, TRAINED, Comparison, Scores
from text2sql.evaluation.slices import CORRECTED
from text2sql.judge.verdicts import Verdict


def render_report(details: Mapping[str, Any]) -> str:
    """Return the page that shows what ``text2sql.evaluation.report.details`` put together."""
    scores = Scores.from_dict(details["scores"])
    greedy = scores.find(TRAINED, "greedy")
    before, vote = details["before"], f"vote@{scores.k}"
    gained, lost = tables.changed_questions(details)
    settings, run = tables.settings_of(scores), details["run"]
    evaluated = champion_name(run) if run == ADOPTED_RUN else f"the training run {run}"
    rows = {row["key"]: row for row in details["questions"]}
    return render(
        "text2sql.evaluation.report",
        "report.html",
        anchor=lambda key: "q-" + quote(key, safe=""),
        base=BASE,
        trained=TRAINED,
        title=f"Evaluation of {evaluated}",
        asked=counted(scores.questions, f"{scores.split} question"),
        dataset=scores.provenance.get("dataset", "unknown"),
        metric=scores.metric,
        notes=[*scores.notes, *_partial(scores)],
        accuracy=percent(greedy.value) if greedy and greedy.n else "unknown",
        accuracy_words=_accuracy_words(scores, details),
        sure=[
            f"{name}: {interval(one)}"
            for name, setting in (("Greedy", "greedy"), (vote, vote))
            if (one := scores.find(TRAINED, setting)) and one.n
        ],
        better=_better(scores, before),
        weak=[*_failures(details), *tables.weakest(scores)],
        settings_chart=charts.score_chart(
            settings, *([scores.find(p, name) for name in settings] for p in (BASE, TRAINED))
        ).svg("Execution accuracy in percent, with 95 % intervals"),
        settings=tables.settings(scores, details["same_as_published"]),
        source=tables.SOURCE if details["same_as_published"] else "",
        curves=_curves(scores),
        parts=tables.parts(scores),
        rules=_rules(scores, details.get("rules")),
        verdicts=tables.verdicts(details),
        class_chart=_class_chart(details),
        classes=tables.failure_classes(details["classes"]),
        effort=tables.effort(details["effort"]),
        tools=tables.tools(details["effort"]),
        examples=[(one, rows[one["key"]]) for one in details["examples"]],
        gained=gained,
        lost=lost,
        before=before,
        champion=champion_name(before["training_run"]) if before else "",
        question_count=counted(len(rows), "question"),
        questions=details["questions"],
        definitions=tables.DEFINITIONS.items(),
        origin=tables.origin(scores),
    )


def _partial(scores: Scores) -> list[str]:
    """Return a warning about the settings that lack questions, if any."""
    found: dict[str, list[str]] = {}
    for policy in (BASE, TRAINED):
        for setting in tables.settings_of(scores):
            if words := scores.partial(policy, setting):
                found.setdefault(words, []).append(f"{policy} {setting}")
    lacking = "; ".join(f"{', '.join(names)}: {words}" for words, names in found.items())
    advice = "Do not compare a setting on fewer questions with one on all of them."
    return [f"{lacking}. {advice}"] if found else []


def _accuracy_words(scores: Scores, details: Mapping[str, Any]) -> str:
    """Explain the first number, and compare it with the base and the other settings."""
    base, official = (scores.find(policy, "greedy") for policy in (BASE, TRAINED))
    first = "The trained policy's greedy accuracy"
    if base and base.n:
        first += f"; the base has {percent(base.value)}"
    sentences = [first, *_vote_words(scores, details)]
    once = scores.find(TRAINED, SINGLE_TURN)
    if once and once.n:
        sentences.append(f"One reply without tools ({SINGLE_TURN}) gives {percent(once.value)}")
    corrected = scores.find(TRAINED, "greedy", CORRECTED, CORRECTED)
    if official and corrected and corrected.n:
        sentences.append(f"Official n = {official.n:,}; corrected {interval(corrected)}")
    return " ".join(f"{sentence}." for sentence in sentences)


def _vote_words(scores: Scores, details: Mapping[str, Any]) -> list[str]:
    """Return the accuracy of voting, with greedy on the same questions if some were not sampled."""
    voted = scores.find(TRAINED, f"vote@{scores.k}")
    if voted is None or not voted.n:
        return []
    words = f"A vote among {counted(scores.k, 'rollout')} gives {percent(voted.value)}"
    if voted.n == scores.questions:
        return [words]
    both = [row[TRAINED] for row in details["questions"] if row[TRAINED]["samples"] >= scores.k]
    judged = [one["verdict"] for one in both if one["verdict"] not in tables.NO_RESULT]
    right = [verdict == Verdict.MATCH for verdict in judged]
    greedy = f", where greedy has {percent(sum(right) / len(right))}" if right else ""
    return [f"{words} on {voted.n:,} of the questions{greedy}"]


def _better(scores: Scores, before: Mapping[str, Any] | None) -> list[str]:
    whole = [one for one in scores.comparisons if (one.setting, one.part) == ("greedy", "all")]
    found = [difference(one, "the base") for one in whole]
    if before is None:
        return [*found, "No other champion with the same data and prompts to compare with."]
    against = Comparison(**before["comparison"])
    return [*found, difference(against, champion_name(before["training_run"]))]


def _failures(details: Mapping[str, Any]) -> list[str]:
    """Summarize where the trained policy fails most."""
    classes = details["classes"][TRAINED]
    verdicts = Counter(row[TRAINED]["verdict"] for row in details["questions"])
    invalid = sum(verdicts.pop(verdict, 0) for verdict in tables.NO_RESULT)
    found = ["No failures on these questions." if verdicts else "No question was answered."]
    if classes:
        most = "; ".join(f"{one['name']} {one['count']}" for one in classes[:3])
        wrong = verdicts.total() - verdicts[Verdict.MATCH.value]
        found = [f"Questions without a match: {wrong:,}. Most often: {most}."]
    return found + ([f"Questions without a valid result: {invalid:,}."] if invalid else [])


def _curves(scores: Scores) -> dict[str, Any] | None:
    whole = {one.policy: one for one in scores.curves if one.part == "all" and one.points}
    shown = [whole[policy] for policy in (BASE, TRAINED) if policy in whole]
    if not shown:
        return None
    some, every = tables.curves(shown)
    title = "Voting among k rollouts, and pass@k as its upper limit"
    return {
        "chart": charts.curve_chart(shown).svg(title),
        "some": some,
        "every": every,
        "parts": tables.curve_parts(scores.curves),
    }


def _class_chart(details: Mapping[str, Any]) -> Markup:
    counts = [
        (name if verdict != "error" else f"error: {name}", base, trained)
        for name, verdict, _, base, trained in tables.failure_classes(details["classes"]).rows
    ]
    if not counts:
        return Markup()
    return charts.class_chart(counts[: tables.SHOWN_CLASSES]).svg("Questions by class of failure")


def _rules(scores: Scores, about: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the greedy answers by every rule; None where they were not scored."""
    if about is None:
        return None
    names = tables.rule_names(scores).items()
    changed = [(p, counted(len(k), "verdict"), k[:20]) for p, k in about["changed"].items() if k]
    return {
        "table": tables.rules(scores),
        "timed_runs": counted(about["timed_runs"], "run") if about["timed_runs"] else "",
        "changed": changed,
        "definitions": [(name, RULE_DEFINITIONS[rule]) for rule, name in names],
    }
