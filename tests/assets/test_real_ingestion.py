"""Real BIRD and Spider material through the project's assets, in the forms it is published in."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.data import bird
from resources.artifact_root import ArtifactRoot
from resources.sandbox import SandboxResource
from tests.datasets.file_server import Behaviour, FileServer
from tests.support.splits import load_split
from text2sql.datasets import stored as data
from text2sql.datasets.reading.questions import read_records


def ingest(root: Path, archive: dict[str, Any], missing: float = 0.0) -> Any:
    return dg.materialize(
        [bird.bird_archive, bird.bird_questions, bird.bird_databases, bird.gold_results],
        resources={"root": ArtifactRoot(root=str(root)), "sandbox": SandboxResource(workers=2)},
        run_config={
            "ops": {
                "bird_archive": {"config": {"splits": ["dev"], **archive}},
                "bird_questions": {"config": {"missing_databases": missing}},
            }
        },
        raise_on_error=False,
    )


def zip_folder(folder: Path, target: Path, below: str) -> Path:
    """Write a folder's files into an archive."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, f"{below}/{file.relative_to(folder)}")
    return target


def test_mini_dev_from_a_server_that_disconnects(shared_data: Path, tmp_path: Path) -> None:
    """A .zip as mini-dev's, with the one database that is at hand, in three pieces."""
    real = shared_data / "bird"
    archive = zip_folder(real / "databases", tmp_path / "m.zip", "minidev/MINIDEV/dev_databases")
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED) as file:
        file.write(real / "mini_dev_sqlite.json", "minidev/MINIDEV/mini_dev_sqlite.json")
    with FileServer(Behaviour(archive.read_bytes(), breaks=[10_000, 50_000])) as server:
        result = ingest(tmp_path / "root", {"source": server.url}, missing=448 / 500)
    assert result.success
    rows = data.load_rows(tmp_path / "root", "dev")
    assert Counter(row["reason"] for row in rows) == {"": 52, "db_missing": 446, "duplicate_row": 2}
    assert len(data.load_golds(tmp_path / "root", "dev")) == 52


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_spider_goes_through_the_same_assets(shared_data: Path, tmp_path: Path, form: str) -> None:
    spider = shared_data / "spider"
    place = spider if form == "folder" else zip_folder(spider, tmp_path / "s.zip", "spider_data")
    result = ingest(tmp_path / "root", {"source": str(place)})
    assert result.success
    golds = data.load_golds(tmp_path / "root", "dev")
    assert len(golds) == 485 and all(gold.ran for gold in golds.values())
    checks = {check.check_name: check for check in result.get_asset_check_evaluations()}
    assert checks["databases_sound"].passed and checks["db_ids_resolve"].passed


def test_the_filtered_training_questions_as_lines(shared_data: Path, tmp_path: Path) -> None:
    """The hub has them as JSON Lines; the list of the copy at hand says the same."""
    file = shared_data / "bird" / "train_filtered_6601.json"
    rows = json.loads(file.read_text(encoding="utf-8"))
    lines = tmp_path / "train-00000-of-00001.jsonl"
    lines.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    assert [r.question for r in read_records(lines, {}, "train")] == [
        r.question for r in read_records(file, {}, "train")
    ]


def test_every_dev_database_is_found_in_a_flat_folder(shared_data: Path, tmp_path: Path) -> None:
    """The 11 schemas lie as ``<db_id>.sqlite``; mini-dev's questions find theirs."""
    (tmp_path / "dev_databases").symlink_to(shared_data / "bird" / "schema_only")
    (tmp_path / "dev.json").symlink_to(shared_data / "bird" / "mini_dev_sqlite.json")
    dataset = load_split(tmp_path, "dev")
    assert Counter(record.reason for record in dataset.records) == {None: 498, "duplicate_row": 2}
