"""What training and dev share, where both splits have their databases in one folder."""

import json
import sqlite3
from pathlib import Path

import pandas as pd

from assets.checks.suites import check_databases_apart
from text2sql.datasets.reading.layout import find_split


def write_split(folder: Path, split: str, *names: str) -> None:
    """Write a team's questions, one on each of these databases."""
    rows = [
        {"question": f"{split} {name}?", "database": f"databases/{name}.sqlite", "sql": "SELECT 1"}
        for name in names
    ]
    (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def shared(folder: Path) -> list[str]:
    """Return the dev databases that the check finds in training."""
    splits = {split: find_split(folder, split) for split in ("train", "dev")}
    frame = pd.DataFrame(
        {"split": split, "db_id": db_id, "sha256": db_id}
        for split, layout in splits.items()
        for db_id in layout.databases
    )
    outcome = check_databases_apart(frame, splits)
    return [] if outcome.success else list(outcome.examples["db_id"])


def test_only_databases_that_questions_name_count(tmp_path):
    (tmp_path / "databases").mkdir()
    for name in ("shop", "garage", "bakery"):
        with sqlite3.connect(tmp_path / "databases" / f"{name}.sqlite") as database:
            database.execute(f"CREATE TABLE {name} (id INTEGER)")
    write_split(tmp_path, "train", "shop", "garage")
    write_split(tmp_path, "dev", "bakery")
    assert shared(tmp_path) == []
    write_split(tmp_path, "dev", "bakery", "shop")
    assert shared(tmp_path) == ["shop"]
