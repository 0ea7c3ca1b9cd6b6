"""The page of a dataset's checks: made anew from the results that each asset stored beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from text2sql.common.counting import counted
from text2sql.common.files import write_whole
from text2sql.common.html import render
from text2sql.common.json_files import read_object, write_json
from text2sql.common.locking import take_lock

SHOWN_EXAMPLES = 20
"""The most failing rows that a check shows."""
_STATES = ("critical", "warning", "passed")
_ORDER = ("bird_questions", "bird_databases", "gold_results", "training_prompts")


def update_page(folder: Path, results: Mapping[str, Mapping[str, Any]]) -> Path:
    """Store results by check in a dataset's folder, render its page, and return the page."""
    stored = folder / "checks"
    for name, result in results.items():
        write_json(stored / f"{name}.json", result)
    # One process at a time: of two at once, each would miss the other's results.
    lock = stored / ".lock"
    with lock.open("w") as handle:
        take_lock(handle, lock)
        return write_whole(folder / "checks.html", _page(folder.name, stored_checks(folder)))


def stored_checks(folder: Path) -> list[dict[str, Any]]:
    """Return the results in a dataset's folder, one for each check."""
    return [read_object(file) for file in (folder / "checks").glob("*.json")]


def _page(dataset: str, notes: list[dict[str, Any]]) -> str:
    """Return the page of a dataset's checks: a summary, and sections, failures first."""
    places = {asset: place for place, asset in enumerate(_ORDER)}
    checks = sorted(notes, key=lambda note: (places.get(note["asset"], 99), note["check"]))
    for check in checks:
        failures = check["failures"]
        critical = any(failure["critical"] for failure in failures)
        check["state"] = "critical" if critical else "warning" if failures else "passed"
        check["extent"] = check["what"] or counted(check["checked"], "row")
        check["more"] = max((one["rows"] for one in failures), default=0) > SHOWN_EXAMPLES
    states = [check["state"] for check in checks]
    labels = {"critical": "critical", "warning": "with warnings"}
    words = ", ".join(f"{states.count(one)} {labels[one]}" for one in labels if one in states)
    return render(
        "text2sql.datasets",
        "checks.html",
        dataset=dataset,
        summary=f"{counted(len(checks), 'check')}: {words or 'everything holds'}",
        checks=checks,
        worst_first=sorted(checks, key=lambda check: _STATES.index(check["state"])),
        counted=counted,
    )
