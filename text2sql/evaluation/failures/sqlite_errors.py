"""Classes of SQLite's error messages."""

from __future__ import annotations

import re

OTHER = "another error"
_CLASSES = {
    "no such column": r"no such column|has no column named",
    "no such table": r"no such table",
    "no such function": r"no such function|wrong number of arguments to function",
    "ambiguous column": r"ambiguous column name",
    "wrong use of an aggregate": r"misuse of (aliased )?(aggregate|window)|aggregate functions are",
    "columns do not fit": r"sub-select returns|do not have the same number of result columns|"
    r"row value misused|(values|columns) .* do(es)? not match|ORDER BY term does not match",
    "syntax error": r"syntax error|incomplete input|unrecognized token|unterminated",
}
_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _CLASSES.items()}


def error_class(message: str) -> str:
    """Return the class of an error message of SQLite, ``another error`` where none fits."""
    return next((name for name, one in _PATTERNS.items() if one.search(message)), OTHER)
