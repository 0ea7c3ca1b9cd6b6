"""``text2sql sql``: what it shows and how it ends; test_ending.py sees it from outside as well."""

import json
import os
import sqlite3
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tests.support.agent_databases import damaged_inside, make_database
from text2sql.cli.commands.sql import command as sql_command
from text2sql.cli.main import main
from text2sql.errors import InfrastructureError


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sql")
    rows = "CREATE TABLE t (id INT); INSERT INTO t VALUES (1), (2), (2), (3)"
    return make_database(folder / "shop.sqlite", rows)


@pytest.mark.parametrize(
    ("statement", "code", "words"),
    [
        ("SELECT id FROM t", 0, "4 rows"),
        ("DROP TABLE t", 3, "refused: DROP would change the database"),
        ("SELECT nope FROM t", 4, "error: no such column: nope"),
        ("", 4, "error: The SQL is empty: give a statement, like SELECT 1."),
        ("SELECT :id", 4, "error: the statement has a parameter"),
        ("SELECT 1; SELECT 2", 4, "one statement"),
        ("SELECT zeroblob(2000000000)", 5, "error"),
    ],
)
def test_sql_command_says_how_it_ended(database, statement, code, words):
    shown = CliRunner().invoke(sql_command, [str(database), statement])
    assert (shown.exit_code, words in shown.output) == (code, True), shown.output
    plain = CliRunner().invoke(sql_command, [str(database), statement, "--json"])
    assert plain.exit_code == code
    found = json.loads(plain.output)
    assert (found["status"] == "ok") == (code == 0)
    assert bool(found["error"]) == (code != 0)


def test_sql_command_counts_the_same_rows_in_both_forms(database):
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)"
    statement = f"{numbers} SELECT hex(zeroblob(50000)) FROM n"  # 60 MB; run_sql reads 20
    shown = CliRunner().invoke(sql_command, [str(database), statement]).stdout
    plain = json.loads(CliRunner().invoke(sql_command, [str(database), statement, "--json"]).stdout)
    assert f"of more than {plain['row_count']} rows shown" in shown
    assert not plain["complete"]


def test_sql_command_gives_programs_all_rows(database):
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) "
    statement = numbers.format(300) + "SELECT i, NULL AS none, x'00ff' AS b FROM n"
    shown = CliRunner().invoke(sql_command, [str(database), statement])
    assert "(50 of 300 rows shown)" in shown.stdout
    found = json.loads(CliRunner().invoke(sql_command, [str(database), statement, "--json"]).stdout)
    assert (len(found["rows"]), found["row_count"], found["complete"]) == (300, 300, True)
    table = CliRunner().invoke(sql_command, [str(database), statement, "--csv"])
    assert table.stdout.splitlines()[:2] == ["i,none,b", "1,,00ff"]
    assert (len(table.stdout.splitlines()), table.stderr) == (301, "")
    many = CliRunner().invoke(
        sql_command, [str(database), numbers.format(100_001) + "SELECT i FROM n", "--csv"]
    )
    assert (len(many.stdout.splitlines()), many.exit_code) == (100_001, 0)
    assert many.stderr == "note: the first 100000 of more than 100000 rows.\n"
    wrong = CliRunner().invoke(sql_command, [str(database), "SELECT nope FROM t", "--csv"])
    assert (wrong.exit_code, wrong.stdout, wrong.stderr) == (4, "", "error: no such column: nope\n")


def test_sql_command_asks_for_quotes(database):
    wrong = CliRunner().invoke(sql_command, [str(database), "SELECT", "id", "FROM", "t"])
    assert wrong.exit_code == 2
    assert (
        "The statement is 4 arguments; put it in quotes, like 'SELECT id FROM t'." in wrong.output
    )


def test_sql_command_writes_valid_json_for_every_value(database):
    sql = "SELECT 9e999, -9e999, 1e308, x'00ff', NULL, 9e999 - 9e999, 'é'"
    shown = CliRunner().invoke(sql_command, [str(database), sql, "--json"])
    (row,) = json.loads(shown.stdout, parse_constant=pytest.fail)["rows"]
    assert row == ["Infinity", "-Infinity", 1e308, {"blob": "00ff"}, None, None, "é"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_sql_command_reports_damage_in_one_sentence(tmp_path, options):
    database = damaged_inside(tmp_path / "shop.db")
    shown = CliRunner().invoke(sql_command, [str(database), "SELECT sum(a) FROM t", *options])
    assert isinstance(shown.exception, InfrastructureError)
    assert str(shown.exception) == (
        f"{database}: the database is damaged; get a fresh copy (database disk image is malformed)."
    )


def test_control_characters_are_escaped(database):
    command = [sys.executable, "-m", "text2sql", "sql", str(database), "SELECT 'é日'"]
    latin = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, env=latin, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "é\\u65e5".encode("latin-1") in done.stdout


def test_the_command_line_writes_no_escape_sequence_of_a_database(tmp_path, monkeypatch, capsys):
    database = tmp_path / "hostile.db"
    with sqlite3.connect(database) as connection:
        connection.executescript(
            "CREATE TABLE t (a); PRAGMA writable_schema = 1; INSERT INTO sqlite_master VALUES "
            "('table', '\x1b]0;x\x07\x9b2J', 't', 9, 'CREATE TABLE x (');"
        )
    connection.close()
    monkeypatch.setattr("sys.argv", ["text2sql", "sql", str(database), "SELECT 1"])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: {database}: the database is damaged")
    assert "\\x1b]0;x\\x07\\x9b2J" in shown and shown.strip().isprintable()


def test_sql_command_lists_its_exit_statuses():
    shown = CliRunner().invoke(sql_command, ["--help"]).stdout
    assert [line.split()[0] for line in shown.splitlines() if line[4:5].isdigit()] == list(
        "0123456"
    )
