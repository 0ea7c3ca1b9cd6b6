"""Where the reporting tables are, when nobody says so."""

from __future__ import annotations

import os
from pathlib import Path

from text2sql.common.artifacts import artifact_root

URL_VARIABLE = "TEXT2SQL_REPORTING_URL"


def reporting_url(root: Path | None = None) -> str:
    """Return the URL of the reporting database: ``TEXT2SQL_REPORTING_URL``, or a file.

    That is ``reporting.sqlite`` below the artifact root, the local project's without one given.
    """
    file = (root or artifact_root()) / "reporting.sqlite"
    return os.environ.get(URL_VARIABLE) or sqlite_url(file)


def reporting_place(root: Path) -> str:
    """Say where the tables are: the path of a file, or a URL without its password."""
    from text2sql.reporting.tables.database import Database

    file, url = root / "reporting.sqlite", reporting_url(root)
    if url == sqlite_url(file):
        return str(file)
    with Database(url) as database:
        return database.name


def sqlite_url(file: Path) -> str:
    """Return the URL of an SQLite file; of a path with ``?`` or ``%``, one that means that path."""
    path = str(file)
    if not {"?", "%"} & set(path):
        return f"sqlite:///{path}"
    from sqlalchemy.engine import URL

    return URL.create("sqlite", database=path).render_as_string()
