"""Databases of other programs: odd names, locks, collations, functions and bytes."""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tests.support.agent_databases import ask, make_database
from text2sql.agent.settings import AgentSettings
from text2sql.agent.tools import Tools
from text2sql.errors import Text2SqlError
from text2sql.sandbox import Limits, Status

LOCKING = """
import sqlite3, sys, time
handle = sqlite3.connect(sys.argv[1], isolation_level=None)
handle.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
handle.execute("COMMIT")
"""


@pytest.fixture
def call(sandbox):
    def run(database, name, **arguments):
        tools = Tools(ask(database), sandbox, AgentSettings())
        return asyncio.run(tools.call(name, arguments))

    return run


def test_only_a_to_z_are_folded_in_names(call, tmp_path):
    script = 'CREATE TABLE Cust(ID); CREATE TABLE "Été"(a); CREATE TABLE "STRASSE"(a);'
    database = make_database(tmp_path / "t.db", script)
    assert call(database, "sample_rows", table="cUST").startswith("ID")
    assert call(database, "sample_rows", table="Été").startswith("a")
    for name in ("été", "ÉTÉ"):
        told = call(database, "sample_rows", table=name)
        assert told.startswith(f"error: no table named {name}; did you mean Été?")
    assert "did you mean" not in call(database, "inspect_schema", table="straße")


def test_names_are_never_cut_inside(call, tmp_path):
    names = [f"a_rather_long_name_of_a_table_number_{number}" for number in range(60)]
    database = make_database(tmp_path / "t.db", "".join(f"CREATE TABLE {n}(a);" for n in names))
    shown = call(database, "sample_rows", table="zzz").partition("tables: ")[2]
    listed, _, more = shown.rpartition(" and ")
    assert set(listed.split(", ")) <= set(names)
    assert more == f"{60 - len(listed.split(', '))} more"


@pytest.mark.parametrize("locked, status", [(0.8, Status.OK), (8, Status.INFRASTRUCTURE)])
def test_the_lock_of_another_program_is_waited_for(sandbox, tmp_path, locked, status):
    database = make_database(tmp_path / "t.db", "CREATE TABLE t(a)")
    command = [sys.executable, "-c", LOCKING, str(database), str(locked)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        limits = Limits(lock_seconds=5.0 if status is Status.OK else 0.2)
        found = sandbox.execute(database, "SELECT count(*) FROM t", limits)
        other.kill()
    assert found.status is status
    if status is not Status.OK:
        assert "another program is writing it, and this query waited 0.2 s" in found.error


def test_how_long_to_wait_for_a_lock_is_a_setting(monkeypatch):
    assert Limits().lock_seconds == 5
    monkeypatch.setenv("TEXT2SQL_LOCK_SECONDS", "12.5")
    assert Limits().lock_seconds == 12.5
    for wrong in ("soon", "-1", "nan", "1e9"):
        monkeypatch.setenv("TEXT2SQL_LOCK_SECONDS", wrong)
        with pytest.raises(Text2SqlError, match=r"TEXT2SQL_LOCK_SECONDS is '.*': give seconds"):
            Limits()


def test_what_the_application_of_a_database_defines_is_named(call, tmp_path):
    file = tmp_path / "t.db"
    with closing(sqlite3.connect(file)) as handle:
        handle.create_collation("localized", lambda a, b: (a > b) - (a < b))
        handle.create_function("slug", 1, str)
        handle.executescript(
            "CREATE TABLE ch(name TEXT COLLATE localized PRIMARY KEY, v);"
            "INSERT INTO ch VALUES ('a', 1);"
            "CREATE TABLE wr(name TEXT COLLATE localized PRIMARY KEY, v) WITHOUT ROWID;"
            "CREATE VIEW sv AS SELECT slug(v) AS s FROM ch;"
        )
    schema = call(file, "inspect_schema").splitlines()
    needs = 'the count needs the collation "localized", which this program does not have'
    assert needs in schema[0] and needs in schema[1]
    assert schema[2] == "sv broken: no such function: slug"
    assert needs in call(file, "inspect_schema", table="ch")
    told = call(file, "run_sql", sql="SELECT COUNT(*) FROM ch")
    assert "read the rows without comparing, sorting or counting by it" in told
    assert call(file, "run_sql", sql="SELECT v FROM ch") == "v\n1\n(1 row)"
    assert "needs a collation that this program" in call(file, "sample_rows", table="wr")


def test_a_function_of_a_newer_sqlite_is_named_with_its_version(call, tmp_path):
    database = make_database(tmp_path / "t.db", "CREATE TABLE t(a)")
    told = call(database, "run_sql", sql="SELECT unistr('a')")
    if sqlite3.sqlite_version_info < (3, 50):
        assert told == (
            "error: no such function: unistr (SQLite 3.50 has it, this is "
            f"{sqlite3.sqlite_version})"
        )
    told = call(database, "run_sql", sql="SELECT nope('a')")
    assert told == "error: no such function: nope"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 WHERE " + " OR ".join(["1 = 2"] * 600),
        " UNION ALL ".join(["SELECT 1"] * 300),
        f"SELECT 'a' LIKE '{'a' * 2000}'",
        f"SELECT '{'x' * 150_000}'",
    ],
)
def test_what_runs_in_sqlite_runs_here(sandbox, tmp_path, sql):
    database = make_database(tmp_path / "t.db", "CREATE TABLE t(a)")
    with closing(sqlite3.connect(database)) as stock:
        expected = stock.execute(sql).fetchall()
    found = sandbox.execute(database, sql, Limits(keep_rows=1000))
    assert (found.status, list(found.rows)) == (Status.OK, expected)


def test_replaced_bytes_are_counted_and_named(call, tmp_path):
    script = "CREATE TABLE t(a); INSERT INTO t VALUES (CAST(x'4D6F6EE97465' AS TEXT)), ('\ufffd');"
    database = make_database(tmp_path / "t.db", script)
    shown = call(database, "run_sql", sql="SELECT a FROM t").splitlines()
    assert shown[:3] == ["a", "Mon\ufffdte", "\ufffd"]
    assert "1 cell is not UTF-8 (byte E9)" in shown[-1]
    assert "not UTF-8" not in call(database, "run_sql", sql="SELECT a FROM t WHERE rowid = 2")
