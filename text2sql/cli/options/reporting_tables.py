"""Opening the reporting tables for a command."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from text2sql.errors import Text2SqlError


def with_store(work: Callable[..., Any]) -> Callable[..., Any]:
    """Open the reporting tables for a command that reads them, with an option that says which."""
    return _opening(work, make=False)


def with_new_store(work: Callable[..., Any]) -> Callable[..., Any]:
    """Open the reporting tables for a command that may be the first to write to them."""
    return _opening(work, make=True)


def with_url(work: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the URL of the reporting database, with an option that says which."""

    @click.option("--reporting", metavar="URL", help="The reporting database.")
    @wraps(work)
    def run(*arguments: Any, reporting: str | None, **options: Any) -> None:
        try:
            import text2sql.reporting.tables.store  # noqa: F401 - what it needs may be missing
        except ModuleNotFoundError as error:
            raise Text2SqlError(
                f"{error}: the reporting tables need text2sql-lifecycle[reporting]; install it"
            ) from error
        from text2sql.reporting.tables.location import reporting_url

        work(reporting or reporting_url(), *arguments, **options)

    return run


def _opening(work: Callable[..., Any], make: bool) -> Callable[..., Any]:
    @wraps(work)
    def run(url: str, *arguments: Any, **options: Any) -> None:
        from text2sql.reporting.tables.store import ReportingStore

        if not make:
            require_file(url)
        with ReportingStore(url) as store:
            work(store, *arguments, **options)

    return with_url(run)


def require_file(url: str) -> None:
    """Refuse to make an empty database where somebody only wants to read one."""
    from text2sql.reporting.tables.location import sqlite_file

    path = sqlite_file(url)
    if path is not None and not path.is_file():
        raise Text2SqlError(
            f"there are no reporting tables at {path}; name them with --reporting, or add a"
            " question (text2sql questions add), or answer the shipped ones (make demo)"
        )


def require_questions(url: str) -> None:
    """Refuse to answer a day of nothing, for which the asset would take the demo's questions."""
    from text2sql.reporting.tables.questions import QuestionTable
    from text2sql.reporting.tables.store import ReportingStore

    require_file(url)
    with ReportingStore(url) as store:
        if not QuestionTable(store).files():
            raise Text2SqlError(
                f"there are no questions in {store.name}: add one with text2sql questions add,"
                " or a file of them with text2sql questions import"
            )
