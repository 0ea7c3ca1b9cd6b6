"""An evaluator in the style of BIRD's official one, as a program of its own.

python -m benchmarks.official_style QUESTIONS PREDICTIONS DATABASES [--floor]

For every pair a new connection in a thread that is given up after a timeout: prediction, gold, and
their rows as sets. ``--floor`` runs the same queries on one connection and compares nothing.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading

SEPARATOR = "\t----- bird -----\t"
TIMEOUT = 30.0


def matches(database: str, prediction: str, gold: str) -> bool:
    """Say whether a prediction's rows are gold's."""
    found = [False]

    def compare() -> None:
        connection = sqlite3.connect(database)
        try:
            cursor = connection.cursor()
            results = [set(cursor.execute(sql).fetchall()) for sql in (prediction, gold)]
            found[0] = results[0] == results[1]
        except Exception:  # noqa: BLE001 - the official evaluator counts any failure as wrong
            found[0] = False
        finally:
            connection.close()

    thread = threading.Thread(target=compare, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    return found[0] and not thread.is_alive()


def run_only(connection: sqlite3.Connection, sql: str) -> None:
    """Run a query and read its rows."""
    try:
        connection.execute(sql).fetchall()
    except Exception:  # noqa: BLE001 - a query that fails has been run
        return


def main(questions: str, predictions: str, databases: str, *options: str) -> None:
    """Print the number of matches and of pairs."""
    with open(questions, encoding="utf-8") as file:
        rows = json.load(file)
    with open(predictions, encoding="utf-8") as file:
        predicted = json.load(file)
    right = 0
    connections: dict[str, sqlite3.Connection] = {}
    for row in rows:
        sql, _, name = predicted[str(row["question_id"])].partition(SEPARATOR)
        database = f"{databases}/{name}/{name}.sqlite"
        if options:
            if name not in connections:
                uri = f"file:{database}?mode=ro&immutable=1"
                connections[name] = sqlite3.connect(uri, uri=True)
            run_only(connections[name], sql)
            run_only(connections[name], row["SQL"])
        else:
            right += matches(database, sql, row["SQL"])
    print(right, len(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
