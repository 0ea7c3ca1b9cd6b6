"""The pocket corpus on disk, in BIRD's layout.

``train`` and the dev subset ``new_databases`` are asked in the target phrasing on databases
whose words are disjoint; ``unseen_words`` has words that pre-training never met, and
``general`` asks in the general phrasing, to show what reinforcement learning forgets.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from text2sql.common.files import whole_folder
from text2sql.common.locking import locked
from text2sql.datasets.pocket.business import BUSINESS, business_database
from text2sql.datasets.pocket.phrasing import DIFFICULTY, GENERAL, TARGET, Phrasing
from text2sql.datasets.pocket.questions import Draft, ask
from text2sql.datasets.pocket.words import DEV, TRAIN, UNSEEN, Vocabulary
from text2sql.datasets.pocket.world import Database, Field, Table, make_database
from text2sql.errors import Text2SqlError

DEVELOPMENT_SEED = 1
"""The seed of the demo, on which choices may be made; report final numbers on another."""

FORMAT = 1
MANIFEST = "pocket.json"
"""The record of the seed and sizes that the corpus was generated with."""

_CSV_HEADER = (
    "original_column_name",
    "column_name",
    "column_description",
    "data_format",
    "value_description",
)


@dataclass(frozen=True)
class CorpusSizes:
    """How many questions each part has."""

    train: int = 512
    new_databases: int = 192
    unseen_words: int = 128
    general: int = 64


@dataclass(frozen=True)
class _Part:
    split: str
    subset: str
    count: int
    vocabulary: Vocabulary
    phrasing: Phrasing


def generate(root: Path, seed: int = DEVELOPMENT_SEED, sizes: CorpusSizes | None = None) -> Path:
    """Write the corpus to ``root`` and return it; keep one that is already the same.

    Writes ``train/train.json``, ``dev/dev.json`` and their ``*_databases``. The same seed and
    sizes give the same questions, byte for byte.
    Raises Text2SqlError when ``root`` holds anything else.
    """
    sizes = sizes or CorpusSizes()
    manifest = {"format": FORMAT, "seed": seed, "sizes": asdict(sizes)}

    def fill(partial: Path) -> None:
        _write(partial, seed, sizes)
        _write_json(partial / MANIFEST, manifest)

    _fill_once(root, fill)
    _require_same(root, manifest)
    return root


def generate_business_databases(root: Path) -> Path:
    """Write the databases of the shipped business questions; return their folder.

    Existing files are kept. Raises Text2SqlError if ``root`` cannot be written.
    """
    folder = root / BUSINESS
    _fill_once(folder, lambda partial: _write_database(partial, BUSINESS, business_database()))
    if not (folder / f"{BUSINESS}.sqlite").is_file():
        raise Text2SqlError(
            f"{folder} lacks {BUSINESS}.sqlite: move the folder away, and it is generated again."
        )
    return root


def _fill_once(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill an empty or missing folder; of several processes the first does, the others wait."""
    try:
        if _is_empty(folder):
            with locked(folder.with_name(f".{folder.name}.lock")):
                if _is_empty(folder):
                    with whole_folder(folder) as partial:
                        fill(partial)
    except OSError as error:
        reason = error.strerror or error
        raise Text2SqlError(f"{folder} cannot be written: {reason}.") from error


def _is_empty(folder: Path) -> bool:
    return not folder.exists() or not any(folder.iterdir())


def _require_same(root: Path, manifest: dict[str, Any]) -> None:
    path = root / MANIFEST
    try:
        found = json.loads(path.read_text()) if path.is_file() else None
    except ValueError:
        found = None
    if found != manifest:
        raise Text2SqlError(
            f"{root} holds something other than the requested pocket corpus: use an empty "
            "folder, or remove it."
        )


def _write(root: Path, seed: int, sizes: CorpusSizes) -> None:
    parts = (
        _Part("train", "", sizes.train, TRAIN, TARGET),
        _Part("dev", "new_databases", sizes.new_databases, DEV, TARGET),
        _Part("dev", "unseen_words", sizes.unseen_words, UNSEEN, TARGET),
        _Part("dev", "general", sizes.general, DEV, GENERAL),
    )
    for split in ("train", "dev"):
        folder = root / split / f"{split}_databases"
        folder.mkdir(parents=True)
        rows: list[dict[str, Any]] = []
        for part in parts:
            if part.split == split:
                rows += _write_part(folder, random.Random(f"{seed}/{split}/{part.subset}"), part)
        _write_json(root / split / f"{split}.json", [_row(split, i, r) for i, r in enumerate(rows)])


def _write_part(folder: Path, rng: random.Random, part: _Part) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    taken = {path.name for path in folder.iterdir()}
    while len(rows) < part.count:
        database = make_database(rng, part.vocabulary)
        db_id = _name(database, taken)
        drafts = list(_drafts(rng, database, part))[: part.count - len(rows)]
        if not drafts:
            continue
        taken.add(db_id)
        _write_database(folder / db_id, db_id, database)
        rows += [_question(db_id, draft, part) for draft in drafts]
    return rows


def _drafts(rng: random.Random, database: Database, part: _Part) -> Iterator[Draft]:
    """Two to four questions on one database, no two with the same SQL."""
    seen: set[str] = set()
    connection = database.connect()
    for _ in range(rng.randint(2, 4)):
        draft = ask(rng, database, connection, part.phrasing)
        if draft and draft.sql not in seen:
            seen.add(draft.sql)
            yield draft
    connection.close()


def _name(database: Database, taken: set[str]) -> str:
    """A database is named after its first table, with a number if that is taken."""
    name, number = database.tables[0].name, 1
    while name in taken:
        number += 1
        name = f"{database.tables[0].name}_{number}"
    return name


def _question(db_id: str, draft: Draft, part: _Part) -> dict[str, Any]:
    return {
        "db_id": db_id,
        "question": draft.question,
        "evidence": "",
        "SQL": draft.sql,
        "difficulty": DIFFICULTY.get(draft.family, "simple"),
        "subset": part.subset,
    }


def _row(split: str, number: int, question: dict[str, Any]) -> dict[str, Any]:
    """Return a row as in BIRD: its train split has neither ``question_id`` nor difficulty."""
    if split == "train":
        return {key: question[key] for key in ("db_id", "question", "evidence", "SQL")}
    return {"question_id": number, **question}


def _write_database(folder: Path, db_id: str, database: Database) -> None:
    """Write a database and its descriptions into a folder of its own."""
    descriptions = folder / "database_description"
    descriptions.mkdir(parents=True)
    database.write(folder / f"{db_id}.sqlite")
    for table in database.tables:
        with (descriptions / f"{table.name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(_CSV_HEADER)
            writer.writerows(_description(table, field) for field in table.fields)


def _description(table: Table, field: Field) -> tuple[str, ...]:
    spoken = field.name.replace("_", " ")
    values = ""
    if field.kind == "category":
        values = ", ".join(sorted(set(table.column(field.name))))
    return field.name, spoken, f"{spoken} of the {table.singular}", field.type.lower(), values


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
