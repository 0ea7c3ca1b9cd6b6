"""Bounded, read-only execution of untrusted SQL: the only place that opens a user's database."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from text2sql.sandbox.files import check_database as check_database
    from text2sql.sandbox.limits import Limits as Limits
    from text2sql.sandbox.pool import Sandbox as Sandbox
    from text2sql.sandbox.results import QueryResult as QueryResult
    from text2sql.sandbox.results import Status as Status
    from text2sql.sandbox.sql.repeatable import is_repeatable as is_repeatable
    from text2sql.sandbox.sql.statements import Statement as Statement
    from text2sql.sandbox.sql.statements import classify as classify
    from text2sql.sandbox.sql.statements import clean_sql as clean_sql
    from text2sql.sandbox.sql.statements import cut_suffix as cut_suffix

_MODULES = {
    "files": ("check_database",),
    "limits": ("Limits",),
    "pool": ("Sandbox",),
    "results": ("QueryResult", "Status"),
    "sql.repeatable": ("is_repeatable",),
    "sql.statements": ("Statement", "classify", "clean_sql", "cut_suffix"),
}


def __getattr__(name: str) -> Any:
    """Load a name on first use, so that a worker process pays only for what it runs."""
    for module, names in _MODULES.items():
        if name in names:
            globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
