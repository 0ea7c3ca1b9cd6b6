"""Reading BIRD's layout as it really comes, and predictions in every published form."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.data import bird
from resources.artifact_root import ArtifactRoot
from resources.sandbox import SandboxResource
from tests.support.splits import load_split
from text2sql.datasets import stored as data
from text2sql.datasets.fetching.archives import unpack
from text2sql.datasets.gold.run import run_golds
from text2sql.datasets.reading.database_reports import inspect_database
from text2sql.datasets.reading.layout import find_split
from text2sql.datasets.reading.questions import Reason, read_records
from text2sql.errors import Text2SqlError
from text2sql.evaluation.predictions.reading import read_predictions
from text2sql.sandbox import Limits, Sandbox

SUFFIX = "\t----- bird -----\tshop"


def make_database(folder: Path, name: str) -> Path:
    """Write ``<folder>/<name>/<name>.sqlite`` with one table of three rows."""
    (folder / name).mkdir(parents=True)
    file = folder / name / f"{name}.sqlite"
    connection = sqlite3.connect(file)
    connection.executescript("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2), (3);")
    connection.close()
    return file


def row(number: int, **changes: Any) -> dict[str, Any]:
    """Return a good row of a questions file."""
    return {
        "question_id": number,
        "db_id": "shop",
        "question": f"How many, {number}?",
        "evidence": "",
        "SQL": f"SELECT COUNT(*) + {number} FROM t",
        "difficulty": "simple",
    } | changes


def make_split(
    root: Path, rows: list[Any], file: str = "dev.json", databases: str = "dev_databases"
) -> Path:
    """Write a split with the databases ``shop`` and ``clinic``; return its folder."""
    for name in ("shop", "clinic"):
        make_database(root / databases, name)
    (root / file).write_text(json.dumps(rows))
    return root


def read(tmp_path: Path, rows: list[Any]) -> Any:
    return load_split(make_split(tmp_path, rows), "dev")


def test_a_split_is_read_with_unique_keys(tmp_path: Path) -> None:
    dataset = read(tmp_path, [row(1), row(2)])
    assert [question.key for question in dataset.questions] == ["dev/1", "dev/2"]
    assert dataset.questions[0].database == tmp_path / "dev_databases" / "shop" / "shop.sqlite"
    assert dataset.problems == []


@pytest.mark.parametrize("below", ["", "dev", "dev_20240627", "bird/minidev/MINIDEV"])
def test_a_split_is_found_at_any_level_and_macos_leftovers_are_not_databases(
    tmp_path: Path, below: str
) -> None:
    make_split(tmp_path / below, [row(1)])
    databases = tmp_path / below / "dev_databases"
    for litter in (
        databases / "__MACOSX" / "__MACOSX.sqlite",
        databases / "shop" / "._shop.sqlite",
    ):
        litter.parent.mkdir(exist_ok=True)
        litter.write_bytes(b"\x00\x05\x16\x07")
    (databases / "._shop").mkdir()
    (databases / "._shop" / "._shop.sqlite").write_bytes(b"\x00\x05\x16\x07")
    (tmp_path / "__MACOSX").mkdir(exist_ok=True)
    (tmp_path / "__MACOSX" / "dev.json").write_text("x")
    layout = find_split(tmp_path, "dev")
    assert layout.questions == tmp_path / below / "dev.json"
    assert list(layout.databases) == ["clinic", "shop"]


def test_folders_within_folders_of_the_same_name(tmp_path: Path) -> None:
    make_split(tmp_path / "train", [row(1)], "train.json", "train_databases/train_databases")
    make_split(tmp_path / "dev", [row(1)])
    assert set(find_split(tmp_path, "train").databases) == {"clinic", "shop"}
    assert find_split(tmp_path, "dev").databases["shop"].parts[-3] == "dev_databases"


def test_mini_dev_and_spider_layouts(tmp_path: Path) -> None:
    make_split(tmp_path / "mini", [row(1)], "mini_dev_sqlite.json")
    assert len(load_split(tmp_path / "mini", "dev").questions) == 1
    spider = {"db_id": "shop", "question": "q", "query": "SELECT 1", "sql": {"select": []}}
    make_split(tmp_path / "spider", [spider, spider], "dev.json", "database")
    questions = load_split(tmp_path / "spider", "dev").questions
    assert [(question.key, question.sql) for question in questions] == [
        ("dev/0", "SELECT 1"),
        ("dev/1", "SELECT 1"),
    ]


def test_two_equally_near_files_are_an_error(tmp_path: Path) -> None:
    make_split(tmp_path / "a", [row(1)])
    make_split(tmp_path / "b", [row(1)])
    with pytest.raises(Text2SqlError, match=r"a/dev\.json and .*b/dev\.json"):
        load_split(tmp_path, "dev")


@pytest.mark.parametrize(
    "names", [("sql", "Question_ID"), ("SQL", "idx"), ("query", "QUESTION_ID")]
)
def test_keys_in_any_case(tmp_path: Path, names: tuple[str, str]) -> None:
    gold, number = names
    rows = [{"DB_ID": "shop", "Question": "q", gold: "SELECT 1", number: 7}]
    question = read(tmp_path, rows).questions[0]
    assert (question.key, question.sql) == ("dev/7", "SELECT 1")


def test_missing_evidence_is_empty_text(tmp_path: Path) -> None:
    missing = row(3)
    del missing["evidence"]
    rows = [row(1, evidence=None), row(2), missing, row(4, evidence=float("nan"))]
    assert [question.evidence for question in read(tmp_path, rows).questions] == [""] * 4


@pytest.mark.parametrize("key", ["db_id", "question", "SQL", "question_id"])
def test_wrong_keys_name_the_file_the_row_and_the_key(tmp_path: Path, key: str) -> None:
    bad = row(2)
    bad["other"] = bad.pop(key)
    with pytest.raises(Text2SqlError) as caught:
        read(tmp_path, [row(1), bad])
    message = str(caught.value)
    assert "dev.json" in message and "entry 1" in message
    assert f"no '{key}'" in message and "other" in message


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "[1]", "[\xff]"])
def test_a_file_that_is_not_a_list_of_questions(tmp_path: Path, text: str) -> None:
    make_split(tmp_path, [])
    (tmp_path / "dev.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(Text2SqlError, match=r"dev\.json"):
        load_split(tmp_path, "dev")


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(Text2SqlError, match="not a folder"):
        load_split(tmp_path / "nothing", "dev")
    with pytest.raises(Text2SqlError, match=r"dev\.json or .*mini_dev_sqlite\.json"):
        load_split(tmp_path, "dev")
    (tmp_path / "dev.json").write_text("[]")
    with pytest.raises(Text2SqlError, match="dev_databases or dev_database or databases"):
        load_split(tmp_path, "dev")
    with pytest.raises(Text2SqlError, match=r"dev\.json is a file; give its folder"):
        read_records(tmp_path / "dev.json", tmp_path / "dev.json", "dev")


def test_an_unknown_database_is_reported_with_the_near_match_and_left_out(tmp_path: Path) -> None:
    make_database(tmp_path / "dev_databases", "movie_4")
    dataset = read(tmp_path, [row(1, db_id="movies_4"), row(2)])
    assert [question.key for question in dataset.questions] == ["dev/2"]
    (problem,) = dataset.problems
    assert problem.reason is Reason.DB_MISSING
    assert "movies_4" in problem.detail and "did you mean 'movie_4'?" in problem.detail
    assert not list(tmp_path.rglob("movies_4*"))


def test_repeated_ids_and_empty_fields_are_problems(tmp_path: Path) -> None:
    rows = [row(1), row(1), row(1, question="Other?"), row(2, SQL=None), row(3, question=" ")]
    dataset = read(tmp_path, rows)
    assert [question.key for question in dataset.questions] == ["dev/1"]
    assert [problem.reason for problem in dataset.problems] == [
        Reason.DUPLICATE_ROW,
        Reason.DUPLICATE_ID,
        Reason.EMPTY_FIELD,
        Reason.EMPTY_FIELD,
    ]
    assert dataset.file_keys == ["dev/1", "", "", "dev/2", "dev/3"]


def test_the_fingerprint_follows_questions_and_databases_and_nothing_else(tmp_path: Path) -> None:
    first = read(tmp_path / "one", [row(1)]).fingerprint
    same = read(tmp_path / "two", [row(1)]).fingerprint
    other_gold = read(tmp_path / "three", [row(1, SQL="SELECT 2")]).fingerprint
    connection = sqlite3.connect(tmp_path / "two" / "dev_databases" / "shop" / "shop.sqlite")
    connection.execute("INSERT INTO t VALUES (4)")
    connection.commit()
    connection.close()
    other_data = load_split(tmp_path / "two", "dev").fingerprint
    assert first == same
    assert len({first, other_gold, other_data}) == 3


def predictions(tmp_path: Path, content: Any, ids: list[int]) -> Any:
    make_split(tmp_path, [row(number) for number in ids])
    records = read_records(tmp_path / "dev.json", tmp_path / "dev_databases", "dev")
    file = tmp_path / "predictions.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_predictions(file, [record.question for record in records])


def test_predictions_are_paired_by_id_whatever_their_order(tmp_path: Path) -> None:
    ids = list(range(12))
    content = {str(number): f"SELECT {number}{SUFFIX}" for number in ids}
    content = {key: content[key] for key in sorted(content)}
    found = predictions(tmp_path, content, ids)
    assert found == {f"dev/{number}": f"SELECT {number}" for number in ids}
    assert (found.missing, found.unknown) == ((), ())


def test_ids_that_are_a_permutation_of_the_positions_are_ids(tmp_path: Path) -> None:
    found = predictions(tmp_path, {"0": "SELECT 0", "1": "SELECT 1"}, [1, 0])
    assert found == {"dev/1": "SELECT 1", "dev/0": "SELECT 0"}


def test_positions_where_the_ids_are_others(tmp_path: Path) -> None:
    ids = [1471 + number for number in range(12)]
    content = {str(number): f"SELECT {number}" for number in sorted(range(12), key=str)}
    found = predictions(tmp_path, content, ids)
    assert found == {f"dev/{1471 + number}": f"SELECT {number}" for number in range(12)}


def test_positions_count_the_rows_of_the_whole_file(tmp_path: Path) -> None:
    rows = [row(40, db_id="gone"), row(41), row(41), row(42)]
    dataset = read(tmp_path, rows)
    file = tmp_path / "predictions.json"
    file.write_text(json.dumps({str(number): f"SELECT {number}" for number in range(4)}))
    found = read_predictions(file, dataset.questions, dataset.file_keys)
    assert found == {"dev/41": "SELECT 1", "dev/42": "SELECT 3"}


def test_missing_and_unknown_ids_are_reported(tmp_path: Path) -> None:
    found = predictions(tmp_path, {"6": "SELECT 6", "99": "SELECT 99"}, [5, 6, 7])
    assert found == {"dev/6": "SELECT 6"}
    assert (found.missing, found.unknown) == (("dev/5", "dev/7"), ("99",))


@pytest.mark.parametrize("form", ["list", "lines", "one line"])
def test_lists_and_lines_of_objects(tmp_path: Path, form: str) -> None:
    rows = [{"question_id": 5, "SQL": "SELECT 5" + SUFFIX}, {"key": "dev/6", "sql": None}]
    lines = "\n".join(json.dumps(entry) for entry in rows)
    content = {"list": rows, "lines": lines + "\n", "one line": lines.split("\n")[0]}[form]
    found = predictions(tmp_path, content, [5, 6])
    expected = {"dev/5": "SELECT 5", "dev/6": ""}
    assert found == ({"dev/5": "SELECT 5"} if form == "one line" else expected)


def test_the_suffix_is_cut_only_where_it_is_one(tmp_path: Path) -> None:
    fenced = "```sql\nSELECT 1\n```"
    content = {"5": "SELECT '----- bird -----'", "6": "SELECT 1\n" + SUFFIX, "7": 0, "8": fenced}
    found = predictions(tmp_path, content, [5, 6, 7, 8])
    assert list(found.values()) == ["SELECT '----- bird -----'", "SELECT 1", "", fenced]


@pytest.mark.parametrize(
    "content",
    ["nothing", "3", '{"5": "a", "5": "b"}', '[{"sql": "a"}]', '[{"question_id": 5}]', "[1]"],
)
def test_predictions_that_cannot_be_read_name_the_file(tmp_path: Path, content: str) -> None:
    with pytest.raises(Text2SqlError, match=r"predictions\.json"):
        predictions(tmp_path, content, [5])


def published_zip(folder: Path) -> Path:
    """Write a dev.zip as BIRD's: a dated folder, a zip in the zip, and macOS's additions."""
    make_split(folder / "dev", [row(1)])
    twin = b"\x00\x05\x16\x07" + b"\0" * 100
    with zipfile.ZipFile(folder / "inner.zip", "w") as inner:
        for name in ("clinic", "shop"):
            place = f"dev_databases/{name}"
            inner.write(folder / "dev" / place / f"{name}.sqlite", f"{place}/{name}.sqlite")
            inner.writestr(f"{place}/._{name}.sqlite", twin)
            inner.writestr(f"__MACOSX/{place}/._{name}.sqlite", twin)
    with zipfile.ZipFile(folder / "dev.zip", "w") as outer:
        outer.write(folder / "dev" / "dev.json", "dev_20240627/dev.json")
        outer.write(folder / "inner.zip", "dev_20240627/dev_databases.zip")
        outer.writestr("__MACOSX/dev_20240627/._dev.json", "x")
    return folder / "dev.zip"


def test_a_published_zip_is_unpacked_once(tmp_path: Path) -> None:
    archive = published_zip(tmp_path)
    folder = unpack(archive, tmp_path / "archives")
    assert list(find_split(folder, "dev").databases) == ["clinic", "shop"]
    assert not [file for file in folder.rglob("*") if "._" in file.name or file.suffix == ".zip"]
    time_of = folder.stat().st_mtime_ns
    assert unpack(archive, tmp_path / "archives") == folder
    assert folder.stat().st_mtime_ns == time_of
    result = ingest(tmp_path / "root", use(archive))
    assert result.success
    assert [question.key for question in data.load_questions(tmp_path / "root", "dev")] == ["dev/1"]


@pytest.mark.parametrize("damage", ["cut", "garbage", "climbs", "absolute"])
def test_a_bad_zip_is_refused_and_leaves_nothing(tmp_path: Path, damage: str) -> None:
    archive = published_zip(tmp_path)
    if damage in ("climbs", "absolute"):
        with zipfile.ZipFile(archive, "a") as file:
            file.writestr("../out.txt" if damage == "climbs" else "/tmp/out.txt", "x")
    else:
        archive.write_bytes(archive.read_bytes()[:-300] if damage == "cut" else b"x" * 999)
    with pytest.raises(Text2SqlError, match=r"dev\.zip"):
        unpack(archive, tmp_path / "archives")
    assert list((tmp_path / "archives").iterdir()) == []


def ingest(root: Path, config: dict[str, Any]) -> Any:
    """Materialize the dataset's assets below ``root``; an instance of its own."""
    return dg.materialize(
        [bird.bird_archive, bird.bird_questions, bird.bird_databases, bird.gold_results],
        resources={"root": ArtifactRoot(root=str(root)), "sandbox": SandboxResource(workers=2)},
        run_config={"ops": {name: {"config": values} for name, values in config.items()}},
        raise_on_error=False,
    )


