"""Small SQLite files that the agent's tests ask."""

import sqlite3
from pathlib import Path

from text2sql.questions import Question

SHOP = """
CREATE TABLE city(id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE team(id INTEGER PRIMARY KEY, city_id INTEGER REFERENCES city, name TEXT);
INSERT INTO city VALUES (1, 'Bern'), (2, 'Oslo'), (3, 'Rome');
INSERT INTO team VALUES (10, 1, 'Bears'), (11, 1, 'Bees'), (12, 2, NULL);
"""


def make_database(path: Path, script: str = SHOP) -> Path:
    """Write a database."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.commit()
    connection.close()
    return path


def damaged_inside(path: Path) -> Path:
    """Write a database whose schema can be read and whose table ``t`` cannot."""
    make_database(
        path,
        SHOP + "CREATE TABLE t (a); WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r "
        "LIMIT 5000) INSERT INTO t SELECT printf('%.*c', 100, 'x') FROM r;",
    )
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 65536)
    return path


def ask(database: Path, text: str = "How many cities are there?", **fields: str) -> Question:
    """A question on it."""
    return Question(fields.pop("key", "t/1"), database.stem, database, text, **fields)
