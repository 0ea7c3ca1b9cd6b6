"""``text2sql questions`` and ``text2sql reporting``, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.support.reporting_databases import postgresql_server, reporting_url
from text2sql.cli.main import cli
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.reporting.model.answer import AnswerStatus, NewAnswer
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.tables.location import URL_VARIABLE
from text2sql.reporting.tables.questions import QuestionTable
from text2sql.reporting.tables.store import ReportingStore

__all__ = ["postgresql_server", "reporting_url"]


class Desk:
    """A folder with a shop, and a person who types commands in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "questions.yaml"
        with closing(sqlite3.connect(folder / "shop.sqlite")) as connection, connection:
            connection.execute("CREATE TABLE shop(id)")

    def type(self, *words: str) -> Result:
        """Run a command that works; return what it printed."""
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, (result.output, result.exception)
        return result

    def fails(self, *words: str) -> str:
        """Run a command that ends in one sentence; return it."""
        result = CliRunner().invoke(cli, words)
        assert isinstance(result.exception, Text2SqlError), (result.output, result.exception)
        assert "\n" not in str(result.exception)
        return str(result.exception)

    def add(self, id: str = "shops", *words: str) -> Result:
        asked = ("--question", "How many shops?", "--database", "shop")
        return self.type("questions", "add", id, *asked, *words)

    def show(self, id: str = "shops") -> dict:
        return json.loads(self.type("questions", "show", id, "--json").stdout)

    def write(self, *questions: dict) -> None:
        self.file.write_text(yaml.safe_dump([{"database": "shop"} | one for one in questions]))

    def load(self, *words: str) -> Result:
        return self.type("questions", "import", str(self.file), *words)


@pytest.fixture
def desk(tmp_path, monkeypatch, reporting_url):
    monkeypatch.setenv(URL_VARIABLE, reporting_url)
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "root"))
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


# -- by hand


@pytest.mark.parametrize(
    "sql, why",
    [
        ("SELECT nope FROM nowhere", "no such table: nowhere"),
        ("DELETE FROM shop", "DELETE would change"),
    ],
)
def test_verified_sql_that_cannot_hold_is_refused(desk, sql, why):
    desk.add("kept")
    asked = ("--question", "How many?", "--database", "shop", "--verified-sql", sql)
    assert why in desk.fails("questions", "add", "new", *asked)
    assert why in desk.fails("questions", "edit", "kept", "--verified-sql", sql)
    assert desk.show("kept")["verified_sql"] is None


def test_a_question_is_added_edited_and_shown(desk):
    desk.add(
        "shops", "--votes", "16", "--timezone", "Asia/Tokyo", "--owner", "me", "--columns", "n"
    )
    desk.type("questions", "edit", "shops", "--minimum-share", "0.8", "--most-rows", "1")
    shown = desk.show()
    assert (shown["votes"], shown["minimum_share"], shown["timezone"]) == (16, 0.8, "Asia/Tokyo")
    assert shown["expectations"] == {"columns": ["n"], "most_rows": 1}
    assert shown["database"] == str(desk.folder / "shop.sqlite")
    assert (shown["view"], shown["seed_file"], shown["latest_answer"]) == ("answer_shops",) + (
        None,
    ) * 2
    desk.type("questions", "edit", "shops", "--columns", "", "--verified-sql", "SELECT 1")
    assert desk.show()["expectations"] == {"most_rows": 1}
    desk.type("questions", "edit", "shops", "--verified-sql", "")
    assert desk.show()["verified_sql"] is None
    assert "Asia/Tokyo" in desk.type("questions", "show", "shops").stdout


def test_a_question_is_shown_in_words(desk):
    desk.add("shops", "--most-rows", "5", "--not-empty", "--columns", "n")
    lines = desk.type("questions", "show", "shops").stdout.splitlines()
    shown = dict(line.split("  ", 1) for line in lines)
    words = "the columns n; at most 5 rows; a value that is not NULL"
    assert shown["expectations"].strip() == words
    assert shown["enabled"].strip() == "yes"
    assert "{" not in "".join(lines)