def checks(result: Any) -> dict[str, Any]:
    return {check.check_name: check for check in result.get_asset_check_evaluations()}


def versions(result: Any) -> dict[str, str]:
    return {
        str(event.asset_key.to_user_string()): event.materialization.tags["dagster/data_version"]
        for event in result.get_asset_materialization_events()
    }


def use(folder: Path, **questions: Any) -> dict[str, Any]:
    return {"bird_archive": {"source": str(folder), "splits": ["dev"]}, "bird_questions": questions}


POCKET = {
    "bird_archive": {"sizes": {"train": 12, "new_databases": 6, "unseen_words": 4, "general": 2}}
}


def test_the_pocket_corpus_goes_through_the_assets(tmp_path: Path) -> None:
    result = ingest(tmp_path, POCKET)
    assert result.success
    assert all(check.passed for check in checks(result).values()), checks(result)
    train, dev = (data.load_questions(tmp_path, split) for split in ("train", "dev"))
    assert (len(train), len(dev)) == (12, 12)
    assert {question.subset for question in dev} == {"new_databases", "unseen_words", "general"}
    golds = data.load_golds(tmp_path, "dev")
    assert list(golds) == [question.key for question in dev]
    assert all(gold.usable for gold in golds.values())
    again = ingest(tmp_path, POCKET)
    assert again.success and versions(again) == versions(result)


