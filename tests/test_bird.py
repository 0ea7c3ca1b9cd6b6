"""Reading BIRD's layout as it really comes, and predictions in every published form."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from text2sql.datasets.bird import Reason, load_split, read_questions, read_records
from text2sql.datasets.layout import database_files, find_split
from text2sql.datasets.predictions import read_predictions
from text2sql.errors import Text2SqlError

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
def test_a_split_is_found_at_any_level_and_macos_rests_are_not_databases(
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
    assert list(database_files(layout.databases)) == ["clinic", "shop"]


def test_folders_within_folders_of_the_same_name(tmp_path: Path) -> None:
    make_split(tmp_path / "train", [row(1)], "train.json", "train_databases/train_databases")
    make_split(tmp_path / "dev", [row(1)])
    assert find_split(tmp_path, "train").databases.parent.name == "train_databases"
    assert find_split(tmp_path, "dev").databases.name == "dev_databases"


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


def test_two_equally_near_candidates_are_not_guessed_between(tmp_path: Path) -> None:
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
def test_a_file_that_is_no_list_of_questions(tmp_path: Path, text: str) -> None:
    make_split(tmp_path, [])
    (tmp_path / "dev.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(Text2SqlError, match=r"dev\.json"):
        load_split(tmp_path, "dev")


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(Text2SqlError, match="not a folder"):
        load_split(tmp_path / "nothing", "dev")
    with pytest.raises(Text2SqlError, match=r"dev\.json or mini_dev_sqlite\.json"):
        load_split(tmp_path, "dev")
    (tmp_path / "dev.json").write_text("[]")
    with pytest.raises(Text2SqlError, match="dev_databases or databases"):
        load_split(tmp_path, "dev")


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


def test_the_strict_reader_raises_on_the_first_problem(tmp_path: Path) -> None:
    make_split(tmp_path, [row(1), row(2, db_id="shopp")])
    with pytest.raises(Text2SqlError, match=r"entry 1.*did you mean 'shop'"):
        read_questions(tmp_path / "dev.json", tmp_path / "dev_databases", "dev")


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


def test_missing_and_unknown_ids_are_told(tmp_path: Path) -> None:
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
    content = {"5": "SELECT '----- bird -----'", "6": "SELECT 1\n" + SUFFIX, "7": 0}
    found = predictions(tmp_path, content, [5, 6, 7])
    assert found == {"dev/5": "SELECT '----- bird -----'", "dev/6": "SELECT 1", "dev/7": ""}


@pytest.mark.parametrize(
    "content",
    ["nothing", "3", '{"5": "a", "5": "b"}', '[{"sql": "a"}]', '[{"question_id": 5}]', "[1]"],
)
def test_predictions_that_cannot_be_read_name_the_file(tmp_path: Path, content: str) -> None:
    with pytest.raises(Text2SqlError, match=r"predictions\.json"):
        predictions(tmp_path, content, [5])
