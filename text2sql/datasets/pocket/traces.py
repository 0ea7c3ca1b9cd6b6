"""Demonstrations: conversations in which a question is answered correctly with the tools."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from text2sql.common.render import Budget, render_rows
from text2sql.datasets.pocket.phrasing import GENERAL, TARGET
from text2sql.datasets.pocket.questions import Draft, ask
from text2sql.datasets.pocket.words import PRETRAINING, Vocabulary
from text2sql.datasets.pocket.world import Database, make_database

Messages = list[dict[str, Any]]

AGENT_CONFIG = {
    "mode": "agentic",
    "max_turns": 6,
    "max_tokens": 96,
    "output_chars": 1000,
    "output_rows": 2,
    "cell_chars": 40,
    "sample_rows": 2,
}
"""The agent settings that these demonstrations follow; shipped as ``agent_config.json``."""

_BUDGET = Budget(chars=1000, rows=2, cell=40)


def demonstrate(
    rng: random.Random, database: Database, connection: sqlite3.Connection, draft: Draft
) -> Messages:
    """Look at the schema, sometimes at rows, sometimes at the result, then submit the gold.

    The conversation ends with an empty assistant turn: there is nothing to add after ``submit``.
    """

    def rows_text(sql: str) -> str:
        """What ``run_sql`` and ``sample_rows`` answer for a query that runs."""
        cursor = connection.execute(sql)
        rows = cursor.fetchall()
        return render_rows([item[0] for item in cursor.description], rows, len(rows), _BUDGET)

    messages: Messages = [{"role": "user", "content": draft.question}]
    messages += _exchange("inspect_schema", database.schema_text())
    if rng.random() < 0.15:
        table = re.findall(r" FROM (\w+)", draft.sql)[0]
        sample = f"SELECT * FROM {table} LIMIT {AGENT_CONFIG['sample_rows']}"
        messages += _exchange("sample_rows", rows_text(sample), table=table)
    if rng.random() < 0.5:
        messages += _exchange("run_sql", rows_text(draft.sql), sql=draft.sql)
    messages += _exchange("submit", "submitted", sql=draft.sql)
    return [*messages, {"role": "assistant", "content": ""}]


def _exchange(name: str, answer: str, **arguments: str) -> Messages:
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": name, "content": answer},
    ]


def demonstrations(
    seed: int,
    target_share: float,
    invented_share: float,
    vocabulary: Vocabulary = PRETRAINING,
    per_database: int = 2,
    weights: Mapping[str, float] | None = None,
) -> Iterator[Messages]:
    """Demonstrations without end; ``target_share`` use the target phrasing, by ``weights``."""
    rng = random.Random(seed)
    while True:
        database = make_database(rng, vocabulary, invented_share)
        connection = database.connect()
        for _ in range(per_database):
            target = rng.random() < target_share
            how = (TARGET, weights) if target else (GENERAL, None)
            if draft := ask(rng, database, connection, *how):
                yield demonstrate(rng, database, connection, draft)
        connection.close()
