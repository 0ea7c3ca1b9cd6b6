"""Real BIRD material through the project's own assets, scored as the official evaluator does."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.data import bird
from resources.artifact_root import ArtifactRoot
from resources.sandbox import SandboxResource
from tests.support.splits import load_split
from text2sql.common.artifacts import current_dataset_file
from text2sql.common.files import file_digest
from text2sql.datasets import stored as data
from text2sql.datasets.reading.questions import file_key, read_records
from text2sql.evaluation.predictions.reading import read_predictions
from text2sql.judge.verdicts import Verdict, execute_submission, verdict_of
from text2sql.questions import Question
from text2sql.sandbox import Sandbox, Status, classify, clean_sql

SUPERHERO_SHA256 = "75e94a2c"
MISSING = 448 / 500
"""The share of mini-dev's rows whose databases are not part of the material."""


def ingest(folder: Path, root: Path, missing: float) -> Any:
    return dg.materialize(
        [bird.bird_archive, bird.bird_questions, bird.bird_databases, bird.gold_results],
        resources={"root": ArtifactRoot(root=str(root)), "sandbox": SandboxResource(workers=2)},
        run_config={
            "ops": {
                "bird_archive": {"config": {"source": str(folder), "splits": ["dev"]}},
                "bird_questions": {"config": {"missing_databases": missing}},
            }
        },
        raise_on_error=False,
    )


@pytest.fixture(scope="module")
def mini_dev(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mini-dev as it is unpacked, with the one database that is at hand."""
    folder = tmp_path_factory.mktemp("bird") / "minidev" / "MINIDEV"
    databases = folder / "dev_databases"
    shutil.copytree(shared_data / "bird" / "databases" / "superhero", databases / "superhero")
    shutil.copy(shared_data / "bird" / "mini_dev_sqlite.json", folder)
    return folder


@pytest.fixture(scope="module")
def ingested(mini_dev: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The artifact root after the ingestion, and Dagster's result."""
    root = tmp_path_factory.mktemp("artifacts")
    return root, ingest(mini_dev.parent, root, MISSING)


def checks(result: Any) -> dict[str, Any]:
    return {check.check_name: check for check in result.get_asset_check_evaluations()}


def test_the_whole_file_is_ingested_and_missing_databases_are_reported(ingested: Any) -> None:
    root, result = ingested
    assert result.success
    rows = data.load_rows(root, "dev")
    assert len(rows) == 500
    assert Counter(row["reason"] for row in rows) == {"": 52, "db_missing": 446, "duplicate_row": 2}
    absent = {row["question"]["db_id"] for row in rows if row["reason"] == "db_missing"}
    assert len(absent) == 10 and "superhero" not in absent
    found = checks(result)
    assert not found["db_ids_resolve"].passed
    assert found["db_ids_resolve"].severity is dg.AssetCheckSeverity.WARN
    assert "446 rows" in found["db_ids_resolve"].description
    assert not found["questions_tidy"].passed and "1 row" not in found["questions_tidy"].description
    for name in ("questions_valid", "databases_sound", "gold_runs", "gold_answers"):
        assert found[name].passed, found[name]


def test_unexpected_missing_databases_stop_the_run(mini_dev: Path, tmp_path: Path) -> None:
    result = ingest(mini_dev, tmp_path, 0.0)
    assert not result.success
    assert checks(result)["db_ids_resolve"].severity is dg.AssetCheckSeverity.ERROR
    assert not current_dataset_file(tmp_path).exists()


def test_superhero_is_the_official_database(ingested: Any) -> None:
    root, _ = ingested
    (question, *_) = data.load_questions(root, "dev")
    assert file_digest(question.database).startswith(SUPERHERO_SHA256)


def test_every_gold_query_runs(ingested: Any) -> None:
    root, _ = ingested
    golds = data.load_golds(root, "dev")
    assert len(golds) == 52
    assert {gold.status for gold in golds.values()} == {Status.OK}
    assert not any(gold.empty for gold in golds.values())


def test_published_predictions_score_exactly_as_the_official_evaluator_says(
    ingested: Any, shared_data: Path
) -> None:
    root, _ = ingested
    questions = data.load_questions(root, "dev")
    rows = data.load_rows(root, "dev")
    file_keys = [file_key(row["question"]["key"], row["reason"]) for row in rows]
    golds = data.load_golds(root, "dev")
    expected = json.loads((shared_data / "bird" / "expected_superhero_official.json").read_text())
    assert len(expected["results"]) == 13
    scores = {}
    with Sandbox(workers=2) as sandbox:
        for official in expected["results"]:
            file = shared_data / "bird" / "predictions_minidev" / official["file"]
            predictions = read_predictions(file, questions, file_keys)
            assert (predictions.missing, predictions.unknown) == ((), ())
            verdicts = judge(questions, predictions, golds, sandbox)
            assert (
                sum(verdict is Verdict.MATCH for verdict in verdicts.values()) == official["ours"]
            )
            scores[official["file"]] = accuracies(questions, verdicts)
    assert scores == {official["file"]: official["official_ex"] for official in expected["results"]}


def judge(
    questions: list[Question], predictions: Any, golds: Any, sandbox: Sandbox
) -> dict[str, Verdict]:
    def one(question: Question) -> Verdict:
        sql = predictions[question.key]
        result = execute_submission(sql, question.database, sandbox)
        return verdict_of(result, golds[question.key])

    with ThreadPoolExecutor(2) as pool:
        return dict(
            zip([question.key for question in questions], pool.map(one, questions), strict=True)
        )


def accuracies(questions: list[Question], verdicts: dict[str, Verdict]) -> dict[str, float]:
    """Return the percentages by difficulty and in total, rounded as the official script prints."""
    groups: dict[str, list[bool]] = {"simple": [], "moderate": [], "challenging": [], "total": []}
    for question in questions:
        match = verdicts[question.key] is Verdict.MATCH
        groups[question.difficulty].append(match)
        groups["total"].append(match)
    return {name: round(100 * sum(group) / len(group), 2) for name, group in groups.items()}


def test_gold_as_prediction_scores_100(ingested: Any) -> None:
    root, _ = ingested
    questions = data.load_questions(root, "dev")
    golds = data.load_golds(root, "dev")
    with Sandbox(workers=2) as sandbox:
        verdicts = judge(questions, {q.key: q.sql for q in questions}, golds, sandbox)
    assert set(verdicts.values()) == {Verdict.MATCH}


def test_spider_is_read_unchanged(shared_data: Path) -> None:
    dataset = load_split(shared_data / "spider", "dev")
    assert len(dataset.questions) == 485 and not dataset.problems
    assert len({question.db_id for question in dataset.questions}) == 10


def test_the_filtered_training_questions_are_read(shared_data: Path, tmp_path: Path) -> None:
    records = read_records(shared_data / "bird" / "train_filtered_6601.json", tmp_path, "train")
    assert len(records) == 6601
    reasons = Counter(record.reason for record in records)
    assert reasons == {"db_missing": 6601}


def texts_in(value: object) -> Iterator[str]:
    """Yield the texts in what JSON holds."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts_in(inner)


def test_no_real_query_prediction_or_sentence_has_the_form_of_a_write(shared_data: Path) -> None:
    files = [file for file in shared_data.rglob("*.json") if "tables" not in file.name]
    texts = {text for file in files for text in texts_in(json.loads(file.read_text("utf-8")))}
    assert len(texts) > 20_000
    assert [text for text in texts if any(s.formed for s in classify(clean_sql(text)))] == []
