"""The results of a dataset's checks on one page that opens without a network.

Each asset stores its checks' results as JSON beside the dataset, and renders the page anew from
all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from assets.checks.expectations import EXAMPLES, SuiteResult, great_expectations
from assets.checks.view import cell_text, check_result, describe
from resources.paths import ArtifactRoot
from text2sql.common.counting import counted
from text2sql.common.files import write_whole
from text2sql.common.html import render
from text2sql.common.json_files import read_object, write_json
from text2sql.common.locking import take_lock

_CELL = 1_000
_STATES = ("critical", "warning", "passed")
_ORDER = ("bird_questions", "bird_databases", "gold_results", "training_prompts")


def report_checks(
    root: ArtifactRoot, folder: Path, asset: str, results: Mapping[str, SuiteResult]
) -> list[dg.AssetCheckResult]:
    """Add an asset's results to the dataset's page and return them as Dagster's results.

    Critical failures, which stop the run, are also logged.
    """
    page = publish_checks(folder, asset, results)
    if root.data_docs:
        write_data_docs(folder / "data_docs", results)
    for name, result in results.items():
        if result.blocks:
            dg.get_dagster_logger().error(f"{name}: {describe(result)}")
    return [check_result(name, result, page=page) for name, result in results.items()]


def publish_checks(folder: Path, asset: str, results: Mapping[str, SuiteResult]) -> Path:
    """Store an asset's results in the dataset's ``folder`` and render its page; return the page."""
    notes = folder / "checks"
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    for name, result in results.items():
        rows = result.examples.to_numpy().tolist()
        note = {
            "check": name,
            "asset": asset,
            "checked": result.checked,
            "what": result.what,
            "holding": list(result.holding),
            "failures": [vars(failure) for failure in result.failures],
            "columns": [str(column) for column in result.examples.columns],
            "examples": [[cell_text(value, _CELL) for value in row] for row in rows],
            "time": now,
        }
        write_json(notes / f"{name}.json", note)
    # One process at a time: of two at once, each would miss the other's results.
    lock = notes / ".lock"
    with lock.open("w") as handle:
        take_lock(handle, lock)
        checks = [read_object(file) for file in notes.glob("*.json")]
        return write_whole(folder / "checks.html", render_checks(folder.name, checks))


def render_checks(dataset: str, notes: list[dict[str, Any]]) -> str:
    """Return the page of a dataset's checks: a summary, and sections, failures first."""
    places = {asset: place for place, asset in enumerate(_ORDER)}
    checks = sorted(notes, key=lambda note: (places.get(note["asset"], 99), note["check"]))
    for check in checks:
        failures = check["failures"]
        critical = any(failure["critical"] for failure in failures)
        check["state"] = "critical" if critical else "warning" if failures else "passed"
        check["extent"] = check["what"] or counted(check["checked"], "row")
        check["more"] = max((one["rows"] for one in failures), default=0) > EXAMPLES
    states = [check["state"] for check in checks]
    words = ", ".join(
        f"{states.count(state)} {label}"
        for state, label in (("critical", "critical"), ("warning", "with warnings"))
        if state in states
    )
    return render(
        "assets.checks",
        "checks.html",
        dataset=dataset,
        summary=f"{counted(len(checks), 'check')}: {words or 'everything holds'}",
        checks=checks,
        worst_first=sorted(checks, key=lambda check: _STATES.index(check["state"])),
        counted=counted,
    )


def write_data_docs(folder: Path, results: Mapping[str, SuiteResult]) -> list[Path]:
    """Write Great Expectations' own page for each suite, named by its check; return the pages.

    When opened, they fetch their style and scripts from public servers; without a network they are
    bare.
    """
    great_expectations()
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    pages = []
    for check, suite in results.items():
        for number, result in enumerate(suite.raw, 1):
            name = check if number == 1 else f"{check}-{number}"
            result.suite_name = name
            result.meta |= {"run_id": RunIdentifier(check, datetime.now(UTC)), "batch_kwargs": {}}
            text = DefaultJinjaPageView().render(ValidationResultsPageRenderer().render(result))
            pages.append(write_whole(folder / f"{name}.html", text))
    return pages
