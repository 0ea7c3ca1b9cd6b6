"""A corpus of BIRD dev's size: 11 databases, most bytes in a few of them, and its questions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

SHARES = (0.35, 0.2, 0.12, 0.1, 0.07, 0.05, 0.04, 0.03, 0.02, 0.01, 0.01)
"""Which part of the bytes each database has."""

_ROW_BYTES = 250
_SCHEMA = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT, country TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id),
                     product TEXT, amount REAL, day TEXT, note TEXT);
"""
_GOLDS = (
    "SELECT COUNT(*) FROM customers WHERE city = 'city {n}'",
    "SELECT SUM(amount) FROM orders WHERE customer_id = {n}",
    "SELECT name FROM customers WHERE id = {n}",
    "SELECT product, SUM(amount) FROM orders GROUP BY product ORDER BY 2 DESC LIMIT {m}",
    "SELECT AVG(amount) FROM orders WHERE day LIKE '2024-{m:02}-%' AND amount > {n}",
    "SELECT c.country, COUNT(*) FROM customers AS c JOIN orders AS o ON o.customer_id = c.id "
    "WHERE o.product = 'product {n}' GROUP BY c.country",
)


def build(folder: Path, megabytes: float, questions: int) -> Path:
    """Write ``dev.json`` and ``dev_databases`` below ``folder``; return the folder."""
    names = [f"shop_{number:02}" for number in range(len(SHARES))]
    for name, share in zip(names, SHARES, strict=True):
        _database(folder / "dev_databases" / name / f"{name}.sqlite", megabytes * share)
    rows = [_question(number, names[number % len(names)]) for number in range(questions)]
    (folder / "dev.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


def _question(number: int, db_id: str) -> dict[str, object]:
    gold = _GOLDS[number % len(_GOLDS)].format(n=number % 97 + 1, m=number % 12 + 1)
    return {
        "question_id": number,
        "db_id": db_id,
        "question": f"What does query {number} return?",
        "evidence": "",
        "SQL": gold,
        "difficulty": "simple",
    }


def _database(file: Path, megabytes: float) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    orders = max(100, int(megabytes * 1e6 / _ROW_BYTES))
    customers = max(100, orders // 50)
    connection = sqlite3.connect(file)
    with connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript(_SCHEMA)
        connection.executemany(
            "INSERT INTO customers VALUES (?, ?, ?, ?)",
            ((n, f"name {n}", f"city {n % 211}", f"country {n % 37}") for n in range(customers)),
        )
        connection.executemany(
            "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", _orders(orders, customers)
        )
        connection.execute("CREATE INDEX orders_customer ON orders (customer_id)")
    connection.close()


def _orders(count: int, customers: int) -> Iterator[tuple[int, int, str, float, str, str]]:
    for n in range(count):
        mixed = n * 2_654_435_761 % 2**32
        day = f"2024-{mixed % 12 + 1:02}-{mixed % 28 + 1:02}"
        note = f"{mixed:08x}" * 23
        yield n, mixed % customers, f"product {mixed % 97}", mixed % 10_000 / 100, day, note
