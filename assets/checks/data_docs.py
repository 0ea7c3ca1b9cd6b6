"""Great Expectations' own pages of a suite's results, for those who know and want them.

They are written only where ``data_docs`` is set on the artifact root: when opened, they fetch
their style and scripts from public servers, and without a network they are bare.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from assets.checks.expectations import Outcome, great_expectations
from text2sql.common.files import write_whole


def write_data_docs(folder: Path, outcomes: Mapping[str, Outcome]) -> list[Path]:
    """Write a page for every suite that was run, named by its check; return the pages."""
    great_expectations()
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    pages = []
    for check, outcome in outcomes.items():
        for number, result in enumerate(outcome.raw, 1):
            name = check if number == 1 else f"{check}-{number}"
            result.suite_name = name
            result.meta |= {"run_id": RunIdentifier(check, datetime.now(UTC)), "batch_kwargs": {}}
            text = DefaultJinjaPageView().render(ValidationResultsPageRenderer().render(result))
            pages.append(write_whole(folder / f"{name}.html", text))
    return pages
