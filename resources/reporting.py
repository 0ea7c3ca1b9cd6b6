"""The database with the reporting tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from text2sql.reporting.tables.location import URL_VARIABLE, reporting_url

if TYPE_CHECKING:
    from text2sql.reporting.tables.store import ReportingStore


class ReportingDatabase(dg.ConfigurableResource):
    """Where the reporting tables are: SQLite, or PostgreSQL."""

    url: str = Field(
        default="",
        description=(
            "sqlite:///FILE or postgresql://USER@HOST/DATABASE; empty means the environment "
            f"variable {URL_VARIABLE}, or reporting.sqlite below the artifact root."
        ),
    )

    def open(self, root: Path) -> ReportingStore:
        """Open the tables, as ``ReportingStore`` does; use it in a ``with`` block."""
        from text2sql.reporting.tables.store import ReportingStore

        return ReportingStore(self.url_below(root))

    def url_below(self, root: Path) -> str:
        """Return the URL in effect with this artifact root."""
        return self.url or reporting_url(root)
