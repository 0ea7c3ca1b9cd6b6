"""Databases of the pocket world: one to three tables with names, numbers, categories and keys."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from text2sql.common.render import Column, render_table
from text2sql.datasets.pocket.words import Vocabulary, invent, plural

Kind = Literal["id", "name", "number", "category", "reference"]
Words = Callable[[str], str]
"""Draws a word of one kind: an attribute of ``Vocabulary`` such as ``entities``."""


@dataclass(frozen=True)
class Field:
    """A column; ``references`` names the table whose id a reference column holds.

    ``values`` are what a category column may hold; a few words are drawn if it is empty.
    """

    name: str
    type: str
    kind: Kind
    references: str = ""
    values: tuple[str, ...] = ()


IDENTITY = (Field("id", "INTEGER", "id"), Field("name", "TEXT", "name"))
"""The first columns of every table."""


@dataclass(frozen=True)
class Table:
    """A table with its rows; ``singular`` is how one row is called in a question."""

    name: str
    singular: str
    fields: tuple[Field, ...]
    rows: tuple[tuple[Any, ...], ...]

    def of_kind(self, kind: Kind) -> list[Field]:
        """The columns of one kind, in order."""
        return [field for field in self.fields if field.kind == kind]

    def column(self, name: str) -> list[Any]:
        """All values of one column, in row order."""
        index = [field.name for field in self.fields].index(name)
        return [row[index] for row in self.rows]


@dataclass(frozen=True)
class Database:
    """Tables in the order in which they are created."""

    tables: tuple[Table, ...]

    def table(self, name: str) -> Table:
        """The table of this name."""
        return next(table for table in self.tables if table.name == name)

    def fill(self, connection: sqlite3.Connection) -> None:
        """Create the tables in an empty database and commit."""
        for table in self.tables:
            parts = [
                f"{one.name} {one.type}{' PRIMARY KEY' if one.kind == 'id' else ''}"
                for one in table.fields
            ]
            parts += [
                f"FOREIGN KEY ({one.name}) REFERENCES {one.references}(id)"
                for one in table.of_kind("reference")
            ]
            connection.execute(f"CREATE TABLE {table.name} ({', '.join(parts)})")
            marks = ", ".join("?" * len(table.fields))
            connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", table.rows)
        connection.commit()

    def connect(self) -> sqlite3.Connection:
        """Open the database in memory."""
        connection = sqlite3.connect(":memory:")
        self.fill(connection)
        return connection

    def write(self, path: Path) -> None:
        """Write the database as a SQLite file."""
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            self.fill(connection)

    def schema_text(self) -> str:
        """What ``inspect_schema`` answers for this database."""
        texts = []
        for table in self.tables:
            columns = [
                Column(
                    one.name,
                    one.type,
                    one.kind == "id",
                    f"{one.references}.id" if one.references else "",
                )
                for one in table.fields
            ]
            texts.append(render_table(table.name, columns, len(table.rows)))
        return "\n".join(texts)


def make_database(
    rng: random.Random, vocabulary: Vocabulary, invented_share: float = 0.0
) -> Database:
    """Draw a database; ``invented_share`` of its words are invented instead of real."""

    def draw(kind: str) -> str:
        if rng.random() < invented_share:
            return invent(rng)
        return rng.choice(getattr(vocabulary, kind))

    singulars: list[str] = []
    count = rng.choice((1, 2, 2, 3))
    while len(singulars) < count:
        word = draw("entities")
        if not any({word, plural(word)} & {other, plural(other)} for other in singulars):
            singulars.append(word)
    tables: list[Table] = []
    for singular in singulars:
        parent = tables[0] if tables and rng.random() < 0.7 else None
        fields = _fields(rng, draw, vocabulary, singular, parent)
        tables.append(make_table(rng, draw, singular, fields, rng.randint(8, 20), parent))
    rng.shuffle(tables)
    return Database(tuple(tables))


def _fields(
    rng: random.Random, draw: Words, vocabulary: Vocabulary, singular: str, parent: Table | None
) -> list[Field]:
    """One to three number and one or two category columns, shuffled, after id and name."""
    kinds: list[Kind] = ["number"] * rng.choice((1, 2, 2, 3))
    kinds += ["category"] * rng.choice((1, 1, 2))
    rng.shuffle(kinds)
    taken = {"id", "name", singular, plural(singular)}
    fields = [*IDENTITY]
    for kind in kinds:
        while (name := draw("numbers" if kind == "number" else "categories")) in taken:
            pass
        taken.add(name)
        if kind == "category":
            fields.append(Field(name, "TEXT", kind))
            continue
        if rng.random() < 0.3:
            name = f"{rng.choice(vocabulary.modifiers)}_{name}"
        fields.append(Field(name, rng.choice(("INTEGER", "REAL")), kind))
    if parent:
        fields.append(Field(f"{parent.singular}_id", "INTEGER", "reference", parent.name))
    return fields


def make_table(
    rng: random.Random,
    draw: Words,
    singular: str,
    fields: list[Field],
    rows: int,
    parent: Table | None,
) -> Table:
    """Fill a table: numbers and names are distinct, so that every order has one answer."""
    columns = [_values(rng, draw, field, rows, parent) for field in fields]
    return Table(plural(singular), singular, tuple(fields), tuple(zip(*columns, strict=True)))


def _values(
    rng: random.Random, draw: Words, field: Field, rows: int, parent: Table | None
) -> list[Any]:
    if field.kind == "id":
        return list(range(1, rows + 1))
    if field.kind == "reference":
        assert parent is not None
        return [rng.randint(1, len(parent.rows)) for _ in range(rows)]
    if field.kind == "number" and field.type == "INTEGER":
        return rng.sample(range(1, 501), rows)
    if field.kind == "number":
        return [tenths / 10 for tenths in rng.sample(range(10, 5001), rows)]
    if field.kind == "name":
        names: dict[str, None] = {}
        while len(names) < rows:
            names[f"{draw('names')} {draw('names')}"] = None
        return list(names)
    choices = field.values or [draw("values") for _ in range(rng.choice((2, 3, 4)))]
    return [rng.choice(choices) for _ in range(rows)]
