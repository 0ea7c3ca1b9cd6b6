"""What is shown of suites' results: by Dagster, and on a page of all of a dataset's checks.

Each asset stores its checks' results as JSON beside the dataset, and renders the page, which opens
without a network, anew from all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

from assets.checks.expectations import EXAMPLES, Failure, SuiteResult, great_expectations
from assets.common.sources import version_for
from resources.artifact_root import ArtifactRoot
from text2sql.common.counting import counted
from text2sql.common.files import write_whole
from text2sql.common.provenance import fingerprint
from text2sql.datasets.checks_page import stored_checks, update_page

_CELL = 200
_METADATA_BYTES = 16_000
_PAGE_CELL = 1_000


def report_checks(
    root: ArtifactRoot,
    folder: Path,
    asset: str,
    checks: Mapping[str, Callable[[], SuiteResult]],
    seen: Any = None,
) -> list[dg.AssetCheckResult]:
    """Run an asset's checks, add them to the page, log what stops the run, return the results.

    ``seen`` is everything that the checks look at: where the same code has checked the same before,
    the stored results are taken. None: the checks run in any case.
    """
    about = {"code": version_for(asset), "expectations": installed("great_expectations")}
    version = fingerprint(seen=seen, **about) if seen is not None else ""
    known = {} if root.data_docs else _known_checks(folder, version)
    new = {name: run() for name, run in checks.items() if name not in known}
    page = publish_checks(folder, asset, new, version)
    results = {name: known[name] if name in known else new[name] for name in checks}
    if root.data_docs:
        _write_data_docs(folder / "data_docs", results)
    for name, result in results.items():
        if result.blocks:
            dg.get_dagster_logger().error(f"{name}: {describe(result)}")
    return [check_result(name, result, page=page) for name, result in results.items()]


def blocked(results: Iterable[dg.AssetCheckResult]) -> bool:
    """Whether something critical fails in one of these results."""
    return any(not one.passed and one.severity is dg.AssetCheckSeverity.ERROR for one in results)


def _known_checks(folder: Path, version: str) -> dict[str, SuiteResult]:
    """Return the stored results of this version by check; none for the version ""."""
    known = {}
    for note in stored_checks(folder) if version else ():
        if note.get("version") == version:
            known[note["check"]] = SuiteResult(
                note["checked"],
                tuple(Failure(**failure) for failure in note["failures"]),
                pd.DataFrame(note["examples"], columns=note["columns"]),
                tuple(note["holding"]),
                what=note["what"],
            )
    return known


def publish_checks(
    folder: Path, asset: str, results: Mapping[str, SuiteResult], version: str = ""
) -> Path:
    """Store an asset's results in the dataset's ``folder`` and render its page; return the page."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    notes = {}
    for name, result in results.items():
        rows = result.examples.to_numpy().tolist()
        notes[name] = {
            "check": name,
            "asset": asset,
            "version": version,
            "checked": result.checked,
            "what": result.what,
            "holding": list(result.holding),
            "failures": [vars(failure) for failure in result.failures],
            "columns": [str(column) for column in result.examples.columns],
            "examples": [[cell_text(value, _PAGE_CELL) for value in row] for row in rows],
            "time": now,
        }
    return update_page(folder, notes)


def _write_data_docs(folder: Path, results: Mapping[str, SuiteResult]) -> None:
    """Write Great Expectations' own page for each suite; without a network they are bare."""
    great_expectations()
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    for check, suite in results.items():
        for number, result in enumerate(suite.raw, 1):
            name = check if number == 1 else f"{check}-{number}"
            result.suite_name = name
            result.meta |= {"run_id": RunIdentifier(check, datetime.now(UTC)), "batch_kwargs": {}}
            text = DefaultJinjaPageView().render(ValidationResultsPageRenderer().render(result))
            write_whole(folder / f"{name}.html", text)


def check_result(
    name: str, result: SuiteResult, asset: dg.AssetKey | str | None = None, page: Path | None = None
) -> dg.AssetCheckResult:
    """Return a suite's result as Dagster's: a sentence, the failures and examples, under 20 KB.

    ``page`` is the page with more of it. The severity is ERROR, which stops the run if the check
    is blocking, when something critical fails.
    """
    severity = dg.AssetCheckSeverity.ERROR if result.blocks else dg.AssetCheckSeverity.WARN
    metadata: dict[str, Any] = {"rows checked": result.what or result.checked}
    if result.failures:
        records = [
            {
                "expected": failure.expectation[:_CELL],
                "severity": "critical" if failure.critical else "warning",
                "failing rows": failure.rows,
                "observed": failure.observed[:_CELL],
            }
            for failure in result.failures
        ]
        metadata["failures"] = dg.MetadataValue.table([dg.TableRecord(one) for one in records])
    if len(rows := result.examples):
        # Up to 20 failing rows, with some of every failure.
        share = EXAMPLES // max(1, rows["failed"].nunique()) if len(rows) > EXAMPLES else EXAMPLES
        some = rows.groupby("failed", sort=False).head(max(1, share))
        metadata["failing rows"] = table(some)
    if page is not None:
        metadata["page"] = dg.MetadataValue.path(page)
    return dg.AssetCheckResult(
        check_name=name,
        asset_key=asset,
        passed=result.success,
        severity=severity,
        description=describe(result),
        metadata=metadata,
    )


def describe(result: SuiteResult) -> str:
    """Return in words which expectations fail, in how many rows, and the first of these."""
    if result.success:
        nothing = not result.checked and not result.what
        return "Nothing to check." if nothing else f"All expectations hold for {result.extent}."
    sentences = []
    for failure in result.failures:
        seen = counted(failure.rows, "row") if failure.rows else failure.observed
        sentences.append(f"{failure.expectation} ({seen})" if seen else failure.expectation)
    text = f"Failed: {'; '.join(sentences)}."
    if not len(result.examples):
        return text
    cells = map(cell_text, result.examples.drop(columns="failed").iloc[0])
    return f"{text} First: {', '.join(filter(None, cells))}"


def table(frame: pd.DataFrame) -> dg.TableMetadataValue:
    """Return the first 20 rows of a frame as Dagster's table, with bounded cells and size."""
    cells = [
        {str(name): cell_text(value) for name, value in row.items()}
        for row in frame.head(EXAMPLES).to_dict("records")
    ]
    while len(cells) > 1 and len(json.dumps(cells)) > _METADATA_BYTES:
        cells.pop()
    schema = dg.TableSchema([dg.TableColumn(str(name), "string") for name in frame.columns])
    return dg.MetadataValue.table([dg.TableRecord(row) for row in cells], schema=schema)


def cell_text(value: Any, most: int = _CELL) -> str:
    """Return a cell's text, at most ``most`` characters."""
    if value is None or value is pd.NA or value != value:  # pandas 3 keeps a null as NaN in text
        return ""
    if isinstance(value, float):  # pandas makes whole numbers floats where one is missing
        value = int(value) if value.is_integer() and abs(value) < 1e15 else format(value, ".6g")
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}… [{len(text):,} characters]"
