"""The report of an evaluation as one HTML page: how good, how sure, better, where it fails.

The page needs no network. Everything that comes from questions, databases or models is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from text2sql.common.charts import CHART_STYLE
from text2sql.common.counting import counted
from text2sql.common.html import document
from text2sql.evaluation.report import charts, failed, html, rules, tables
from text2sql.evaluation.report.reference import SOURCE
from text2sql.evaluation.report.words import (
    champion_name,
    difference,
    evaluated_name,
    interval,
    percent,
)
from text2sql.evaluation.scores import BASE, SINGLE_TURN, TRAINED, Comparison, Scores
from text2sql.evaluation.slices import CORRECTED
from text2sql.judge.verdicts import Verdict

_STYLE = f"""
body {{ max-width: 72rem }} td:first-child {{ white-space: nowrap }}
.answers {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); gap: 1rem }}
.answers section {{ margin: 0 }} .big {{ font-size: 1.6rem; font-weight: 600 }}
h2 {{ margin: 1.6rem 0 .3rem }} section h2 {{ margin: 0 }}
th.number {{ text-align: right }} td.number {{ white-space: nowrap }}
td, li {{ overflow-wrap: anywhere }} details {{ margin: .5rem 0 }} summary {{ cursor: pointer }}
.note {{ border-left: 4px solid var(--first); padding-left: .6rem }}
dt {{ font-weight: 600; margin-top: .4rem }} dd {{ margin-left: 1rem }}
{CHART_STYLE.strip()}
"""


def render_report(details: Mapping[str, Any]) -> str:
    """Return the page that shows what ``text2sql.evaluation.report.details`` put together."""
    scores = Scores.from_dict(details["scores"])
    title = f"Evaluation of {evaluated_name(details['run'])}"
    body = "\n".join(
        (
            f"<h1>{html.text(title)}</h1>",
            _about(scores),
            _answers(scores, details),
            _settings(scores, details),
            _curves(scores),
            tables.parts_section(scores),
            rules.section(scores, details.get("rules")),
            failed.section(details),
            failed.effort_section(details["effort"]),
            failed.examples_section(details),
            failed.changed_section(details),
            failed.questions_section(details["questions"]),
            tables.origin_section(scores),
        )
    )
    return document(title, body, _STYLE)


def _about(scores: Scores) -> str:
    keys = '<span class="key first"></span>base &nbsp; <span class="key second"></span>trained'
    asked = counted(scores.questions, f"{html.text(scores.split)} question")
    return (
        f'<p class="about">{asked}, dataset '
        f"{html.text(scores.provenance.get('dataset', 'unknown'))}. Execution accuracy by BIRD's "
        f"official rule. This is a {html.text(scores.metric)}.</p>"
        f"<p>{keys}</p>{''.join(map(_note, scores.notes))}{_partial(scores)}"
    )


def _partial(scores: Scores) -> str:
    """Say which settings lack questions, those that lack as many together."""
    found: dict[str, list[str]] = {}
    for policy in (BASE, TRAINED):
        for setting in tables.settings_of(scores):
            if words := scores.partial(policy, setting):
                found.setdefault(words, []).append(f"{policy} {setting}")
    told = "; ".join(f"{', '.join(names)}: {words}" for words, names in found.items())
    words = "A setting on fewer questions is not to be compared with one on all of them."
    return _note(f"{told}. {words}") if told else ""


def _note(sentence: str) -> str:
    return f'<p class="note">{html.text(sentence)}</p>'


def _answers(scores: Scores, details: Mapping[str, Any]) -> str:
    """Answer the four questions that everybody has, each in a box."""
    greedy = scores.find(TRAINED, "greedy")
    voted = scores.find(TRAINED, f"vote@{scores.k}")
    known = percent(greedy.value) if greedy and greedy.n else "unknown"
    good = f'<p class="big">{known}</p>'
    sure = "".join(
        f"<p>{html.text(name)}: {html.text(interval(one))}</p>"
        for name, one in (("Greedy", greedy), (f"vote@{scores.k}", voted))
        if one and one.n
    )
    boxes = {
        "How good?": good + f"<p>{html.text(_also(scores, details))}</p>",
        "How sure?": f"{sure}<p>95 % intervals over the questions.</p>",
        "Better than before?": _sentences(_better(scores, details)),
        "Where does it fail?": failed.summary(details) + _sentences(tables.weakest(scores)),
    }
    sections = "".join(f"<section><h2>{name}</h2>{text}</section>" for name, text in boxes.items())
    return f'<div class="answers">{sections}</div>'


def _sentences(found: Iterable[str]) -> str:
    return "".join(f"<p>{html.text(sentence)}</p>" for sentence in found)


def _also(scores: Scores, details: Mapping[str, Any]) -> str:
    """Say what the first number is, and what the base and the other settings give."""
    base, official = (scores.find(policy, "greedy") for policy in (BASE, TRAINED))
    told = [f"the base has {percent(base.value)}"] if base and base.n else []
    sentences = ["; ".join(["The trained policy's greedy accuracy", *told])]
    sentences += _voted(scores, details)
    once = scores.find(TRAINED, SINGLE_TURN)
    if once and once.n:
        sentences.append(f"One reply without tools ({SINGLE_TURN}) gives {percent(once.value)}")
    corrected = scores.find(TRAINED, "greedy", CORRECTED, CORRECTED)
    if official and corrected and corrected.n:
        sentences.append(f"Official n = {official.n:,}; corrected {interval(corrected)}")
    return " ".join(f"{sentence}." for sentence in sentences)


def _voted(scores: Scores, details: Mapping[str, Any]) -> list[str]:
    """Say what voting gives; where not every question was sampled, beside greedy on the same."""
    voted = scores.find(TRAINED, f"vote@{scores.k}")
    if voted is None or not voted.n:
        return []
    words = f"A vote among {counted(scores.k, 'rollout')} gives {percent(voted.value)}"
    if voted.n == scores.questions:
        return [words]
    both = [row[TRAINED] for row in details["questions"] if row[TRAINED]["samples"] >= scores.k]
    right = [one["verdict"] == Verdict.MATCH for one in both if one["verdict"] in failed.JUDGED]
    greedy = f", where greedy has {percent(sum(right) / len(right))}" if right else ""
    return [f"{words} on {voted.n:,} of the questions{greedy}"]


def _better(scores: Scores, details: Mapping[str, Any]) -> list[str]:
    found = [
        difference(one, "the base")
        for one in scores.comparisons
        if (one.setting, one.part) == ("greedy", "all")
    ]
    before = details["before"]
    if before is None:
        return [*found, "There was no other champion with the same data and prompts."]
    against = Comparison(**before["comparison"])
    return [*found, difference(against, champion_name(before["training_run"]))]


def _settings(scores: Scores, details: Mapping[str, Any]) -> str:
    names = tables.settings_of(scores)
    base, trained = ([scores.find(policy, name) for name in names] for policy in (BASE, TRAINED))
    drawn = charts.score_chart(names, base, trained)
    chart = drawn.svg("Execution accuracy in percent, with 95 % intervals")
    same = details["same_as_published"]
    source = f"<p class='about'>Published: {html.text(SOURCE)}.</p>" if same else ""
    return f"<h2>Settings</h2>{chart}{tables.settings_table(scores, same)}{source}"


def _curves(scores: Scores) -> str:
    whole = {one.policy: one for one in scores.curves if one.part == "all" and one.points}
    shown = [whole[policy] for policy in (BASE, TRAINED) if policy in whole]
    if not shown:
        return ""
    chart = charts.curve_chart(shown).svg("Voting among k rollouts, and pass@k as its ceiling")
    return (
        f"<h2>Voting at every k</h2>{chart}"
        '<p class="about">Percent over k. Solid: the vote among k rollouts, averaged over every '
        "choice of k of a question's rollouts, with its 95 % band. Dashed: pass@k, which no way "
        "of choosing among the k can exceed. A tie is shared here; in the table of settings it "
        "goes to the lowest sample, so that at the last k the two may differ a little.</p>"
        + tables.curve_table(shown)
        + tables.curve_parts(scores.curves)
    )
