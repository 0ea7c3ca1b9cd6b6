"""Bounded, read-only execution of untrusted SQL: the only place that opens a user's database.

Names load on first use, so that a worker process pays only for what it runs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from text2sql.sandbox.files import check_database
    from text2sql.sandbox.limits import Limits
    from text2sql.sandbox.pool import Sandbox
    from text2sql.sandbox.results import QueryResult, Status
    from text2sql.sandbox.sql.repeatable import is_repeatable
    from text2sql.sandbox.sql.statements import Statement, classify, clean_sql, cut_suffix

__all__ = [
    "Limits",
    "QueryResult",
    "Sandbox",
    "Statement",
    "Status",
    "check_database",
    "classify",
    "clean_sql",
    "cut_suffix",
    "is_repeatable",
]

_MODULES = {
    "Limits": "limits",
    "QueryResult": "results",
    "Sandbox": "pool",
    "Statement": "sql.statements",
    "Status": "results",
    "check_database": "files",
    "classify": "sql.statements",
    "clean_sql": "sql.statements",
    "cut_suffix": "sql.statements",
    "is_repeatable": "sql.repeatable",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
