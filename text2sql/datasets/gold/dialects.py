"""Whether a query that SQLite refuses is written for another database: BIRD mini-dev has three."""

from __future__ import annotations

import re

from text2sql.judge.verdicts import GoldResult
from text2sql.sandbox import Status

_SKIPPED = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)
_MARKS = {
    "MySQL": r"\b(?:DATE_FORMAT|STR_TO_DATE|TIMESTAMPDIFF|CURDATE|DATE_ADD|DATE_SUB|SUBSTRING_INDEX"
    r"|TRUNCATE)\s*\(|\bINTERVAL\s+\d|\bDIV\b|\bREGEXP\b|\bRLIKE\b",
    "PostgreSQL": r"::|\bILIKE\b|\bEXTRACT\s*\(\s*\w+\s+FROM\b|\b(?:DATE_TRUNC|TO_CHAR|TO_DATE"
    r"|TO_TIMESTAMP|DATE_PART)\s*\(|\bINTERVAL\s+\?|\bDISTINCT\s+ON\s*\("
    r"|\bARRAY\s*\[|\bFETCH\s+(?:FIRST|NEXT)\b|\bSIMILAR\s+TO\b",
    "SQL Server": r"\bSELECT\s+(?:DISTINCT\s+)?TOP\b|\b(?:GETDATE|DATEDIFF|DATEADD|DATEPART|ISNULL"
    r"|LEN|CHARINDEX|TRY_CAST)\s*\(|\bdbo\s*\.|\b(?:CROSS|OUTER)\s+APPLY\b",
    "another database": r"\b(?:YEAR|MONTH|DAY|QUARTER|NOW|CONCAT|LEFT|RIGHT|STDDEV|VARIANCE|NVL"
    r"|LPAD|RPAD|GREATEST|LEAST|TO_NUMBER|SUBSTRING)\s*\(",
}
_PATTERNS = {name: re.compile(marks, re.IGNORECASE) for name, marks in _MARKS.items()}


def dialect_of(sql: str) -> str:
    """Return whose SQL a query looks like, ``another database`` where several have it.

    Empty where nothing tells. Only for queries that SQLite has refused: it knows some of these
    words itself, in releases of its own.
    """
    text = _SKIPPED.sub("?", sql)
    return next((name for name, marks in _PATTERNS.items() if marks.search(text)), "")


def told(gold: GoldResult, sql: str) -> str:
    """Return why a gold query failed, and whether another database's questions file is at hand."""
    name = dialect_of(sql) if gold.status is Status.ERROR else ""
    hint = f" (written for {name}? take the questions for SQLite)" if name else ""
    return f"{gold.error}{hint}"
