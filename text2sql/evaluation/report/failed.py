"""The report's part on failures: verdicts, classes, effort, examples and every question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from text2sql.common.counting import counted
from text2sql.evaluation.report import html
from text2sql.evaluation.report.charts import class_chart
from text2sql.evaluation.report.words import champion_name
from text2sql.evaluation.scores import BASE, TRAINED
from text2sql.judge.verdicts import Verdict

_MATCH = Verdict.MATCH.value
_NO_RESULT = ("missing", Verdict.INFRASTRUCTURE.value)
JUDGED = tuple(verdict.value for verdict in Verdict if verdict is not Verdict.INFRASTRUCTURE)
"""Verdicts that say something of a question."""
_SHOWN_CLASSES = 16


def summary(details: Mapping[str, Any]) -> str:
    """Say in a few words where the trained policy fails most."""
    classes = details["classes"][TRAINED]
    verdicts = Counter(_verdicts(details, TRAINED))
    nothing = sum(verdicts.pop(verdict, 0) for verdict in _NO_RESULT)
    lacking = f"<p>Questions without a valid result: {nothing:,}.</p>" if nothing else ""
    if not classes:
        words = "It does not fail on these questions." if verdicts else "Nothing was answered."
        return f"<p>{words}</p>{lacking}"
    first = "; ".join(f"{one['name']} {one['count']}" for one in classes[:3])
    wrong = verdicts.total() - verdicts[_MATCH]
    return f"<p>Questions without a match: {wrong:,}. Most often: {html.text(first)}.</p>{lacking}"


def section(details: Mapping[str, Any]) -> str:
    """Return the verdict table and the classes of failures, both of the greedy rollouts."""
    counted = {name: Counter(_verdicts(details, name)) for name in (BASE, TRAINED)}
    names = sorted(counted[BASE] | counted[TRAINED], key=lambda v: -counted[TRAINED][v])
    verdicts = [[v.replace("_", " "), counted[BASE][v], counted[TRAINED][v]] for v in names]
    table = html.table(["verdict", "base", "trained"], verdicts, 1)
    return f"<h2>Where it fails</h2>{table}{_classes(details['classes'])}"


def _verdicts(details: Mapping[str, Any], name: str) -> list[str]:
    return [row[name]["verdict"] for row in details["questions"]]


def _classes(classes: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    counts: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for policy in (TRAINED, BASE):
        for one in classes[policy]:
            counts.setdefault((one["verdict"], one["name"]), {})[policy] = one
    rows, bars = [], []
    for (verdict, name), found in counts.items():
        base, trained = (found.get(policy, {}).get("count", 0) for policy in (BASE, TRAINED))
        keys = found.get(TRAINED, {}).get("keys", ())
        links = html.Raw(", ".join(html.link(key) for key in keys))
        rows.append([name, verdict, links, base, trained])
        bars.append((name if verdict != "error" else f"error: {name}", base, trained))
    head = ["class", "verdict", "for example", "base", "trained"]
    shown = bars[:_SHOWN_CLASSES]
    chart = class_chart(shown).svg("Questions by class of failure") if shown else ""
    return (
        f"{chart}{html.table(head, rows, 3)}"
        '<p class="about">Questions by class. An error has the class of SQLite\'s message; a wrong '
        "result those in which its query differs from gold, read by sqlglot, so a question may "
        "have several, and a difference need not be the reason.</p>"
    )


def effort_section(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what answers cost: turns, tools, tokens, time, and how many were truncated."""
    rows = []
    for policy, kinds in found.items():
        for kind, one in kinds.items():
            if kind != "tools" and one:
                turns = ", ".join(f"{turn}: {count}" for turn, count in one["turns"].items())
                tokens = f"{one['prompt_tokens']:,.0f} + {one['completion_tokens']:,.0f}"
                seconds = f"{one['median_seconds']:.2f} / {one['p95_seconds']:.2f}"
                facts = [one["rollouts"], f"{one['mean_turns']:.2f}", turns, tokens, seconds]
                rows.append([f"{policy} {kind}", *facts, f"{one['truncated']:.1%}"])
    head = ["", "rollouts", "mean turns", "rollouts by turns", "tokens in + out"]
    table = html.table([*head, "seconds median / p95", "truncated"], rows, 1)
    return f"<h2>Effort</h2>{table}{_tools(found)}"


