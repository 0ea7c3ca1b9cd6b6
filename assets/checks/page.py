"""What the checks of a dataset found, on one page that opens without a network.

Each asset leaves its checks' outcomes as JSON beside the dataset; the page is drawn anew from all
that are there. Everything that comes from the data is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import dagster as dg

from assets.checks.data_docs import write_data_docs
from assets.checks.expectations import EXAMPLES, Outcome
from assets.checks.view import cell_text, check_result, describe
from resources.paths import ArtifactRoot
from text2sql.common.counting import counted
from text2sql.common.files import write_whole
from text2sql.common.html import document
from text2sql.common.json_files import read_object, write_json
from text2sql.common.locking import take_lock

PAGE = "checks.html"
_FOLDER = "checks"
_CELL = 1_000
_STATES = ("critical", "warning", "passed")
_ORDER = ("bird_questions", "bird_databases", "gold_results", "training_prompts")
_STYLE = """
.passed { background: #1a7f37 } .warning { background: #9a6700 } .critical { background: #cf222e }
body { max-width: 80rem } th { white-space: nowrap }
td { vertical-align: top; max-width: 30rem; overflow-wrap: break-word }
li { margin: .2rem 0 } ul { padding-left: 1.2rem }
"""


def report_checks(
    root: ArtifactRoot, folder: Path, asset: str, outcomes: Mapping[str, Outcome]
) -> list[dg.AssetCheckResult]:
    """Write an asset's outcomes into the dataset's page and return them as Dagster's results.

    What will stop the run is also said in its log.
    """
    page = publish_checks(folder, asset, outcomes)
    if root.data_docs:
        write_data_docs(folder / "data_docs", outcomes)
    for name, outcome in outcomes.items():
        if outcome.blocks:
            dg.get_dagster_logger().error(f"{name}: {describe(outcome)}")
    return [check_result(name, outcome, page=page) for name, outcome in outcomes.items()]


def publish_checks(folder: Path, asset: str, outcomes: Mapping[str, Outcome]) -> Path:
    """Note an asset's outcomes in the dataset's ``folder`` and draw its page; return the page."""
    noted = folder / _FOLDER
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    for name, outcome in outcomes.items():
        write_json(noted / f"{name}.json", _note(name, asset, outcome) | {"time": now})
    with _alone(noted):
        return write_whole(folder / PAGE, render_checks(folder.name, _notes(noted)))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time draw the page: two would show one's outcomes only."""
    file = folder / ".lock"
    with file.open("w") as lock:
        take_lock(lock, file)
        yield


def _note(name: str, asset: str, outcome: Outcome) -> dict[str, Any]:
    rows = outcome.examples.to_numpy().tolist()
    return {
        "check": name,
        "asset": asset,
        "checked": outcome.checked,
        "what": outcome.what,
        "holding": list(outcome.holding),
        "failures": [vars(failure) for failure in outcome.failures],
        "columns": [str(column) for column in outcome.examples.columns],
        "examples": [[cell_text(value, _CELL) for value in row] for row in rows],
    }


def _notes(folder: Path) -> list[dict[str, Any]]:
    notes = [read_object(file) for file in folder.glob("*.json")]
    places = {asset: place for place, asset in enumerate(_ORDER)}
    return sorted(notes, key=lambda note: (places.get(note["asset"], 99), note["check"]))


def render_checks(dataset: str, notes: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of a dataset's checks: a summary, and sections, what failed first."""
    counts = [_state(note) for note in notes]
    worst_first = sorted(notes, key=lambda note: _STATES.index(_state(note)))
    words = ", ".join(
        f"{counts.count(state)} {label}"
        for state, label in (("critical", "critical"), ("warning", "with warnings"))
        if state in counts
    )
    checks = counted(len(notes), "check")
    body = (
        f'<h1>Checks of dataset {escape(dataset)}</h1><p class="about">{checks}: '
        f"{words or 'everything holds'}</p>\n"
        f"<nav>{_summary(notes)}</nav>\n" + "\n".join(map(_section, worst_first))
    )
    return document(f"Checks of {dataset}", body, _STYLE)


def _state(note: Mapping[str, Any]) -> str:
    if not note["failures"]:
        return "passed"
    return "critical" if any(failure["critical"] for failure in note["failures"]) else "warning"


def _badge(state: str) -> str:
    return f'<span class="status {state}">{state}</span>'


def _summary(notes: Sequence[Mapping[str, Any]]) -> str:
    rows = "".join(
        f'<tr><td>{_badge(_state(note))}</td><td><a href="#{escape(note["check"])}">'
        f"{escape(note['check'])}</a></td><td>{escape(note['asset'])}</td>"
        f'<td class="number">{escape(note.get("what") or format(note["checked"], ","))}</td>'
        f"<td>{escape(note['time'])}</td></tr>"
        for note in notes
    )
    head = "<th></th><th>check</th><th>asset</th><th>rows</th><th>when (UTC)</th>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _extent(note: Mapping[str, Any]) -> str:
    return str(note.get("what") or counted(note["checked"], "row"))


def _section(note: Mapping[str, Any]) -> str:
    failed = "".join(f"<li>{_failure(failure)}</li>" for failure in note["failures"])
    held = "".join(f"<li>{escape(sentence)}</li>" for sentence in note["holding"])
    holds = counted(len(note["holding"]), "expectation holds", "expectations hold")
    holding = f"<details><summary>{holds}</summary><ul>{held}</ul></details>"
    return (
        f'<section id="{escape(note["check"])}"><h2>{escape(note["check"])}</h2>'
        f'<p class="about">{_badge(_state(note))} {escape(_extent(note))} checked</p>'
        f"<ul>{failed}</ul>{holding if held else ''}{_examples(note)}</section>"
    )


def _failure(failure: Mapping[str, Any]) -> str:
    rows = failure["rows"]
    count = f": {counted(rows, 'row fails', 'rows fail')}" if rows else ""
    observed = f" (found: {escape(failure['observed'])})" if failure["observed"] else ""
    state = "critical" if failure["critical"] else "warning"
    return f"{_badge(state)} {escape(failure['expectation'])}{count}{observed}"


def _examples(note: Mapping[str, Any]) -> str:
    if not note["examples"]:
        return ""
    head = "".join(f"<th>{escape(column)}</th>" for column in note["columns"])
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
        for row in note["examples"]
    )
    most = max((failure["rows"] for failure in note["failures"]), default=0)
    shown = len(note["examples"])
    rows_shown = counted(shown, "failing row")
    first = f"the first {rows_shown}" if most > EXAMPLES else rows_shown
    return (
        f"<details open><summary>{first}</summary><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></details>"
    )
