"""Small question files and databases, as tests of the ingestion need them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def make_database(file: Path, rows: int = 3) -> Path:
    """Write a database with one table ``t``."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(rows)])
    connection.close()
    return file


def question(number: int, db_id: str = "shop", **changes: Any) -> dict[str, Any]:
    """Return a row as BIRD's."""
    return {
        "question_id": number,
        "db_id": db_id,
        "question": f"How many, {number}?",
        "evidence": "",
        "SQL": f"SELECT COUNT(*) + {number} FROM t",
        "difficulty": "simple",
    } | changes


def write(file: Path, rows: Sequence[Any], lines: bool = False) -> Path:
    """Write rows as a JSON list, or one a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(row) for row in rows) if lines else json.dumps(rows)
    file.write_text(text, encoding="utf-8")
    return file


def team_row(database: str, number: int, **more: Any) -> dict[str, Any]:
    """Return a row as a team writes it."""
    return {"question": f"q{number}?", "database": database, "sql": "SELECT COUNT(*) FROM t"} | more