def _tools(found: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        [policy, one["tool"], one["calls"], f"{one['mean_seconds']:.3f}", _said(one["ended"])]
        for policy, kinds in found.items()
        for one in kinds["tools"]
    ]
    head = ["greedy", "tool", "calls", "mean seconds", "ended"]
    return html.table(head, rows, 2) if rows else ""


def _said(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def examples_section(details: Mapping[str, Any]) -> str:
    """Return the examples: question, gold, what was submitted, and the whole conversation."""
    rows = {row["key"]: row for row in details["questions"]}
    shown = "".join(_example(one, rows[one["key"]]) for one in details["examples"])
    return f"<h2>Examples of failures</h2>{shown}" if shown else ""


def _example(one: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    answer = row[TRAINED]
    error = f"<p>{html.text(answer['error'])}</p>" if answer["error"] else ""
    steps = "".join(
        f'<p class="about">{html.text(step["who"])}</p><pre>{html.text(step["text"])}</pre>'
        for step in one["transcript"]
    )
    lost = " The base had it right." if row[BASE]["verdict"] == _MATCH else ""
    title = f"{row['question']} ({', '.join(answer['classes'])})"
    body = (
        f'<p class="about">{html.link(row["key"])} on {html.text(row["db_id"])}, '
        f"{html.text(answer['verdict'])}, {html.text(one['place'])}.{lost}</p>"
        f"<p>Gold</p><pre>{html.text(row['gold'])}</pre>"
        f"<p>Submitted</p><pre>{html.text(answer['sql'])}</pre>{error}"
        + html.folded("Transcript", steps)
    )
    return html.folded(title, body)


def changed_section(details: Mapping[str, Any]) -> str:
    """List the questions gained and lost against the base, and against the champion before."""
    gained: list[str] = []
    lost: list[str] = []
    for row in details["questions"]:
        base, trained = (row[name]["verdict"] for name in (BASE, TRAINED))
        if base in _NO_RESULT or trained in _NO_RESULT:
            continue
        if (base == _MATCH) != (trained == _MATCH):
            (lost if base == _MATCH else gained).append(row["key"])
    text = _changes("the base", gained, lost)
    if before := details["before"]:
        name = champion_name(before["training_run"])
        text += _changes(name, before["gained"], before["lost"])
    return f"<h2>Gained and lost, greedy</h2>{text}"


def _changes(than: str, gained: Sequence[str], lost: Sequence[str]) -> str:
    return "".join(
        html.folded(f"{len(keys)} {what} against {than}", ", ".join(map(html.link, keys)))
        for what, keys in (("gained", gained), ("lost", lost))
    )


def questions_section(rows: Sequence[Mapping[str, Any]]) -> str:
    """List every question with both greedy answers and the lines where they lie."""
    lines = []
    for row in rows:
        answers = [cell for name in (BASE, TRAINED) for cell in _answer(row[name])]
        name = html.Raw(f'<span id="{html.anchor(row["key"])}">{html.text(row["key"])}</span>')
        sql = html.folded("SQL", _queries(row))
        asked = html.Raw(html.text(row["question"]) + sql)
        lines.append([name, row["db_id"], row["difficulty"], asked, *answers])
    head = ["key", "database", "difficulty", "question"]
    head += [f"{name} {what}" for name in (BASE, TRAINED) for what in ("greedy", "sampled", "line")]
    table = html.table(head, lines)
    return f"<h2>Every question</h2>{html.folded(counted(len(rows), 'question'), table)}"


def _answer(answer: Mapping[str, Any]) -> list[str]:
    solved = f"{answer['solved']} of {answer['samples']}" if answer["samples"] else ""
    return [answer["verdict"].replace("_", " "), solved, answer["place"]]


def _queries(row: Mapping[str, Any]) -> str:
    return "".join(
        f'<p class="about">{name}</p><pre>{html.text(sql)}</pre>'
        for name, sql in (("gold", row["gold"]), *((n, row[n]["sql"]) for n in (BASE, TRAINED)))
        if sql
    )