def test_questions_are_listed_disabled_and_enabled(desk):
    desk.add("a")
    desk.add("b", "--group", "weekly")
    assert desk.type("questions", "disable", "a", "b").stdout == "disabled a, b\n"
    desk.type("questions", "enable", "b")
    lines = desk.type("questions", "list", "--json").stdout.splitlines()
    assert [(q["id"], q["enabled"]) for q in map(json.loads, lines)] == [("a", False), ("b", True)]
    text = desk.type("questions", "list", "--group", "weekly").stdout
    assert "How many shops?" in text
    assert "(1 row)" in text


def test_questions_without_answers_can_be_deleted_and_others_are_kept(desk, reporting_url):
    desk.add("a")
    desk.add("b")
    desk.add("answered")
    assert "No question 'x'" in desk.fails("questions", "delete", "a", "x")
    assert desk.type("questions", "delete", "a").stdout == "deleted a\n"
    with ReportingStore(reporting_url) as store:
        question = QuestionTable(store).get("answered").question
        at = question.scheduled_at(date(2026, 3, 2))
        store.write_answer(NewAnswer(question, at, AnswerStatus.ERROR, error="server down"))
    message = desk.fails("questions", "delete", "b", "answered")
    assert "Answers refer to 'answered': disable it instead" in message
    lines = desk.type("questions", "list", "--json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["answered", "b"]


def test_invalid_values_are_refused_in_a_sentence(desk):
    desk.add()
    add = ("questions", "add", "x", "--question", "?", "--database")
    assert "give the path of its file" in desk.fails(*add, "nowhere")
    (desk.folder / "text.sqlite").write_text("no database at all, " * 100)
    assert "text.sqlite is not a SQLite database" in desk.fails(*add, "text")
    assert "exists: change it with" in desk.fails("questions", "add", "shops", *add[3:], "shop")
    assert "id must be" in desk.fails("questions", "add", "a b", *add[3:], "shop")
    assert "votes must be" in desk.fails("questions", "edit", "shops", "--votes", "0")
    assert "columns must be" in desk.fails("questions", "edit", "shops", "--columns", ",")
    assert "least_rows (2) is above" in desk.fails(
        "questions", "edit", "shops", "--least-rows", "2", "--most-rows", "1"
    )
    assert "No question 'x'" in desk.fails("questions", "edit", "x", "--votes", "3")
    assert "No question 'x', 'y'" in desk.fails("questions", "disable", "x", "shops", "y")
    assert desk.show()["enabled"]


def test_text_is_data(desk):
    text = "x'); DROP TABLE answers;-- :name 100% $1 \x1b[31m <b>"
    desk.type("questions", "add", "q", "--question", text, "--database", "shop", "--evidence", text)
    shown = desk.show("q")
    assert shown["question"] == shown["evidence"] == text
    for command in (("list",), ("show", "q")):
        assert "\x1b" not in desk.type("questions", *command).stdout


# -- from a file


def test_a_file_fills_the_table_and_changes_unedited_fields(desk):
    desk.write({"id": "a", "question": "A?"}, {"id": "b", "question": "B?"})
    assert desk.load().stdout == "2 added, 0 updated, 0 unchanged\n"
    assert desk.load().stdout == "0 added, 0 updated, 2 unchanged\n"
    desk.type("questions", "edit", "a", "--votes", "32")
    desk.type("questions", "disable", "b")
    desk.write({"id": "a", "question": "A, really?"}, {"id": "b", "question": "B?"})
    result = desk.load()
    assert (result.stdout, result.stderr) == ("0 added, 1 updated, 1 unchanged\n", "")
    shown = desk.show("a")
    assert (shown["question"], shown["votes"], shown["edited_by_hand"]) == (
        "A, really?",
        32,
        ["votes"],
    )
    assert not desk.show("b")["enabled"]


def test_an_import_reports_conflicts_and_keeps_the_edits(desk):
    desk.write({"id": "a", "question": "A?", "votes": 4})
    desk.load()
    desk.type("questions", "edit", "a", "--votes", "32")
    desk.write({"id": "a", "question": "A?", "votes": 5})
    assert "a: votes edited by hand and changed in the file; the edit stays" in desk.load().stderr
    assert desk.show("a")["votes"] == 32
    assert desk.load().stderr == ""
    desk.load("--overwrite")
    assert desk.show("a")["votes"] == 5
    assert desk.show("a")["edited_by_hand"] == []


def test_an_import_leaves_other_questions_alone(desk):
    desk.add("mine")
    desk.write({"id": "mine", "question": "Other?"}, {"id": "a", "question": "A?"})
    assert "mine: made by hand" in desk.load().stderr
    assert desk.show("mine")["question"] == "How many shops?"
    desk.write({"id": "mine", "question": "Other?"})
    assert "a: no longer in the file; it stays" in desk.load().stderr
    assert desk.show("a")["enabled"]


def test_an_import_reports_questions_taken_from_another_file(desk):
    desk.write({"id": "a", "question": "A?"}, {"id": "b", "question": "B?"})
    desk.load()
    first, desk.file = desk.file, desk.folder / "others.yaml"
    desk.write({"id": "a", "question": "Another?"}, {"id": "b", "question": "B?"})
    assert desk.load().stderr == f"note: a: question now as in this file; it followed {first}\n"
    assert desk.show("a")["question"] == "Another?"
    desk.write({"id": "a", "question": "A third?"})
    assert "it followed" not in desk.load().stderr


def test_of_two_questions_with_one_id_the_last_counts(desk, reporting_url):
    """A file with such a pair is refused; a program may hand one over."""
    pair = [ReportQuestion("q", text, "shop") for text in ("old", "new")]
    with ReportingStore(reporting_url) as store:
        for _ in range(2):
            QuestionTable(store).import_file(Path("q.yaml"), pair)
            assert [q.question for q in QuestionTable(store).read().readable] == ["new"]


def test_invalid_ids_and_names_are_listed_after_the_readable_questions(tmp_path, monkeypatch):
    desk, file = Desk(tmp_path), tmp_path / "reporting.sqlite"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(URL_VARIABLE, f"sqlite:///{file}")
    for id in ("bytes", "fine", "seed", "view"):
        desk.add(id)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE questions SET id = x'ff' WHERE id = 'bytes'")
        connection.execute("UPDATE questions SET view_name = x'fe' WHERE id = 'view'")
        connection.execute("UPDATE questions SET seed_file = x'fd' WHERE id = 'seed'")
    shown = desk.type("questions", "list").stdout
    assert "(1 row)" in shown and "fine" in shown
    for words in ("its id must be text", "view_name must be text", "seed_file must be text"):
        assert words in shown
    lines = map(json.loads, desk.type("questions", "list", "--json").stdout.splitlines())
    assert [one["id"] for one in lines] == ["fine", "seed", "view", "b'\\xff'"]
    assert "view_name must be text" in desk.fails("questions", "show", "view")
    assert "view_name must be text" in desk.fails("questions", "edit", "view", "--votes", "3")
    desk.write({"id": "fine", "question": "How many?"})
    desk.load()


def test_without_questions_no_line_is_printed(tmp_path):
    url = f"sqlite:///{tmp_path / 'reporting.sqlite'}"
    ReportingStore(url).close()
    for words in ("questions list", "answers list"):
        listed = CliRunner().invoke(cli, [*words.split(), "--json", "--reporting", url])
        assert (listed.exit_code, listed.output) == (0, "")


def test_a_file_is_imported_whole_or_not_at_all(desk):
    desk.add("first")
    desk.write({"id": "a", "question": "A?"}, {"id": "b", "question": "B?", "database": "nowhere"})
    assert "'nowhere'" in desk.fails("questions", "import", str(desk.file))
    desk.write({"id": "a", "question": "A?"}, {"id": "b", "question": "B?", "votes": "many"})
    message = desk.fails("questions", "import", str(desk.file))
    assert "questions.yaml:" in message
    assert "votes must be a whole number" in message
    assert "(1 row)" in desk.type("questions", "list").stdout


def test_an_export_comes_back_as_it_was(desk):
    desk.add("a", "--columns", "n,m", "--evidence", "ünï: 'x' #1", "--verified-sql", "SELECT 1")
    desk.add("b", "--group", "weekly")
    desk.type("questions", "disable", "b")
    before = [desk.show(id) for id in "ab"]
    desk.type("questions", "export", "--to", "out.yaml")
    assert desk.type("questions", "export").stdout == (desk.folder / "out.yaml").read_text()
    desk.type("questions", "edit", "a", "--votes", "3")
    desk.type("questions", "import", "out.yaml", "--overwrite")
    after = [desk.show(id) for id in "ab"]
    assert [one.pop("seed_file") for one in after] == [str(desk.folder / "out.yaml")] * 2
    assert [one.pop("seed_file") for one in before] == [None] * 2
    assert after == before


def test_databases_are_searched_in_the_given_folders(desk):
    (desk.folder / "deep" / "shop2").mkdir(parents=True)
    (desk.folder / "shop.sqlite").rename(desk.folder / "deep" / "shop2" / "shop2.sqlite")
    desk.write({"id": "a", "question": "A?", "database": "shop2"})
    desk.load("--databases", "deep")
    assert desk.show("a")["database"] == str(desk.folder / "deep" / "shop2" / "shop2.sqlite")


# -- the tables


def test_the_version_is_printed_and_upgraded_once(desk):
    desk.add()
    status = json.loads(desk.type("reporting", "status", "--json").stdout)
    assert status["found"] == status["needed"]
    assert "nothing to do" in desk.type("reporting", "upgrade").stdout
    assert desk.show()["id"] == "shops"


def test_a_day_without_questions_is_not_answered_with_the_demos(desk, reporting_url):
    root = desk.folder / "root"
    root.mkdir()
    champion = {"policy": "http://127.0.0.1:9/v1", "revision": "1", "training_run": "base"}
    (root / "champion.json").write_text(json.dumps(champion))
    assert "no scheduled questions" in desk.fails("answers", "run") or "postgres" in reporting_url
    desk.type("reporting", "upgrade")
    refused = desk.fails("answers", "run")
    assert "no scheduled questions yet in" in refused and "text2sql questions import" in refused
    assert "(0 rows)" in desk.type("questions", "list").stdout


def test_a_server_without_tables_names_the_command(monkeypatch, postgresql_server):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA fresh")
    monkeypatch.setenv(URL_VARIABLE, f"{postgresql_server}&options=-csearch_path%3Dfresh")

    def run(*words):
        return CliRunner().invoke(cli, words)

    assert "run text2sql reporting upgrade" in str(run("questions", "list").exception)
    assert run("reporting", "status").exit_code == 3
    assert "from version none to" in run("reporting", "upgrade").stdout
    assert run("reporting", "status").exit_code == 0
    assert "(0 rows)" in run("questions", "list").stdout


def test_without_tables_nothing_is_created(tmp_path, monkeypatch):
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "made"))
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    at = f"//{tmp_path}/made/reporting.sqlite"
    for url in ("", f"sqlite:{at}", f"sqlite+pysqlite:{at}", f"sqlite:{at}?timeout=5"):
        for words, status in (
            ("questions list", 1),
            ("answers show 1", 1),
            ("reporting status", 3),
        ):
            result = CliRunner().invoke(cli, [*words.split(), "--reporting", url])
            assert "no scheduled questions yet" in str(result.exception)
            assert result.exception.exit_code == status
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("reporting_url", ["sqlite"], indirect=True)
def test_a_file_is_found_whatever_its_url_says_beside_it(desk, reporting_url):
    desk.add()
    url = f"{reporting_url.replace('sqlite', 'sqlite+pysqlite', 1)}?timeout=5"
    assert "shops" in desk.type("questions", "list", "--reporting", url).stdout


def test_a_server_that_is_down_is_named(monkeypatch):
    pytest.importorskip("psycopg")
    url = "postgresql://me:secret@127.0.0.1:9/reports?connect_timeout=2"
    for words in (["questions", "list"], ["reporting", "status"], ["reporting", "upgrade"]):
        result = CliRunner().invoke(cli, [*words, "--reporting", url])
        assert isinstance(result.exception, InfrastructureError)
        assert "127.0.0.1:9" in str(result.exception)
        assert "secret" not in str(result.exception)


def test_a_command_that_fails_leaves_no_reporting_tables_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "root"))
    monkeypatch.delenv("TEXT2SQL_REPORTING_URL", raising=False)
    for words in (["add", "x", "--question", "?", "--database", "nosuch"], ["import", "nosuch"]):
        assert CliRunner().invoke(cli, ["questions", *words]).exit_code == 1
    assert not (tmp_path / "root").exists()


def test_a_root_that_is_a_file_is_named(tmp_path, monkeypatch):
    (tmp_path / "root").touch()
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "root"))
    result = CliRunner().invoke(cli, ["questions", "list"])
    assert "root, which is a file: give a folder" in str(result.exception)
