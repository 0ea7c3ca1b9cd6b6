"""Where the reporting tables are, when nobody says so."""

from __future__ import annotations

import os
from pathlib import Path

from text2sql.champion import local_root

URL_VARIABLE = "TEXT2SQL_REPORTING_URL"


def reporting_url(root: Path | None = None) -> str:
    """Return the URL of the reporting database: ``TEXT2SQL_REPORTING_URL``, or a file.

    That is ``reporting.sqlite`` below the artifact root, the local project's without one given.
    """
    return (
        os.environ.get(URL_VARIABLE) or f"sqlite:///{(root or local_root()) / 'reporting.sqlite'}"
    )
