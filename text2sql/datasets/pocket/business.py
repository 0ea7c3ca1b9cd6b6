"""The business database that the shipped report questions are about: a chain of stores."""

from __future__ import annotations

import random
from pathlib import Path

from text2sql.datasets.pocket.words import DEV, plural
from text2sql.datasets.pocket.world import Database, Field, make_table

BUSINESS = "store_chain"
SHIPPED_QUESTIONS = Path(__file__).with_name("report_questions.yaml")
"""The report questions about it."""
_SEED = 5

_STORES = [
    Field("id", "INTEGER", "id"),
    Field("name", "TEXT", "name"),
    Field("province", "TEXT", "category", values=("geneva", "lisbon", "milan", "oslo")),
    Field("net_revenue", "REAL", "number"),
    Field("area", "INTEGER", "number"),
    Field("status", "TEXT", "category", values=("deluxe", "online", "remote")),
]
_EMPLOYEES = [
    Field("id", "INTEGER", "id"),
    Field("name", "TEXT", "name"),
    Field("department", "TEXT", "category", values=("cotton", "paper", "radio", "silk")),
    Field("income", "INTEGER", "number"),
    Field("overtime", "REAL", "number"),
    Field("store_id", "INTEGER", "reference", plural("store")),
]
_PRODUCTS = [
    Field("id", "INTEGER", "id"),
    Field("name", "TEXT", "name"),
    Field("brand", "TEXT", "category", values=("bold", "nordic", "solid", "swift")),
    Field("quantity", "INTEGER", "number"),
    Field("season", "TEXT", "category", values=("autumn", "winter")),
    Field("store_id", "INTEGER", "reference", plural("store")),
]


def business_database() -> Database:
    """Build the database; always the same."""
    rng = random.Random(_SEED)

    def draw(kind: str) -> str:
        return rng.choice(getattr(DEV, kind))

    stores = make_table(rng, draw, "store", _STORES, 16, None)
    employees = make_table(rng, draw, "employee", _EMPLOYEES, 60, stores)
    products = make_table(rng, draw, "product", _PRODUCTS, 90, stores)
    return Database((stores, employees, products))
