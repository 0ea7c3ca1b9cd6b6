"""Reported mishaps with BIRD's data, each as it was reported, with what is right."""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile
from pathlib import Path

import pytest

from assets.data.frames import gold_frame
from tests.support.dataset_files import make_database, question, write
from tests.support.splits import load_split
from text2sql.agent.prompts import opening_messages
from text2sql.agent.schema.tables import describe
from text2sql.agent.settings import AgentSettings
from text2sql.datasets.fetching.sources import Source, Sources
from text2sql.datasets.gold.run import run_golds
from text2sql.datasets.reading.database_reports import inspect_database
from text2sql.datasets.reading.digests import Digests
from text2sql.datasets.reading.questions import Reason
from text2sql.evaluation.predictions.score import accuracy, score_predictions
from text2sql.sandbox import Limits, Sandbox, Status

TWIN = b"\x00\x05\x16\x07" + b"\0" * 100
"""What macOS writes beside a file: not a database."""


def apple_zip(folder: Path) -> Path:
    """Write BIRD's dev.zip as macOS packs it: a dated root, a zip in the zip, twins of files."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as file:
        for name in ("clinic", "shop"):
            database = make_database(folder / "made" / f"{name}.sqlite")
            file.write(database, f"dev_databases/{name}/{name}.sqlite")
            file.writestr(f"__MACOSX/dev_databases/{name}/._{name}.sqlite", TWIN)
            file.writestr(f"dev_databases/{name}/._{name}.sqlite", TWIN)
            file.writestr(f"dev_databases/{name}/.DS_Store", TWIN)
    with zipfile.ZipFile(folder / "dev.zip", "w") as file:
        file.writestr("dev_20240627/dev.json", "[]")
        file.writestr("dev_20240627/dev_tables.json", "[]")
        file.writestr("dev_20240627/dev_databases.zip", inner.getvalue())
        file.writestr("__MACOSX/dev_20240627/._dev.json", "x")
    return folder / "dev.zip"


def test_a_nested_dated_apple_archive(tmp_path: Path) -> None:
    archive = apple_zip(tmp_path)
    by_hand = tmp_path / "by_hand"
    with zipfile.ZipFile(archive) as file:
        file.extractall(by_hand)
    sources = Sources(tmp_path / "root", Digests())
    for place in (archive, by_hand, by_hand / "dev_20240627", archive):
        found = sources.find(Source(str(place)), "dev").databases
        assert list(found) == ["clinic", "shop"]
        assert not any("__MACOSX" in path.parts or path.name[0] == "." for path in found.values())
    # The outer archive, and the inner one that was left packed by hand: each unpacked once.
    assert len(list((tmp_path / "root" / "archives").iterdir())) == 2


def test_a_db_id_that_no_folder_has(tmp_path: Path) -> None:
    make_database(tmp_path / "train_databases" / "movie_4" / "movie_4.sqlite")
    row = question(1, "movies_4", SQL="SELECT COUNT(*) FROM movie")
    write(tmp_path / "train.json", [row])
    dataset = load_split(tmp_path, "train")
    (problem,) = dataset.problems
    assert (problem.reason, dataset.questions) == (Reason.DB_MISSING, [])
    assert problem.detail == "db_id 'movies_4' has no database; did you mean 'movie_4'?"
    assert not list(tmp_path.rglob("movies_4*"))


@pytest.mark.parametrize("db_id", ["Movie_4", "movie_4 ", "movie_4.sqlite", "../x/movie_4", "4"])
def test_a_db_id_is_never_guessed(tmp_path: Path, db_id: str) -> None:
    """Only spaces around it are not part of a db_id."""
    make_database(tmp_path / "dev_databases" / "movie_4" / "movie_4.sqlite")
    write(tmp_path / "dev.json", [question(1, db_id)])
    dataset = load_split(tmp_path, "dev")
    assert len(dataset.questions) == (db_id == "movie_4 ")


def test_a_name_in_another_unicode_form_is_another_name(tmp_path: Path) -> None:
    """macOS writes an accent as a letter of its own: the two names look the same."""
    make_database(tmp_path / "dev_databases" / "cafe\u0301" / "cafe\u0301.sqlite")
    write(tmp_path / "dev.json", [question(1, "caf\u00e9"), question(2, "cafe\u0301")])
    dataset = load_split(tmp_path, "dev")
    (problem,) = dataset.problems
    assert problem.detail.endswith(
        "did you mean 'cafe\u0301', the same letters in another Unicode form?"
    )
    assert [q.key for q in dataset.questions] == ["dev/2"]


@pytest.mark.parametrize(
    ("sql", "dialect"),
    [
        ("SELECT DATE_FORMAT(a, '%Y') FROM t", "MySQL"),
        ("SELECT a::text FROM t", "PostgreSQL"),
        ("SELECT TOP 1 a FROM t", "SQL Server"),
        ("SELECT YEAR(a) FROM t", "another database"),
        ("SELECT a FROM `Order Details` WHERE a = '::'", ""),
    ],
)
def test_gold_in_another_databases_sql_is_reported(tmp_path: Path, sql: str, dialect: str) -> None:
    make_database(tmp_path / "dev_databases" / "shop" / "shop.sqlite")
    write(tmp_path / "dev.json", [question(1, SQL=sql)])
    questions = load_split(tmp_path, "dev").questions
    with Sandbox(workers=1) as sandbox:
        frame = gold_frame(questions, run_golds(questions, sandbox, Limits()))
    (error,) = frame["error"]
    assert error.endswith(f" (written for {dialect}? use the questions for SQLite)") == bool(
        dialect
    )
    assert error.startswith(("no such", "near", "unrecognized"))


def test_descriptions_that_do_not_fit_the_database(tmp_path: Path) -> None:
    file = tmp_path / "cards" / "cards.sqlite"
    file.parent.mkdir()
    connection = sqlite3.connect(file)
    connection.executescript("CREATE TABLE rulings (id); CREATE TABLE Customers (Id);")
    connection.close()
    notes = file.parent / "database_description"
    notes.mkdir()
    header = "original_column_name,column_name,column_description\n"
    (notes / "ruling.csv").write_text(header + "id,,\n")
    (notes / "Customers.csv").write_text(header + "Id,customer id,\nFax,fax,secret words\n")
    with Sandbox(workers=1) as sandbox:
        schema = describe(file, sandbox)
        assert schema.descriptions.unmatched_files == ("ruling.csv",)
        assert schema.descriptions.phantom_columns == ("Customers.Fax",)
        assert inspect_database(file, sandbox).unmatched == "ruling.csv; Customers.Fax"
        shown = json.dumps([[c.name for c in table.columns] for table in schema.tables])
    assert "Fax" not in shown


def test_gold_that_cannot_run_bounds_what_gold_itself_scores(tmp_path: Path) -> None:
    file = make_database(tmp_path / "dev_databases" / "retail" / "retail.sqlite")
    rows = [question(n, "retail") for n in range(24)]
    rows.append(question(24, "retail", SQL="SELECT COUNT(*) FROM `Order Details`"))
    write(tmp_path / "dev.json", rows)
    questions = load_split(tmp_path, "dev").questions
    with Sandbox(workers=1) as sandbox:
        golds = run_golds(questions, sandbox, Limits())
        scores = score_predictions(questions, {q.key: q.sql for q in questions}, sandbox)
    failing = golds["dev/24"]
    assert (failing.status, failing.error) == (Status.ERROR, "no such table: Order Details")
    assert not failing.usable
    assert accuracy(scores.scored) == 24 / 25
    clean = [item for item in scores.scored if golds[item.question.key].usable]
    assert (accuracy(clean), len(clean)) == (1.0, 24)
    assert file.is_file()


def test_no_evidence_never_becomes_a_word(tmp_path: Path) -> None:
    make_database(tmp_path / "dev_databases" / "shop" / "shop.sqlite")
    nothing = (None, "", "  ", float("nan"), "nan", "None", " NULL", "<NA>", [None], ["nan"])
    rows = [
        question(n, question="How many?", SQL="SELECT COUNT(*) FROM t", evidence=evidence)
        for n, evidence in enumerate(nothing)
    ]
    rows.append(question(len(rows), question="How many?", SQL="SELECT 1"))
    del rows[-1]["evidence"]
    write(tmp_path / "dev.json", rows)
    asked_all = load_split(tmp_path, "dev").questions
    assert len(asked_all) == len(rows)
    for asked in asked_all:
        assert asked.evidence == ""
        user = opening_messages(asked, AgentSettings())[1]["content"]
        assert user == "How many?"


@pytest.mark.parametrize("name", ["Order Details", 'a"b', "select", "x; DROP TABLE y", "été"])
def test_tables_of_any_name_are_counted(tmp_path: Path, name: str) -> None:
    file = tmp_path / "shop.sqlite"
    connection = sqlite3.connect(file)
    quoted = name.replace('"', '""')
    connection.execute(f'CREATE TABLE "{quoted}" ("Unit Price" REAL)')
    connection.execute(f'INSERT INTO "{quoted}" VALUES (1), (2)')
    connection.commit()
    connection.close()
    with Sandbox(workers=1) as sandbox:
        report = inspect_database(file, sandbox)
    assert (report.state, report.tables, report.rows) == ("ok", 1, 2)


OTHERS_PARTS = {
    "CREATE TABLE a (x TEXT COLLATE theirs PRIMARY KEY)": "no such collation sequence: theirs",
    "CREATE VIRTUAL TABLE a USING fts5 (x); DROP TABLE a_data": "vtable constructor failed: a",
    "CREATE VIRTUAL TABLE a USING fts5 (x, content=gone)": "no such table: main.gone",
    "PRAGMA writable_schema = 1; INSERT INTO sqlite_master VALUES "
    "('table', 'a', 'a', 0, 'CREATE VIRTUAL TABLE a USING theirs')": "no such module: theirs",
}


@pytest.mark.parametrize("script", OTHERS_PARTS)
def test_a_table_that_needs_another_program_does_not_affect_the_others(
    tmp_path: Path, sandbox: Sandbox, script: str
) -> None:
    file = tmp_path / "shop.sqlite"
    for rest in ("CREATE TABLE b (x); INSERT INTO b VALUES (1), (2)", ""):
        file.unlink(missing_ok=True)
        connection = sqlite3.connect(file)
        connection.create_collation("theirs", lambda one, other: (one > other) - (one < other))
        connection.executescript(f"{script}; {rest}")
        connection.close()
        report = inspect_database(file, sandbox)
        unread = f"a: {OTHERS_PARTS[script]}"
        if rest:
            assert (report.state, report.rows, report.unread) == ("ok", 2, unread)
            tables = {table.name: table.row_count for table in describe(file, sandbox).tables}
            assert list(tables) == ["a", "b"] and tables["b"] == 2
        else:
            assert report.state == f"no table can be read; the first is {unread}"
