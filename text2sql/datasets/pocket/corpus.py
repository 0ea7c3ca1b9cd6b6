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
from itertools import chain, count
from pathlib import Path
from typing import Any

from text2sql.common.files import whole_folder
from text2sql.common.json_files import write_json
from text2sql.common.locking import locked
from text2sql.datasets.pocket.phrasing import DIFFICULTY, GENERAL, TARGET, Phrasing
from text2sql.datasets.pocket.questions import Draft, ask
from text2sql.datasets.pocket.words import DEV, TRAIN, UNSEEN, Vocabulary, plural
from text2sql.datasets.pocket.world import IDENTITY, Database, Field, make_database, make_table
from text2sql.errors import Text2SqlError

DEVELOPMENT_SEED = 1
"""The seed of the demo, on which choices may be made; report final numbers on another."""

FORMAT = 1
MANIFEST = "pocket.json"
"""The record of the seed and sizes that the corpus was generated with."""

_CSV_HEADER = "original_column_name column_name column_description data_format value_description"

_BUSINESS = "store_chain"
SHIPPED_QUESTIONS = Path(__file__).with_name("report_questions.yaml")
"""The report questions about a chain of stores, whose database is generated too."""

_STORES = [
    *IDENTITY,
    Field("province", "TEXT", "category", values=("geneva", "lisbon", "milan", "oslo")),
    Field("net_revenue", "REAL", "number"),
    Field("area", "INTEGER", "number"),
    Field("status", "TEXT", "category", values=("deluxe", "online", "remote")),
]
_EMPLOYEES = [
    *IDENTITY,
    Field("department", "TEXT", "category", values=("cotton", "paper", "radio", "silk")),
    Field("income", "INTEGER", "number"),
    Field("overtime", "REAL", "number"),
    Field("store_id", "INTEGER", "reference", plural("store")),
]
_PRODUCTS = [
    *IDENTITY,
    Field("brand", "TEXT", "category", values=("bold", "nordic", "solid", "swift")),
    Field("quantity", "INTEGER", "number"),
    Field("season", "TEXT", "category", values=("autumn", "winter")),
    Field("store_id", "INTEGER", "reference", plural("store")),
]


@dataclass(frozen=True)
class CorpusSizes:
    """How many questions each part has."""

    train: int = 512
    new_databases: int = 192
    unseen_words: int = 128
    general: int = 64


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
        write_json(partial / MANIFEST, manifest)

    _fill_once(root, fill)
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
    return root


def generate_business_databases(root: Path) -> Path:
    """Write the business questions' databases unless they exist; return their folder."""
    rng = random.Random(5)

    def draw(kind: str) -> str:
        return rng.choice(getattr(DEV, kind))

    stores = make_table(rng, draw, "store", _STORES, 16, None)
    employees = make_table(rng, draw, "employee", _EMPLOYEES, 60, stores)
    products = make_table(rng, draw, "product", _PRODUCTS, 90, stores)
    database = Database((stores, employees, products))
    folder = root / _BUSINESS
    _fill_once(folder, lambda partial: _write_database(partial, _BUSINESS, database))
    if not (folder / f"{_BUSINESS}.sqlite").is_file():
        raise Text2SqlError(
            f"{folder} lacks {_BUSINESS}.sqlite: move the folder away, and it is generated again."
        )
    return root


def _fill_once(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill an empty or missing folder; of several processes the first does, the others wait."""

    def is_empty() -> bool:
        return not folder.exists() or not any(folder.iterdir())

    try:
        if is_empty():
            with locked(folder.with_name(f".{folder.name}.lock")):
                if is_empty():
                    with whole_folder(folder) as partial:
                        fill(partial)
    except OSError as error:
        reason = error.strerror or error
        raise Text2SqlError(f"{folder} cannot be written: {reason}.") from error


def _write(root: Path, seed: int, sizes: CorpusSizes) -> None:
    parts = {
        "train": [("", sizes.train, TRAIN, TARGET)],
        "dev": [
            ("new_databases", sizes.new_databases, DEV, TARGET),
            ("unseen_words", sizes.unseen_words, UNSEEN, TARGET),
            ("general", sizes.general, DEV, GENERAL),
        ],
    }
    for split, subsets in parts.items():
        folder = root / split / f"{split}_databases"
        folder.mkdir(parents=True)
        rows: list[dict[str, Any]] = []
        for subset, most, vocabulary, phrasing in subsets:
            rng = random.Random(f"{seed}/{split}/{subset}")
            for db_id, draft in _write_part(folder, rng, most, vocabulary, phrasing):
                row = {"db_id": db_id, "question": draft.question, "evidence": "", "SQL": draft.sql}
                difficulty = DIFFICULTY.get(draft.family, "simple")
                known = {"difficulty": difficulty, "subset": subset}
                # BIRD's train split has neither an id nor a difficulty.
                rows.append(row if split == "train" else {"question_id": len(rows)} | row | known)
        (root / split / f"{split}.json").write_text(json.dumps(rows, indent=2) + "\n")


def _write_part(
    folder: Path, rng: random.Random, most: int, vocabulary: Vocabulary, phrasing: Phrasing
) -> Iterator[tuple[str, Draft]]:
    """Write databases until ``most`` questions are asked on them; yield db_id and question."""
    taken = {path.name for path in folder.iterdir()}
    missing = most
    while missing > 0:
        database = make_database(rng, vocabulary)
        connection = database.connect()
        drafts: dict[str, Draft] = {}  # no two questions on one database have the same SQL
        for _ in range(rng.randint(2, 4)):
            if draft := ask(rng, database, connection, phrasing):
                drafts.setdefault(draft.sql, draft)
        connection.close()
        if not drafts:
            continue
        table = database.tables[0].name
        names = chain([table], (f"{table}_{number}" for number in count(2)))
        db_id = next(name for name in names if name not in taken)
        taken.add(db_id)
        _write_database(folder / db_id, db_id, database)
        yield from ((db_id, draft) for draft in list(drafts.values())[:missing])
        missing -= len(drafts)


def _write_database(folder: Path, db_id: str, database: Database) -> None:
    """Write a database and its descriptions, as BIRD has them, into a folder of its own."""
    descriptions = folder / "database_description"
    descriptions.mkdir(parents=True)
    database.write(folder / f"{db_id}.sqlite")
    for table in database.tables:
        with (descriptions / f"{table.name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(_CSV_HEADER.split())
            for field in table.fields:
                spoken = field.name.replace("_", " ")
                values = sorted(set(table.column(field.name))) if field.kind == "category" else []
                about = f"{spoken} of the {table.singular}"
                row = (field.name, spoken, about, field.type.lower(), ", ".join(values))
                writer.writerow(row)