def test_missing_databases_stop_the_run_unless_allowed(tmp_path: Path) -> None:
    folder = make_split(tmp_path / "data", [row(1), row(2, db_id="shopp")])
    root = tmp_path / "artifacts"
    refused = ingest(root, use(folder))
    assert not refused.success
    check = checks(refused)["db_ids_resolve"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    (failing,) = check.metadata["failing rows"].records
    assert "did you mean 'shop'?" in failing.data["detail"]
    assert "First: dev/2, shopp, db_id 'shopp' has no database" in check.description
    assert "gold_results" not in versions(refused)
    with pytest.raises(Text2SqlError, match="materialize bird_questions"):
        data.load_questions(root, "dev")
    allowed = ingest(root, use(folder, missing_databases=0.5))
    assert allowed.success
    assert not checks(allowed)["db_ids_resolve"].passed
    assert [question.key for question in data.load_questions(root, "dev")] == ["dev/1"]
    assert list(data.load_golds(root, "dev")) == ["dev/1"]
    rows = data.load_rows(root, "dev")
    assert [row["question"]["key"] for row in rows] == ["dev/1", "dev/2"]


@pytest.mark.parametrize("damage", ["garbage", "empty", "cut"])
def test_a_broken_database_stops_the_run(tmp_path: Path, damage: str) -> None:
    folder = make_split(tmp_path / "data", [row(1)])
    file = folder / "dev_databases" / "shop" / "shop.sqlite"
    whole = file.read_bytes()
    file.write_bytes({"garbage": b"x" * 5000, "empty": b"", "cut": whole[:-2000]}[damage])
    result = ingest(tmp_path / "artifacts", use(folder))
    assert not result.success
    check = checks(result)["databases_sound"]
    assert check.severity is dg.AssetCheckSeverity.ERROR
    (failing,) = check.metadata["failing rows"].records
    assert failing.data["db_id"] == "shop" and failing.data["state"] != "ok"
    assert "gold_results" not in versions(result)


def test_overlap_of_train_and_dev_is_reported(tmp_path: Path) -> None:
    folder = make_split(tmp_path / "data", [row(1), row(2), row(3, question="Only here?")])
    make_database(folder / "train_databases", "shop_copy")
    make_database(folder / "train_databases", "shop")
    rows = [
        row(1, question=" how many,  1"),
        row(2, db_id="shop_copy"),
        row(9, db_id="shop_copy", question="Only here?", SQL="SELECT 9"),
    ]
    (folder / "train.json").write_text(json.dumps(rows))
    config = {"bird_archive": {"source": str(folder)}}
    result = ingest(tmp_path / "artifacts", config)
    assert result.success
    found = checks(result)
    questions = found["questions_apart"].metadata["failing rows"].records
    assert [(one.data["key"], one.data["in_train"]) for one in questions] == [
        ("dev/1", "train/1"),
        ("dev/2", "train/2"),
    ]
    databases = found["databases_apart"].metadata["failing rows"].records
    assert [one.data["db_id"] for one in databases] == ["shop"]
    assert found["databases_apart"].severity is dg.AssetCheckSeverity.WARN


def damage_indexes(file: Path) -> None:
    """Let two indexes have each other's content: queries that use one miss rows."""
    connection = sqlite3.connect(file)
    connection.executescript("""
        CREATE TABLE u(a, b); CREATE INDEX by_a ON u(a); CREATE INDEX by_b ON u(b);
        INSERT INTO u VALUES (1, 10), (2, 20), (3, 30);
    """)
    pages = dict(connection.execute("SELECT name, rootpage FROM sqlite_master"))
    connection.execute("PRAGMA writable_schema = ON")
    for name, other in (("by_a", "by_b"), ("by_b", "by_a")):
        connection.execute(
            "UPDATE sqlite_master SET rootpage = ? WHERE name = ?", (pages[other], name)
        )
    connection.commit()
    connection.close()


def test_a_damaged_index_is_found_if_indexes_are_checked(tmp_path: Path) -> None:
    folder = make_split(tmp_path / "data", [row(1)])
    damage_indexes(folder / "dev_databases" / "shop" / "shop.sqlite")
    root, config = tmp_path / "artifacts", use(folder)
    assert ingest(root, config).success
    result = ingest(root, config | {"bird_databases": {"indexes": True}})
    (failing,) = checks(result)["databases_sound"].metadata["failing rows"].records
    assert failing.data["state"] == "row 1 missing from index by_b"
    assert not result.success


def test_failing_gold_is_counted_and_too_much_is_refused(tmp_path: Path) -> None:
    broken = row(3, SQL="SELECT COUNT(*) FROM `Order Details`")
    writing = row(4, SQL="DELETE FROM t")
    folder = make_split(
        tmp_path / "data", [row(1), row(2, SQL="SELECT a FROM t WHERE a > 9"), broken, writing]
    )
    root = tmp_path / "artifacts"
    refused = ingest(root, use(folder))
    assert not refused.success
    check = checks(refused)["gold_runs"]
    found = {record.data["key"]: record.data for record in check.metadata["failing rows"].records}
    assert {key: data["status"] for key, data in found.items()} == {
        "dev/3": "error",
        "dev/4": "write",
    }
    assert found["dev/3"]["error"] == "no such table: Order Details"
    assert not checks(refused)["gold_answers"].passed
    with pytest.raises(Text2SqlError, match="failed their check"):
        data.load_golds(root, "dev")
    allowed = ingest(root, use(folder) | {"gold_results": {"failing": 0.5}})
    assert allowed.success
    golds = data.load_golds(root, "dev")
    assert [gold.ran for gold in golds.values()] == [True, True, False, False]
    assert golds["dev/2"].empty


@pytest.mark.parametrize("rows", [[], [row(1, db_id="nowhere")]])
def test_without_a_usable_question_no_gold_runs(tmp_path: Path, rows: list[Any]) -> None:
    config = use(make_split(tmp_path / "data", rows), least=0, missing_databases=1.0)
    result = ingest(tmp_path / "root", config)
    (failed,) = result.get_step_failure_events()
    assert failed.step_key == "gold_results"
    assert "No question of" in str(failed.step_failure_data.error.cause)


def test_gold_that_depends_on_chance_is_run_again(tmp_path: Path) -> None:
    rows = [row(1), row(2, SQL="SELECT RANDOM()")]
    config = use(make_split(tmp_path / "data", rows))
    root = tmp_path / "root"
    found = []
    for _ in range(2):
        result = ingest(root, config)
        assert result.success and not checks(result)["gold_determined"].passed
        found.append({key: gold.digest for key, gold in data.load_golds(root, "dev").items()})
    first, again = found
    assert list(first) == list(again) == ["dev/1", "dev/2"]
    assert first["dev/1"] == again["dev/1"] and first["dev/2"] != again["dev/2"]


def test_wrong_keys_stop_the_run_and_leave_nothing(tmp_path: Path) -> None:
    folder = make_split(tmp_path / "data", [{"id": 1, "text": "q"}])
    root = tmp_path / "artifacts"
    result = ingest(root, use(folder))
    assert not result.success
    (failure,) = result.get_step_failure_events()
    assert "has no 'db_id' (found: id, text)" in str(failure.step_failure_data.error)
    assert not list(root.rglob("*.jsonl")) and not (root / "bird" / "current.json").exists()


def test_equal_gold_on_one_database_runs_once(tmp_path: Path) -> None:
    rows = [row(number, SQL="SELECT COUNT(*) FROM t") for number in range(5)]
    questions = load_split(make_split(tmp_path, rows), "dev").questions
    seen: list[tuple[int, int]] = []
    with Sandbox(workers=1) as sandbox:
        golds = run_golds(questions, sandbox, Limits(), lambda *counts: seen.append(counts))
    assert seen == [(1, 1)]
    assert [gold.key for gold in golds.values()] == [f"dev/{number}" for number in range(5)]
    assert len({gold.digest for gold in golds.values()}) == 1


def test_description_files_that_do_not_fit_are_reported(tmp_path: Path) -> None:
    file = make_database(tmp_path, "shop")
    notes = tmp_path / "shop" / "database_description"
    notes.mkdir()
    (notes / "tt.csv").write_text("original_column_name\na\n")
    (notes / "t.csv").write_text("original_column_name,column_name\na,a\nfax,Fax\n")
    with Sandbox(workers=1) as sandbox:
        report = inspect_database(file, sandbox)
    assert (report.state, report.tables, report.rows) == ("ok", 1, 3)
    assert "tt.csv" in report.unmatched and "fax" in report.unmatched
