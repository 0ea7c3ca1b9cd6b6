"""Run gold queries, each distinct one once, and explain why some fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from text2sql.judge.verdicts import GoldResult, run_gold
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox, Status

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
"""Words of other databases' SQL; BIRD mini-dev has its queries in three dialects."""
_PATTERNS = {name: re.compile(marks, re.IGNORECASE) for name, marks in _MARKS.items()}


def run_golds(
    questions: Sequence[Question],
    sandbox: Sandbox,
    limits: Limits,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, GoldResult]:
    """Run each distinct gold query once, using all workers; return results by question key.

    ``on_progress`` is called with the number of queries that have ended, and of all queries.
    """
    groups: dict[tuple[Path, str], list[Question]] = {}
    for question in questions:
        groups.setdefault((question.database, question.sql), []).append(question)
    results: dict[str, GoldResult] = {}
    pool = ThreadPoolExecutor(sandbox.workers, "text2sql-golds")
    try:
        running = {
            pool.submit(run_gold, group[0], sandbox, limits): group for group in groups.values()
        }
        for ended, future in enumerate(as_completed(running), start=1):
            for question in running[future]:
                results[question.key] = replace(future.result(), key=question.key)
            if on_progress is not None:
                on_progress(ended, len(running))
    finally:
        # Without this an error would wait until all queued queries have run.
        pool.shutdown(cancel_futures=True)
    return {question.key: results[question.key] for question in questions}


def explain_failure(gold: GoldResult, sql: str) -> str:
    """Return a gold query's error; if the query is in another database's SQL, say so."""
    name = ""
    if gold.status is Status.ERROR:
        # SQLite knows some of these words in some releases, so only refused queries are searched.
        text = _SKIPPED.sub("?", sql)
        name = next((name for name, marks in _PATTERNS.items() if marks.search(text)), "")
    hint = f" (written for {name}? use the questions for SQLite)" if name else ""
    return f"{gold.error}{hint}"
