"""Question files as they really come: names of files and keys, lines, gold in a file of its own."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.dataset_files import make_database, question, team_row, write
from tests.support.splits import load_split
from text2sql.errors import Text2SqlError


def test_commits_in_a_write_ahead_log_are_part_of_the_dataset(tmp_path: Path) -> None:
    file = make_database(tmp_path / "dev_databases" / "shop" / "shop.sqlite")
    write(tmp_path / "dev.json", [question(1)])
    before = load_split(tmp_path, "dev").fingerprint
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        opened = load_split(tmp_path, "dev").fingerprint
        connection.execute("INSERT INTO t VALUES (9)")
        connection.commit()
        after = load_split(tmp_path, "dev").fingerprint
    connection.close()
    assert len({before, opened, after}) == 3


@pytest.mark.parametrize(
    "name",
    [
        "dev_20251106.json",
        "dev_20251106-00000-of-00001.json",
        "mini_dev_sqlite-00000-of-00001.json",
    ],
)
def test_the_dev_revision_and_mini_dev_as_they_are_named(tmp_path: Path, name: str) -> None:
    make_database(tmp_path / "dev_databases" / "shop" / "shop.sqlite")
    write(tmp_path / "data" / name, [question(1471)])
    write(tmp_path / "mini_dev_mysql.json", [question(1, SQL="SELECT 'mysql'")])
    write(tmp_path / "dev_tables.json", [{"db_id": "shop"}])
    assert [q.key for q in load_split(tmp_path, "dev").questions] == ["dev/1471"]


def test_a_teams_optional_fields(tmp_path: Path) -> None:
    make_database(tmp_path / "databases" / "shop.db")
    rows = [
        team_row("shop", 1, id="a-1", evidence="open means a > 0", difficulty="moderate"),
        team_row("shop", 2, id="a-2", evidence=None),
    ]
    write(tmp_path / "train.jsonl", rows, lines=True)
    first, second = load_split(tmp_path, "train").questions
    assert (first.key, first.evidence, first.difficulty) == (
        "train/a-1",
        "open means a > 0",
        "moderate",
    )
    assert (second.key, second.evidence) == ("train/a-2", "")


@pytest.mark.parametrize(
    "row",
    [
        {"Question_ID": 7.0, "DB_ID": "shop", "Question": "q", "sql": "SELECT 1"},
        {"questionId": "7", "dbId": "shop", "question": "q", "query": " SELECT 1 "},
        {"idx": 7, "db id": "shop", "nl_question": "q", "gold_sql": "SELECT 1"},
        {"ID": 7, "database": "shop", "question": "q", "SQL": "SELECT 1", "sql": {"select": []}},
        {"id": 7, "db_name": "shop", "question": "q", "sql": {"select": []}, "SQL": "SELECT 1"},
        {"question_id": 7, "database_id": "shop", "utterance": "q", "query": "SELECT 1"},
    ],
)
def test_any_mixture_of_key_names_and_case(tmp_path: Path, row: dict[str, Any]) -> None:
    make_database(tmp_path / "databases" / "shop.sqlite")
    write(tmp_path / "dev.json", [row])
    (found,) = load_split(tmp_path, "dev").questions
    assert (found.key, found.db_id, found.question, found.sql) == ("dev/7", "shop", "q", "SELECT 1")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"evidence": []}, ""),
        ({"evidence": ["a", None, " b "]}, "a\nb"),
        ({"hint": "x", "evidence": None}, "x"),
        ({"external_knowledge": float("nan")}, ""),
    ],
)
def test_evidence_in_other_forms(tmp_path: Path, given: dict[str, Any], read: str) -> None:
    make_database(tmp_path / "databases" / "shop.sqlite")
    row = question(1)
    del row["evidence"]
    write(tmp_path / "dev.json", [row | given])
    assert load_split(tmp_path, "dev").questions[0].evidence == read


def test_broken_lines_are_named_by_number(tmp_path: Path) -> None:
    make_database(tmp_path / "databases" / "shop.sqlite")
    (tmp_path / "dev.jsonl").write_text(json.dumps(question(1)) + "\n\n{'no': 1}\n")
    with pytest.raises(Text2SqlError, match=r"dev\.jsonl: line 3 is not JSON"):
        load_split(tmp_path, "dev")


def test_lines_may_hold_line_separators_of_unicode(tmp_path: Path) -> None:
    make_database(tmp_path / "databases" / "shop.sqlite")
    text = json.dumps(question(1, question="a\u2028b\x85c"), ensure_ascii=False)
    (tmp_path / "dev.jsonl").write_text("\ufeff" + text + "\r\n", encoding="utf-8")
    assert len(load_split(tmp_path, "dev").questions) == 1


def gold_beside(folder: Path, text: str, name: str = "dev_gold.sql") -> Path:
    """Write questions without SQL, and their gold in a file of its own."""
    make_database(folder / "dev_databases" / "financial" / "financial.sqlite")
    rows = [question(n, "financial") for n in range(2)]
    for row in rows:
        del row["SQL"]
    write(folder / "dev.json", rows)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["dev_gold.sql", "dev.sql", "DEV_GOLD.SQL"])
def test_gold_in_a_file_is_split_at_the_last_tab(tmp_path: Path, name: str) -> None:
    text = "SELECT a\tFROM t\tfinancial\nSELECT 2\tfinancial\n"
    dataset = load_split(gold_beside(tmp_path, text, name), "dev")
    assert [q.sql for q in dataset.questions] == ["SELECT a\tFROM t", "SELECT 2"]
    (tmp_path / name).write_text(text.replace("2", "3"))
    assert load_split(tmp_path, "dev").fingerprint != dataset.fingerprint


@pytest.mark.parametrize("held_back", [None, "", float("nan")])
def test_gold_in_a_file_counts_if_the_questions_have_none(
    tmp_path: Path, held_back: object
) -> None:
    folder = gold_beside(tmp_path, "SELECT 1\tfinancial\nSELECT 2\tfinancial\n")
    write(folder / "dev.json", [question(n, "financial", SQL=held_back) for n in range(2)])
    assert [q.sql for q in load_split(folder, "dev").questions] == ["SELECT 1", "SELECT 2"]
    write(folder / "dev.json", [question(n, "financial", SQL=n * "SELECT 3") for n in range(2)])
    assert [q.sql for q in load_split(folder, "dev").questions] == ["SELECT 3"]


@pytest.mark.parametrize(
    "data",
    [
        b"SELECT 1\t----- bird -----\tfinancial\r\nSELECT 2\tfinancial\t\r\n",
        "SELECT 1\tfinancial\nSELECT 2\tfinancial\n".encode("utf-16"),
    ],
)
def test_gold_in_a_file_as_other_programs_write_it(tmp_path: Path, data: bytes) -> None:
    folder = gold_beside(tmp_path, "")
    (folder / "dev_gold.sql").write_bytes(data)
    assert [q.sql for q in load_split(folder, "dev").questions] == ["SELECT 1", "SELECT 2"]


def test_gold_is_stored_without_birds_suffix(tmp_path: Path) -> None:
    make_database(tmp_path / "dev_databases" / "shop" / "shop.sqlite")
    write(tmp_path / "dev.json", [question(1, SQL="SELECT 1\t----- bird -----\tshop")])
    assert [q.sql for q in load_split(tmp_path, "dev").questions] == ["SELECT 1"]


def test_another_encoding_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "dev_databases").mkdir()
    (tmp_path / "dev.json").write_bytes('[{"question": "caf\u00e9"}]'.encode("latin-1"))
    with pytest.raises(Text2SqlError, match=r"dev\.json: it is not UTF-8 .*; save it in UTF-8\."):
        load_split(tmp_path, "dev")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("SELECT a\nFROM t\tfinancial\nSELECT 2\tfinancial\n", "line_count_mismatch.* 3 .* 2 "),
        ("SELECT 1\tfinancial\n", "line_count_mismatch"),
        ("SELECT 1\tfinancial\nSELECT 2\tother\n", "line 2 .*'financial', not in 'other'"),
        ("SELECT 1\tfinancial\nSELECT 2\n", "line 2 must end in a tab"),
    ],
)
def test_gold_in_a_file_that_does_not_fit_is_refused(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(Text2SqlError, match=match):
        load_split(gold_beside(tmp_path, text), "dev")


def test_two_copies_with_other_gold_have_other_fingerprints(tmp_path: Path) -> None:
    """Mini-dev's question 879 has another gold in the .zip than on the hub."""
    found = []
    for number, sql in enumerate(("SELECT MAX(a) FROM t", "SELECT MAX(CAST(a AS REAL)) FROM t")):
        folder = tmp_path / str(number)
        make_database(folder / "dev_databases" / "shop" / "shop.sqlite")
        write(folder / "dev.json", [question(879, SQL=sql)])
        found.append(load_split(folder, "dev").fingerprint)
    assert found[0] != found[1]
