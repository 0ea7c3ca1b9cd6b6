"""What goes wrong with the database that holds Dagster's records, in a sentence."""

from __future__ import annotations

import logging
import sqlite3

from sqlalchemy.exc import DBAPIError

from pipelines.runs.launch import disk_full
from text2sql.common.artifacts import artifact_root
from text2sql.errors import InfrastructureError, Text2SqlError

AWAY = "DagsterPostgresException"
"""What ``dagster_postgres``, which need not be installed, raises after its last attempt."""


def records_error(error: BaseException) -> Text2SqlError | None:
    """Return what to say of an error of Dagster's database; None of any other error."""
    if type(error).__name__ == AWAY:
        return InfrastructureError(f"Dagster's database cannot be reached: {_words(error)}.")
    if not isinstance(error, DBAPIError):
        return None
    if isinstance(error.orig, sqlite3.Error):
        place = artifact_root()
        reason = f"Dagster's records below {place} cannot be written: {error.orig}."
        return Text2SqlError(f"{reason} {disk_full(reason, place / 'logs')}".rstrip())
    return InfrastructureError(f"Dagster's database failed: {_words(error)}.")


def _words(error: BaseException) -> str:
    """Return the first line of what the database itself said."""
    cause = error.__cause__ if type(error).__name__ == AWAY else error
    said = str(getattr(cause, "orig", None) or cause or error)
    return said.splitlines()[0].rstrip(".")


def hush_attempts() -> None:
    """Print nothing of each attempt to reach Dagster's database: the last one is told of."""
    logging.getLogger().addFilter(_is_no_attempt)


def _is_no_attempt(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Retrying failed database connection")
