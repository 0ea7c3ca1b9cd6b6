"""The sandbox on real SQLite files: what runs, what is refused, what ends, what stays."""

import asyncio
import contextlib
import gc
import hashlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sandbox import attacks
from tests.sandbox.attacks import CHANGES, STOPPED
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.sandbox import Limits, Sandbox, Status, check_database, classify, clean_sql
from text2sql.sandbox.channel import RUNNING, Channel
from text2sql.sandbox.worker.databases import Database, DatabaseCache
from text2sql.sandbox.worker.execution import Job, _read

TABLES = """
CREATE TABLE t (a INT, s TEXT);
INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, NULL);
CREATE TABLE u (id INTEGER PRIMARY KEY, t_a INT REFERENCES t (a));
INSERT INTO u VALUES (1, 1), (2, 3);
CREATE VIEW v AS SELECT s FROM t;
CREATE VIRTUAL TABLE docs USING fts5(title, body);
INSERT INTO docs VALUES ('hello', 'world');
CREATE VIRTUAL TABLE notes USING fts4(body);
INSERT INTO notes VALUES ('hello');
CREATE VIRTUAL TABLE geo USING rtree(id, x0, x1);
INSERT INTO geo VALUES (1, 2, 3);
"""

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
UNINTERRUPTIBLE = "SELECT instr(hex(zeroblob(4000000)), hex(zeroblob(2000000)) || '1')"


@pytest.fixture
def database(tmp_path):
    return build(tmp_path / "folder" / "shop.sqlite")


def build(path, script=TABLES):
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    connection.close()
    return path


def contents(folder):
    """Every file below a folder with the hash of its bytes and its time of change."""
    return {
        file.relative_to(folder): (
            hashlib.sha256(file.read_bytes()).hexdigest(),
            file.stat().st_mtime_ns,
        )
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def everything(folder):
    """The contents, and each folder's time of change, which a passing file would move."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    return contents(folder), {path: path.stat().st_mtime_ns for path in folders}


def rows(sandbox, database, sql, **kwargs):
    result = sandbox.execute(database, sql, Limits(keep_rows=100), **kwargs)
    assert result.status is Status.OK, result.error
    return list(result.rows)


# --- attempts to get out


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A folder with the database that is attacked and another one, and what they hold."""
    folder = tmp_path_factory.mktemp("target")
    build(folder / "db" / "main.sqlite")
    build(folder / "other" / "other.sqlite")
    return folder, everything(folder)


def aim(sql, folder):
    sql = sql.replace("{new}", str(folder / "db" / "new"))
    return sql.replace("{other}", str(folder / "other" / "other.sqlite"))


def test_every_change_in_every_disguise_is_a_write_and_changes_nothing(sandbox, target):
    folder, before = target
    missed = []
    for name, sql in attacks.disguised():
        database = folder / "db" / "main.sqlite"
        result = sandbox.execute(database, clean_sql(aim(sql, folder)), Limits(seconds=5))
        if result.status is not Status.WRITE:
            missed.append((name, result.status, result.error))
    assert missed == []
    assert everything(folder) == before
    assert len(CHANGES) >= 100


@pytest.mark.parametrize(
    ("sql", "expected"), [pytest.param(s, e, id=n) for n, s, e in attacks.ATTACKS]
)
def test_attack_ends_as_expected_and_changes_nothing(sandbox, target, sql, expected):
    folder, before = target
    database = folder / "db" / "main.sqlite"
    limits = Limits(seconds=0.5 if expected >= STOPPED else 20, memory_mb=400)
    result = sandbox.execute(database, aim(sql, folder), limits)
    assert result.status in expected, (result.status, result.error)
    assert result.status is Status.OK or 0 < len(result.error) < 2000
    assert everything(folder) == before
    assert rows(sandbox, database, "SELECT count(*) FROM t") == [(3,)]


FORMS = [
    *((sql, Status.WRITE) for sql in attacks.FOREIGN_WRITES),
    *((f"SELECT 1;\n-- read\n{sql};", Status.WRITE) for sql in attacks.FOREIGN_WRITES),
    *((sql, Status.ERROR) for sql in attacks.PROSE),
    *((sql, Status.OK) for sql in attacks.LIKE_WRITES),
]


def test_writes_in_other_dialects_are_writes_and_sentences_are_not(sandbox, target):
    folder, before = target
    texts = [(folder / "db" / "main.sqlite", aim(sql, folder)) for sql, _ in FORMS]
    found = [result.status for result in sandbox.execute_many(texts, Limits(seconds=20))]
    assert [pair for pair, status in zip(FORMS, found, strict=True) if pair[1] != status] == []
    assert everything(folder) == before


@pytest.mark.parametrize(
    "sql",
    [
        *("DELETE FROM t WHERE", "INSERT INTO t VALUES (", "UPDATE t SET a = 'x", "DROP TABLE"),
        *("DELETE FORM t", "UPDATE t SET", "TRUNCATE", "MERGE INTO t", "COPY t", "SELECT 1 INTO"),
        *("SELECT (DELETE)", "WITH d AS (DELETE) SELECT 1", "SELECT a FROM t INTO z WHERE 1"),
    ],
)
def test_incomplete_and_misspelt_statements_are_errors_in_any_dialect(sandbox, database, sql):
    assert sandbox.execute(database, sql).status is Status.ERROR


def test_a_refused_write_names_its_verb(sandbox, database):
    sql = "WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d"
    assert sandbox.execute(database, sql).error.startswith("refused: DELETE would change")
    assert "SELECT INTO would" in sandbox.execute(database, "SELECT * INTO z FROM t").error


def test_forms_take_linear_time_on_hostile_text():
    for part in ("(MERGE a USING ", "(UPDATE t JOIN ", "a INTO b ", "(INSERT INTO t, "):
        assert not classify("SELECT " + part * 25_000)[0].formed


@pytest.mark.parametrize(
    "sql", attacks.WRITES_WITH_BOMBS, ids=range(len(attacks.WRITES_WITH_BOMBS))
)
def test_a_write_around_a_bomb_is_a_write(sandbox, target, sql):
    result = sandbox.execute(target[0] / "db" / "main.sqlite", sql, Limits(1, memory_mb=400))
    assert result.status is Status.WRITE
    assert result.error.startswith("refused: ")


@pytest.mark.parametrize(
    ("script", "sql", "expected"), [pytest.param(c, s, e, id=n) for n, c, s, e in attacks.SCHEMAS]
)
def test_a_database_that_attacks_changes_nothing(sandbox, tmp_path, script, sql, expected):
    script = f"CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 2); {aim(script, tmp_path)} COMMIT;"
    script = f"PRAGMA writable_schema = 1; BEGIN; {script}"
    database = build(tmp_path / "folder" / "hostile.sqlite", script)
    before = everything(tmp_path)
    limits = Limits(seconds=0.5 if expected == STOPPED else 20)
    if expected is None:
        with pytest.raises(Text2SqlError, match="damaged") as refusal:
            sandbox.execute(database, sql, limits)
        assert len(str(refusal.value)) < 2000
    else:
        assert sandbox.execute(database, sql, limits).status in expected
    assert everything(tmp_path) == before


def test_hostile_statements_leave_no_state_for_the_next_query(sandbox, database):
    for sql in ("CREATE TEMP TABLE t (a)", "BEGIN", "PRAGMA query_only = 0", "ATTACH '' AS x"):
        assert sandbox.execute(database, sql).status is Status.WRITE
    assert rows(sandbox, database, "SELECT a FROM t ORDER BY a") == [(1,), (2,), (3,)]
    names = [row[1] for row in rows(sandbox, database, "PRAGMA database_list")]
    assert names == ["main"]


def test_clean_sql_takes_linear_time_on_hostile_text():
    suffix = "SELECT 1\t----- bird -----\t" + " " * 400_000 + "'"
    assert clean_sql(suffix) == suffix
    trap = "CREATE TRIGGER r AFTER INSERT ON t BEGIN " + ";" * 400_000
    assert clean_sql(f"{trap}```SELECT 1```").startswith("CREATE")
    assert clean_sql("'" * 400_000 + "```SELECT 1```") == "SELECT 1"


# --- reading statements


@pytest.mark.parametrize(
    ("sql", "verb", "writes"),
    [
        ("select 1", "SELECT", False),
        ("WITH a AS (SELECT 1) SELECT * FROM a", "SELECT", False),
        ("WITH a AS (SELECT 1) VALUES (1)", "VALUES", False),
        ("with a as (select 1) /* ( */ delete from t", "DELETE", True),
        ("WITH insert_ AS (SELECT 1), b(c) AS (SELECT ')') UPDATE t SET a = 1", "UPDATE", True),
        ("EXPLAIN DROP TABLE t", "EXPLAIN", False),
        ("explain query plan pragma journal_mode = wal", "EXPLAIN", True),
        ("PRAGMA table_info(t)", "PRAGMA", False),
        ("PRAGMA unheard_of", "PRAGMA", True),
        ("pragma user_version", "PRAGMA", False),
        ("pragma user_version = 1", "PRAGMA", True),
        ("vacuum", "VACUUM", True),
    ],
)
def test_classify_names_the_verb(sql, verb, writes):
    (statement,) = classify(sql)
    assert (statement.verb, statement.text, statement.writes) == (verb, sql, writes)


def test_classify_splits_as_sqlite_does():
    text = "SELECT ';'; /* ; */ ;; DROP TABLE \"a;b\" -- ;\n;\x00VALUES(1)"
    assert [s.text for s in classify(text)] == ["SELECT ';'", 'DROP TABLE "a;b"', "VALUES(1)"]
    trigger = "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; DELETE FROM t; END"
    assert [s.text for s in classify(f"{trigger}; SELECT 2")] == [trigger, "SELECT 2"]
    assert classify(" -- nothing\n;") == []


FRAGMENTS = (
    ("SELECT 1", "DELETE FROM t", "INSERT INTO t VALUES (1)", "UPDATE t SET a = 2", "DROP TABLE t"),
    ("CREATE TABLE z (a)", "CREATE TRIGGER r AFTER INSERT ON t", "BEGIN", "END", "COMMIT"),
    ("PRAGMA user_version = 4", "PRAGMA main.user_version(4)", "EXPLAIN", "EXPLAIN QUERY PLAN"),
    ("WITH x AS (SELECT 1)", ", y AS (SELECT 2)", "(", ")", "VALUES (1)", "REPLACE INTO t"),
    (";", "--", "\n", "/*", "*/", "'", '"', "[", "]", "`", " ", "\t", "\v", "\f", "\r", "\ufeff"),
    ("''", '""', "x'", "$", "@", ":", "#", "é", "1", ".", "-", "/", "*", "\\", "AS", "t"),
)
FRAGMENT = st.sampled_from([fragment for group in FRAGMENTS for fragment in group])


@settings(max_examples=3000, deadline=None)
@given(st.lists(FRAGMENT, max_size=12), st.sampled_from(["", " "]))
def test_statements_classified_as_reads_change_nothing_on_a_writable_connection(parts, glue):
    text = glue.join(parts)
    if any(statement.writes for statement in classify(text)):
        return
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE t (a)")
    connection.execute("INSERT INTO t VALUES (7)")
    with contextlib.suppress(sqlite3.Error):
        connection.executescript(text)
    assert not connection.in_transaction
    assert connection.execute("SELECT * FROM t").fetchall() == [(7,)]
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_invalid_limits_are_refused(seconds):
    with pytest.raises(Text2SqlError):
        Limits(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("SELECT COUNT(*) FROM t\t----- bird -----\tfinancial", "SELECT COUNT(*) FROM t"),
        ("SELECT 1\n\t----- bird -----\tcard_games\n", "SELECT 1"),
        ("SELECT 1\t----- bird -----\ta b \t----- bird -----\ta b\n", "SELECT 1"),
        ("SELECT '\t----- bird -----\ta'\t----- bird -----\ta", "SELECT '\t----- bird -----\ta'"),
        ("SELECT '----- bird -----'", "SELECT '----- bird -----'"),
        ("SELECT '\t----- bird -----\tx'", "SELECT '\t----- bird -----\tx'"),
        ("```sql\nSELECT 1\n```", "SELECT 1"),
        ("```SELECT 1```", "SELECT 1"),
        ("```SQLite\nSELECT 1;\n```", "SELECT 1;"),
        ("Here:\n```sql\nSELECT 1\n```\nGood luck.", "SELECT 1"),
        ("Update: see below\n```sql\nSELECT 1\n```\nEnd of the answer.", "SELECT 1"),
        ("Create a table of it: ```SELECT 1```", "SELECT 1"),
        ("TRUNCATE TABLE t; ```SELECT 1```", "TRUNCATE TABLE t; ```SELECT 1```"),
        ("SELECT `a` FROM `t`", "SELECT `a` FROM `t`"),
        ("DROP TABLE t; ```SELECT 1```", "DROP TABLE t; ```SELECT 1```"),
        ("Don't ```SELECT 1``` DROP TABLE t", "Don't ```SELECT 1``` DROP TABLE t"),
        ("/* ```SELECT 1``` */ DROP TABLE t", "/* ```SELECT 1``` */ DROP TABLE t"),
        ("Here's one: ```SELECT 1``` That's it.", "SELECT 1"),
        ("``` sql\nSELECT 1\n```", "SELECT 1"),
        ("```postgresql\nSELECT 1\n```", "SELECT 1"),
        ("```sql\nSELECT 1", "SELECT 1"),
        ("SELECT 1\n```", "SELECT 1"),
        ("```sql", ""),
        ("```", ""),
        ("SELECT '```' AS x", "SELECT '```' AS x"),
        ("SELECT 1 AS `a```", "SELECT 1 AS `a```"),
        ("DROP TABLE t; ```sql\nSELECT 1", "DROP TABLE t; ```sql\nSELECT 1"),
        (None, ""),
        (0, ""),
        ([], ""),
        ({}, ""),
        ("  ", ""),
    ],
)
def test_clean_sql(text, sql):
    assert clean_sql(text) == sql


def test_two_fenced_blocks_are_not_joined(sandbox, database):
    text = "Here: ```sql\nSELECT 1\n``` then ```sql\nSELECT 2\n```"
    assert sandbox.execute(database, clean_sql(text)).status is Status.ERROR


# --- results


def test_rows_columns_and_counts(sandbox, database):
    result = sandbox.execute(database, "SELECT a, s FROM t ORDER BY a", Limits(keep_rows=2))
    assert result.columns == ("a", "s")
    assert result.rows == ((1, "x"), (2, "y"))
    assert (result.row_count, result.complete) == (3, True)
    assert result.digest and result.multiset_digest and result.ordered_digest


def test_equal_column_names_are_kept(sandbox, database):
    result = sandbox.execute(database, "SELECT 1 AS k, 2 AS k", Limits(keep_rows=1))
    assert (result.columns, result.rows) == (("k", "k"), ((1, 2),))


def test_column_names_cannot_fill_the_memory(sandbox, database):
    wide = f'WITH w("{"c" * 45_000}") AS (SELECT 1) SELECT {"w.*, " * 1899}w.* FROM w'
    columns = sandbox.execute(database, wide).columns
    assert len(columns) == 1900 and sum(map(len, columns)) <= 100_000
    long = "c" * 45_000
    assert sandbox.execute(database, f'SELECT 1 AS "{long}"').columns == (long,)


def test_more_rows_than_allowed(sandbox, database):
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r"
    whole = sandbox.execute(database, endless, Limits(max_rows=10))
    assert (whole.status, whole.digest, whole.rows) == (Status.TOO_LARGE, "", ())
    assert "10 rows" in whole.error
    cut = sandbox.execute(database, endless, Limits(max_rows=10, keep_rows=3, cut=True))
    assert (cut.status, cut.complete, cut.row_count) == (Status.OK, False, 10)
    assert cut.rows == ((1,), (2,), (3,)) and cut.digest == ""
    exact = sandbox.execute(database, endless + " LIMIT 10", Limits(max_rows=10))
    assert (exact.status, exact.row_count) == (Status.OK, 10)


@pytest.mark.parametrize("limit", [{"max_rows": 20}, {"max_bytes": 100}])
def test_rows_beyond_a_limit_are_not_waited_for(sandbox, database, limit):
    """The 30th row takes for ever; a result that is cut before it is there at once."""
    sql = """
        WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 400)
        SELECT n, (WITH RECURSIVE e(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM e WHERE r.n >= 30)
                   SELECT count(*) FROM e) FROM r
    """
    cut = sandbox.execute(database, sql, Limits(seconds=5, keep_rows=50, cut=True, **limit))
    assert (cut.status, cut.complete) == (Status.OK, False)
    assert cut.rows[:2] == ((1, 1), (2, 1))


def test_more_bytes_than_allowed(sandbox, database):
    sql = "SELECT hex(zeroblob(1000)) FROM t"
    assert sandbox.execute(database, sql, Limits(max_bytes=3000)).status is Status.TOO_LARGE
    assert sandbox.execute(database, sql, Limits(max_bytes=7000)).status is Status.OK


def test_returned_rows_are_limited_and_large_real_cells_are_whole(sandbox, database):
    limits = Limits(keep_rows=50, max_bytes=20_000_000, cut=True)
    wide = "SELECT " + ", ".join(["hex(zeroblob(4900000))"] * 10)
    result = sandbox.execute(database, wide, limits)
    assert (result.status, result.rows, result.complete) == (Status.OK, (), False)
    two = sandbox.execute(database, "SELECT zeroblob(9000000) FROM t", limits)
    assert (len(two.rows), two.row_count, two.complete) == (2, 3, False)


def test_long_cells_of_real_databases_can_be_read(sandbox, tmp_path):
    big = "CREATE TABLE d (i, x TEXT, y BLOB);"
    big += "INSERT INTO d VALUES (1, printf('%.*c', 5000000, 'x'), zeroblob(3000000));"
    database = build(tmp_path / "big.sqlite", big)
    ((text, blob),) = rows(sandbox, database, "SELECT x, y FROM d")
    assert (len(text), len(blob)) == (5_000_000, 3_000_000)


def test_memory_limit(sandbox, database):
    sql = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 3000) "
    sql += "SELECT max(x) FROM (SELECT hex(randomblob(50000)) AS x FROM r ORDER BY x)"
    sql += " WHERE x IN (SELECT hex(randomblob(100000)) FROM r)"
    result = sandbox.execute(database, sql, Limits(seconds=30, memory_mb=150))
    assert result.status is Status.TOO_LARGE and "150 MB" in result.error
    assert rows(sandbox, database, "SELECT count(*) FROM t") == [(3,)]


def test_memory_used_by_earlier_queries_does_not_fail_a_query(tmp_path):
    long = "x" * 900_000
    tables = (f"CREATE TABLE f{n} (a DEFAULT '{long}');" for n in range(25))
    large = build(tmp_path / "large.sqlite", "".join(tables))
    names = [tmp_path / f"{n}.sqlite" for n in range(8)]
    for name in names:
        name.symlink_to(large)
    with Sandbox(1) as own:
        limits = Limits(memory_mb=220)
        results = [own.execute(name, "SELECT count(*) FROM f0", limits) for name in names]
    assert {result.status for result in results} == {Status.OK}, results


def test_text_that_is_not_utf8(sandbox, tmp_path):
    script = "CREATE TABLE t (a TEXT); INSERT INTO t VALUES (CAST(x'636166e9' AS TEXT));"
    database = build(tmp_path / "latin.sqlite", script)
    assert rows(sandbox, database, "SELECT a FROM t") == [("caf\ufffd",)]
    strict = sandbox.execute(database, "SELECT a FROM t", strict_text=True)
    assert strict.status is Status.ERROR and "UTF-8" in strict.error
    counted = sandbox.execute(database, "SELECT count(*) FROM t", strict_text=True)
    assert counted.status is Status.OK


def test_column_name_that_is_not_utf8(sandbox, tmp_path):
    database = tmp_path / "name.sqlite"
    build(database, "CREATE TABLE t (cafX TEXT, b); INSERT INTO t VALUES ('x', 1);")
    database.write_bytes(database.read_bytes().replace(b"cafX", b"caf\xe9"))
    result = sandbox.execute(database, "SELECT * FROM t")
    assert result.status is Status.ERROR and "UTF-8" in result.error
    assert rows(sandbox, database, "SELECT b FROM t") == [(1,)]
    names = rows(sandbox, database, "SELECT name FROM pragma_table_info('t')")
    assert names == [("caf\ufffd",), ("b",)]


@pytest.mark.parametrize(
    ("sql", "misspelt"),
    [
        ('SELECT "custmer_name" FROM t', ["custmer_name"]),
        ('SELECT * FROM t WHERE "typo_col" > 5 AND "a" > 0', ["typo_col"]),
        ('SELECT "x1", "x1", "y2" FROM t', ["x1", "y2"]),
        ('SELECT "a", t."s" FROM "t"', []),
        ('SELECT a AS "best one" FROM t ORDER BY "best one"', []),
        ("SELECT 'plain text' FROM t", []),
        ("SELECT '\"quoted\"' FROM t", []),
    ],
)
def test_misspelt_quoted_columns_give_a_warning(sandbox, database, sql, misspelt):
    result = sandbox.execute(database, sql)
    assert result.status is Status.OK
    assert [w.split('"')[1] for w in result.warnings] == misspelt
    assert sandbox.execute(database, sql, strict_text=True).warnings == ()


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT 's' FROM t", ["s"]),
        ("SELECT DISTINCT 'S' FROM t ORDER BY 'a' DESC", ["S", "a"]),
        ("SELECT s, count('a'), sum( 'a' ) FROM t GROUP BY 's'", ["a", "s"]),
        ("SELECT a FROM t WHERE s = 's' OR s IN ('s', 'a')", []),
        ("SELECT 's' || a, replace(s, 'a', 's'), 'other' FROM t", []),
        ("SELECT 'other', count('x') FROM t", []),
    ],
)
def test_columns_in_single_quotes_give_a_warning(sandbox, database, sql, columns):
    result = sandbox.execute(database, sql)
    assert [w.split("'")[1] for w in result.warnings] == columns
    assert sandbox.execute(database, sql, strict_text=True).warnings == ()


@pytest.mark.parametrize(("left", "told"), [(60, 1), (20, 0)])
def test_checking_quotes_does_not_make_a_result_late(database, left, told):
    sql = 'SELECT "nope" FROM t'
    job = Job(str(database), sql, False, *vars(Limits(seconds=60)).values())
    with contextlib.closing(Database(str(database))) as opened:
        opened.deadline = monotonic() + left
        result = _read(job, classify(sql)[0], opened)
    assert (result.status, len(result.warnings)) == (Status.OK, told)


# --- databases of any origin


@pytest.mark.parametrize(
    "name",
    [
        "sms#2024.db",
        "report%20final.db",
        "q?a.db",
        "c.db?mode=rwc&x=",
        "ünïcode ✓.db",
        "it's.db",
        "a;b.db",
        "-x.db",
    ],
)
def test_odd_paths(sandbox, tmp_path, name):
    database = build(tmp_path / name, "CREATE TABLE t (a); INSERT INTO t VALUES (42);")
    before = contents(tmp_path)
    assert rows(sandbox, database, "SELECT a FROM t") == [(42,)]
    assert contents(tmp_path) == before


def test_relative_path_and_symlink(sandbox, tmp_path, database, monkeypatch):
    monkeypatch.chdir(database.parent)
    assert rows(sandbox, Path("shop.sqlite"), "SELECT count(*) FROM t") == [(3,)]
    link = tmp_path / "link.sqlite"
    link.symlink_to(database)
    assert rows(sandbox, link, "SELECT count(*) FROM t") == [(3,)]


def test_a_link_that_moves_while_it_is_opened(tmp_path, database, monkeypatch):
    link, other = tmp_path / "link.sqlite", build(tmp_path / "other.sqlite")
    link.symlink_to(database)
    resolve = os.path.realpath

    def resolve_and_move(path):
        found = resolve(path)
        link.unlink()
        link.symlink_to(other)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(os.path, "realpath", resolve_and_move)
        opened = Database(str(link))
    with contextlib.closing(opened):
        assert not opened.is_current()
    with contextlib.closing(Database(str(link))) as again:
        assert again.is_current()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"PK\x03\x04" + b"x" * 5000, "compressed, .*; unpack it"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (b"\n<!doctype html>", "a web page"),
        (b"\xef\xbb\xbfcreate table t (a);", "SQL text; read it into a new database"),
        (b"\x00" * 8 + b"DUCK" + b"\x00" * 5000, "another program's file"),
        (b"\x00" * 8192, "begins with zeros"),
        (os.urandom(8192), "encrypted"),
        (b"SQLite format 3", "not a SQLite database"),
        (b"SQLite format 3\x00" + b"x" * 5000, "not a SQLite database"),
    ],
)
def test_files_that_are_not_databases(sandbox, tmp_path, content, words):
    path = tmp_path / "bad.sqlite"
    path.write_bytes(content)
    with pytest.raises(Text2SqlError, match=words):
        sandbox.execute(path, "SELECT 1")
    assert contents(tmp_path) and len(contents(tmp_path)) == 1


@pytest.mark.parametrize(
    ("place", "words"), [(44, "unsupported file format"), (18, "not a SQLite")]
)
def test_a_newer_file_format_is_not_a_query_error(sandbox, database, place, words):
    content = bytearray(database.read_bytes())
    content[place : place + 4] = b"\x00\x00\x00\x09" if place == 44 else b"\x09" * 4
    database.write_bytes(content)
    with pytest.raises(Text2SqlError, match=words):
        sandbox.execute(database, "SELECT a FROM t")


@pytest.mark.parametrize("view", ["SELECT group_concat(a ORDRE BY a) FROM t", "SELECT 1_0_x"])
def test_a_newer_schema_is_named_in_the_error(sandbox, tmp_path, view):
    script = f"""
    CREATE TABLE t (a); CREATE VIEW v AS SELECT 1; PRAGMA writable_schema = 1;
    UPDATE sqlite_master SET sql = 'CREATE VIEW v AS {view}' WHERE name = 'v'
    """
    database = build(tmp_path / "new.sqlite", script)
    with pytest.raises(Text2SqlError, match=r"newer SQLite than .* \(malformed .* \(v\)"):
        sandbox.execute(database, "SELECT a FROM t")


def test_a_relative_path_in_a_deleted_folder(sandbox, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    with pytest.raises(Text2SqlError, match="the current folder no longer exists"):
        sandbox.execute(Path("shop.sqlite"), "SELECT 1")
    tmp_path.mkdir()


def test_missing_folder_fifo_and_unreadable(sandbox, tmp_path):
    with pytest.raises(Text2SqlError, match="no database"):
        sandbox.execute(tmp_path / "nope.sqlite", "SELECT 1")
    with pytest.raises(Text2SqlError, match="folder"):
        sandbox.execute(tmp_path, "SELECT 1")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Text2SqlError, match="regular file"):
        check_database(tmp_path / "pipe")
    for device in ("/dev/zero", "/proc/kmsg", "/proc/self/mem"):
        with pytest.raises(Text2SqlError):
            check_database(Path(device))
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "device"])
def test_a_pipe_or_folder_beside_a_database_fails_at_once(sandbox, database, end, kind):
    path = database.with_name(database.name + end)
    with socket.socket(socket.AF_UNIX) as listener:
        {
            "pipe": os.mkfifo,
            "folder": Path.mkdir,
            "socket": lambda path: listener.bind(str(path)),
            "device": lambda path: path.symlink_to("/dev/zero"),
        }[kind](path)
        with pytest.raises(Text2SqlError, match=rf"{end} is not a regular file, .* move it away"):
            sandbox.execute(database, "SELECT count(*) FROM t", Limits(20))


def test_a_pipe_beside_a_database_in_use_fails_at_once(sandbox, tmp_path, owner):
    database = build(tmp_path / "d.sqlite")
    owner(database, "BEGIN IMMEDIATE")
    assert rows(sandbox, database, "SELECT count(*) FROM t") == [(3,)]
    os.mkfifo(tmp_path / "d.sqlite-journal")
    with pytest.raises(Text2SqlError, match="-journal is not a regular file"):
        sandbox.execute(database, "SELECT count(*) FROM t", Limits(20))


def test_damaged_and_truncated_database(sandbox, tmp_path):
    script = "CREATE TABLE t (a); WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r "
    script += "LIMIT 5000) INSERT INTO t SELECT printf('%.*c', 100, 'x') FROM r;"
    database = build(tmp_path / "cut.sqlite", script)
    size = database.stat().st_size
    with database.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * 8192)
    result = sandbox.execute(database, "SELECT count(a) FROM t WHERE a > ''")
    assert result.status is Status.INFRASTRUCTURE
    assert "malformed" in result.error and str(database) in result.error
    os.truncate(database, size // 2)
    with pytest.raises(Text2SqlError, match=r"damaged.*malformed"):
        sandbox.execute(database, "SELECT count(a) FROM t WHERE a > ''")


def test_wal_database_without_its_owner(sandbox, tmp_path):
    database = build(tmp_path / "w" / "wal.sqlite", "PRAGMA journal_mode=wal;" + TABLES)
    database.parent.chmod(0o555)
    before = contents(tmp_path)
    try:
        assert rows(sandbox, database, "SELECT count(*) FROM t") == [(3,)]
    finally:
        database.parent.chmod(0o755)
    assert contents(tmp_path) == before


OWNER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement)
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def owner():
    """Start other programs that have a database open and run statements on it."""
    started = []

    def start(database, *statements):
        command = [sys.executable, "-c", OWNER, str(database), *statements]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_wal_database_with_a_live_owner(sandbox, tmp_path, owner):
    database = build(tmp_path / "wal.sqlite")
    owner(database, "PRAGMA journal_mode=wal", "INSERT INTO t VALUES (4, 'w')")
    before = contents(tmp_path)
    assert set(before) == {Path("wal.sqlite"), Path("wal.sqlite-wal"), Path("wal.sqlite-shm")}
    assert rows(sandbox, database, "SELECT count(*) FROM t") == [(4,)]
    assert contents(tmp_path) == before


def test_a_log_that_disappears_while_its_database_is_opened(tmp_path, monkeypatch):
    """A program that closes its database last removes it between the look and the opening."""
    database = build(tmp_path / "wal.sqlite", "PRAGMA journal_mode=wal;" + TABLES)
    looks, look = [], Database._is_in_use
    monkeypatch.setattr(
        Database, "_is_in_use", lambda self: looks.append(1) or len(looks) == 1 or look(self)
    )
    cache = DatabaseCache()
    opened = cache.get(str(database), 8.0)
    assert opened.immutable and len(looks) == 2
    cache.clear()


def test_wal_left_by_a_killed_owner(sandbox, tmp_path, owner):
    database = build(tmp_path / "wal.sqlite")
    dead = owner(database, "PRAGMA journal_mode=wal", "INSERT INTO t VALUES (4, 'w')")
    dead.kill()
    dead.wait()
    before = contents(tmp_path)
    assert rows(sandbox, database, "SELECT count(*) FROM t") == [(4,)]
    assert contents(tmp_path) == before
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("wal.sqlite", "wal.sqlite-wal"):
        (copy / name).write_bytes((tmp_path / name).read_bytes())
    before = contents(copy)
    with pytest.raises(Text2SqlError, match="write-ahead log"):
        sandbox.execute(copy / "wal.sqlite", "SELECT count(*) FROM t")
    assert contents(copy) == before


def test_hot_journal_never_shows_uncommitted_rows(sandbox, tmp_path, owner):
    script = "CREATE TABLE t (a, b); WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 "
    script += "FROM r LIMIT 20000) INSERT INTO t SELECT n, printf('x%0100d', n) FROM r;"
    database = build(tmp_path / "h.sqlite", script)
    dead = owner(database, "PRAGMA cache_size = 5", "BEGIN", "UPDATE t SET b = 'y' || b")
    dead.kill()
    dead.wait()
    assert (tmp_path / "h.sqlite-journal").stat().st_size > 0
    before = contents(tmp_path)
    with pytest.raises(Text2SqlError, match="unfinished transaction"):
        sandbox.execute(database, "SELECT count(*) FROM t WHERE b LIKE 'y%'")
    assert contents(tmp_path) == before


def test_locked_database_is_infrastructure(sandbox, tmp_path, owner):
    database = build(tmp_path / "l.sqlite")
    owner(database, "PRAGMA journal_mode=persist", "BEGIN EXCLUSIVE", "DELETE FROM u")
    result = sandbox.execute(database, "SELECT 1 FROM t")
    assert result.status is Status.INFRASTRUCTURE and "locked" in result.error


@pytest.mark.parametrize("seconds", [0.2, 1, 20])
def test_a_lock_is_never_a_query_error(sandbox, tmp_path, owner, seconds):
    database = build(tmp_path / "l.sqlite")
    owner(database, "BEGIN EXCLUSIVE")
    result = sandbox.execute(database, "SELECT 1 FROM t", Limits(seconds))
    assert result.status is Status.INFRASTRUCTURE and "locked" in result.error


def test_a_slowly_opening_database_is_not_a_query_error(sandbox, tmp_path):
    database = build(tmp_path / "w.sqlite")
    (tmp_path / "w.sqlite-wal").write_bytes(b"no log" * 1000)
    (tmp_path / "w.sqlite-shm").write_bytes(bytes(32768))  # SQLite tries again for ten seconds
    before = everything(tmp_path)
    result = sandbox.execute(database, "SELECT 1 FROM t", Limits(0.5))
    assert result.status is Status.INFRASTRUCTURE
    assert result.error == f"{database}: the database could not be opened within 0.5 s"
    assert everything(tmp_path) == before


@pytest.mark.parametrize("mode", ["memory", "off"])
def test_an_open_transaction_without_a_journal_never_shows_its_rows(sandbox, tmp_path, owner, mode):
    script = "CREATE TABLE t (a, b); WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 "
    script += "FROM r LIMIT 20000) INSERT INTO t SELECT 1, printf('x%0100d', n) FROM r;"
    database = build(tmp_path / "m.sqlite", script)
    sql = "SELECT count(*) FROM t WHERE a > 1"
    assert rows(sandbox, database, sql) == [(0,)]
    settings = (f"PRAGMA journal_mode = {mode}", "PRAGMA cache_size = 5", "BEGIN")
    owner(database, *settings, "UPDATE t SET a = a + 1")
    result = sandbox.execute(database, sql, Limits(keep_rows=1))
    assert result.status is Status.INFRASTRUCTURE and "locked" in result.error


def test_a_transaction_of_this_process_keeps_its_locks(sandbox, tmp_path):
    database = build(tmp_path / "own.sqlite")
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as mine:
        mine.execute("BEGIN IMMEDIATE")
        assert rows(sandbox, database, "SELECT count(*) FROM t") == [(3,)]
        assert check_database(database) == database
        intruder = [sys.executable, "-c", OWNER.replace("isolation", "timeout=0, isolation")]
        found = subprocess.run(
            [*intruder, str(database), "BEGIN IMMEDIATE"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        assert b"database is locked" in found.stderr


def test_changes_by_the_owner_are_seen_at_once(sandbox, database):
    for count in range(4, 40):
        with sqlite3.connect(database) as connection:
            connection.execute("INSERT INTO t VALUES (?, 'z')", (count,))
        connection.close()
        assert rows(sandbox, database, "SELECT count(*) FROM t") == [(count,)]


def test_replaced_and_vanished_database(sandbox, database):
    assert rows(sandbox, database, "SELECT count(*) FROM t") == [(3,)]
    database.unlink()
    with pytest.raises(Text2SqlError, match="no database"):
        sandbox.execute(database, "SELECT count(*) FROM t")
    build(database, "CREATE TABLE t (a);")
    assert rows(sandbox, database, "SELECT count(*) FROM t") == [(0,)]


SLOW = "SELECT sum(length(x.b) + x.a) FROM t x, (SELECT 1 FROM t LIMIT 8) y"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: os.truncate(path, 0), "empty"),
        (lambda path: os.truncate(path, 8192), "damaged"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "is not a regular file"),
        (lambda path: (path.unlink(), path.mkdir()), "is not a regular file"),
        (Path.unlink, "No such file"),
        (lambda path: os.mkfifo(f"{path}-journal"), "-journal is not a regular file"),
    ],
)
def test_a_file_that_changes_while_it_is_read_is_never_a_query_error(
    sandbox, tmp_path, change, words
):
    script = "CREATE TABLE t (a, b); WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 "
    script += "FROM r LIMIT 100000) INSERT INTO t SELECT n, printf('x%0100d', n) FROM r;"
    database = build(tmp_path / "d.sqlite", script)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(sandbox.execute, database, SLOW, Limits(60))
        time.sleep(0.1)
        change(database)
        try:
            result = running.result()
        except Text2SqlError as error:
            assert words in str(error)
        else:
            assert result.status is Status.INFRASTRUCTURE and words in result.error


def test_owner_can_write_right_after_a_cut_query(sandbox, tmp_path):
    database = build(tmp_path / "o.sqlite")
    with sqlite3.connect(database, isolation_level=None, timeout=0.5) as mine:
        mine.execute("PRAGMA journal_mode=persist")
        mine.execute("DELETE FROM u")
        sql = "SELECT * FROM t, t t2, t t3"
        cut = sandbox.execute(database, sql, Limits(max_rows=2, cut=True))
        assert (cut.status, cut.complete) == (Status.OK, False)
        mine.execute("INSERT INTO t VALUES (9, 'z')")
    mine.close()


@pytest.mark.parametrize(
    ("script", "sql", "expected"),
    [
        (
            "CREATE TABLE base (a); CREATE VIEW bad AS SELECT * FROM gone;",
            "SELECT count(*) FROM base",
            [(0,)],
        ),
        (
            "CREATE TABLE wr (k TEXT PRIMARY KEY, v) WITHOUT ROWID;INSERT INTO wr VALUES ('a', 1);",
            "SELECT * FROM wr",
            [("a", 1)],
        ),
        (
            "CREATE TABLE rr (rowid TEXT, v); INSERT INTO rr VALUES ('r', 1);",
            "SELECT rowid FROM rr",
            [("r",)],
        ),
        (
            "CREATE TABLE g (a, b AS (a * 2)); INSERT INTO g (a) VALUES (4);",
            "SELECT b FROM g",
            [(8,)],
        ),
        ("CREATE TABLE s (a INT) STRICT; INSERT INTO s VALUES (4);", "SELECT a FROM s", [(4,)]),
        (
            "PRAGMA encoding = 'UTF-16'; CREATE TABLE t (a); INSERT INTO t VALUES ('é');",
            "SELECT a FROM t",
            [("é",)],
        ),
        (
            "CREATE TABLE t (a);PRAGMA writable_schema=1;INSERT INTO sqlite_master VALUES "
            "('table','m','m',0,'CREATE VIRTUAL TABLE m USING nosuchmodule(x)');",
            "SELECT count(*) FROM t",
            [(0,)],
        ),
    ],
)
def test_unusual_schemas(sandbox, tmp_path, script, sql, expected):
    database = build(tmp_path / "s.sqlite", script)
    assert rows(sandbox, database, sql) == expected


# --- time, processes, threads


@pytest.mark.parametrize("sql", [ENDLESS, UNINTERRUPTIBLE])
def test_the_deadline_is_enforced_and_other_queries_continue(sandbox, database, sql):
    with ThreadPoolExecutor(2) as threads:
        late = threads.submit(sandbox.execute, database, sql, Limits(seconds=0.4))
        while not late.done():
            assert rows(sandbox, database, "SELECT count(*) FROM t") == [(3,)]
        assert late.result().status is Status.TIMEOUT
        assert "0.4 s" in late.result().error
    assert rows(sandbox, database, "SELECT count(*) FROM t") == [(3,)]


def test_a_killed_worker_loses_no_query(database):
    with Sandbox(1) as own:
        assert rows(own, database, "SELECT 1") == [(1,)]
        (worker,) = own._alive
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
        assert rows(own, database, "SELECT 2") == [(2,)]


def test_the_death_of_an_idle_worker_is_not_counted_against_the_next_query(database):
    with Sandbox(1) as own, ThreadPoolExecutor(1) as threads:
        assert rows(own, database, "SELECT 1") == [(1,)]
        (idle,) = own._alive
        idle.process.kill()
        idle.process.wait()
        result = threads.submit(own.execute, database, ENDLESS, Limits(seconds=2))
        while not (busy := [w for w in own._alive - {idle} if w._state.read()[0] >= 0]):
            time.sleep(0.01)
        busy[0].process.kill()
        assert result.result().status is Status.TIMEOUT


def test_an_interrupt_while_a_worker_starts_leaves_no_process(database):
    with Sandbox(1) as own:
        main = threading.main_thread().ident
        ready = threading.Thread(target=interrupt_once_started, args=(own, main))
        ready.start()
        with pytest.raises(KeyboardInterrupt):
            own.execute(database, ENDLESS)
        ready.join()
        assert not own._alive
        assert rows(own, database, "SELECT 1") == [(1,)]


def interrupt_once_started(sandbox, thread):
    while not sandbox._alive:
        time.sleep(0.001)
    time.sleep(0.01)
    signal.pthread_kill(thread, signal.SIGINT)


@pytest.mark.parametrize(
    ("ending", "status"), [(signal.SIGKILL, Status.INFRASTRUCTURE), (signal.SIGSEGV, Status.ERROR)]
)
def test_a_query_during_which_workers_die_twice(database, ending, status):
    with Sandbox(1) as own, ThreadPoolExecutor(1) as threads:
        result = threads.submit(own.execute, database, ENDLESS, Limits(seconds=20))
        killed = set()
        while not result.done():
            for worker in list(own._alive):
                number, _, stage = worker._state.read()
                if worker.process.pid not in killed and number >= 0 and stage == RUNNING:
                    killed.add(worker.process.pid)
                    worker.process.send_signal(ending)
        assert result.result().status is status
        assert rows(own, database, "SELECT 1") == [(1,)]


def test_an_interrupt_does_not_wait_for_the_rest(database):
    with Sandbox(2) as own:
        main = threading.main_thread().ident
        threading.Timer(1, signal.pthread_kill, (main, signal.SIGINT)).start()
        started = monotonic()
        with pytest.raises(KeyboardInterrupt):
            own.execute_many([(database, f"{ENDLESS} -- {n}") for n in range(40)], Limits(3))
        assert monotonic() - started < 3
        assert rows(own, database, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("workers", [-1, 1_000_000_000])
def test_an_impossible_number_of_workers_is_refused(workers):
    with pytest.raises(Text2SqlError, match="1 to 1,000 workers"):
        Sandbox(workers)


def test_many_threads_share_the_workers(sandbox, database):
    def ask(number):
        return rows(sandbox, database, f"SELECT {number}, count(*) FROM t")

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(ask, range(300))) == [[(n, 3)] for n in range(300)]


def test_the_event_loop_stays_free(sandbox, database):
    async def both():
        late = asyncio.create_task(sandbox.aexecute(database, ENDLESS, Limits(seconds=0.5)))
        ticks = 0
        while not late.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return ticks, await late

    ticks, late = asyncio.run(both())
    assert ticks > 3 and late.status is Status.TIMEOUT


def test_a_cancelled_query_frees_its_worker(database):
    async def cancel_one():
        with Sandbox(1) as own:
            late = asyncio.create_task(own.aexecute(database, ENDLESS, Limits(seconds=600)))
            while own._idle.qsize():
                await asyncio.sleep(0.01)
            late.cancel()
            return await own.aexecute(database, "SELECT 1")

    assert asyncio.run(cancel_one()).status is Status.OK


def test_queries_waiting_while_a_sandbox_closes_fail(database):
    async def close_amid():
        own = Sandbox(1)
        asked = [asyncio.create_task(own.aexecute(database, ENDLESS)) for _ in range(3)]
        while own._idle.qsize():
            await asyncio.sleep(0.01)
        own.close()
        return await asyncio.gather(*asked, return_exceptions=True)

    assert ["closed" in str(error) for error in asyncio.run(close_amid())] == [True] * 3


def test_a_worker_that_reads_nothing_does_not_block_the_parent():
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(TimeoutError):
        Channel(ours).send("x" * 10_000_000, monotonic() + 0.1)


def test_close_ends_everything_and_may_be_repeated(database):
    own = Sandbox(2)
    assert rows(own, database, "SELECT 1") == [(1,)]
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(own.execute, database, ENDLESS, Limits(seconds=30))
        while len(own._alive) < 1 or own._idle.qsize() == 2:
            threading.Event().wait(0.01)
        workers = [worker.process for worker in own._alive]
        own.close()
        own.close()
        with pytest.raises(Text2SqlError, match="closed"):
            running.result()
    assert all(process.poll() is not None for process in workers)
    with pytest.raises(Text2SqlError, match="closed"):
        own.execute(database, "SELECT 1")


PARENT = """
import sys, threading, time
from pathlib import Path
from text2sql.sandbox import Limits, Sandbox
sandbox = Sandbox(2)
def run():
    sandbox.execute(Path(sys.argv[1]), sys.argv[2], Limits(seconds=60))
for _ in range(2):
    threading.Thread(target=run, daemon=True).start()
while len(sandbox._alive) < 2:
    time.sleep(0.01)
time.sleep(0.5)
print(*[worker.process.pid for worker in sandbox._alive], flush=True)
if sys.argv[3] == "hang":
    sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_workers_end_with_their_parent(database, how):
    mode = "hang" if how == "kill" else "exit"
    command = [sys.executable, "-c", PARENT, str(database), UNINTERRUPTIBLE, mode]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert len(workers) == 2
        if how == "kill":
            parent.kill()
        parent.wait(timeout=30)
        for _ in range(600):
            if not any(is_running(worker) for worker in workers):
                break
            threading.Event().wait(0.05)
        assert not any(is_running(worker) for worker in workers)


def is_running(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_forked_child_cannot_use_the_sandbox(database):
    with Sandbox(1) as own:
        assert rows(own, database, "SELECT 1") == [(1,)]
        child = os.fork()
        if child == 0:
            try:
                own.execute(database, "SELECT 1")
            except Text2SqlError as error:
                os._exit(7 if "another process" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert rows(own, database, "SELECT 1") == [(1,)]


def test_a_forked_child_closes_while_a_thread_of_the_parent_starts_a_worker(database):
    with Sandbox(1) as own:
        with own._lock:
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                own.close()
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert rows(own, database, "SELECT 1") == [(1,)]


DAEMON = """
import os, sys
from pathlib import Path
from text2sql.sandbox import Sandbox
said = os.dup(1)
for closed in map(int, sys.argv[2]):
    os.close(closed)
with Sandbox(1) as sandbox:
    os.write(said, sandbox.execute(Path(sys.argv[1]), "SELECT 1").status.encode())
"""


@pytest.mark.parametrize("closed", ["0", "01", "012"])
def test_a_daemon_without_standard_streams(database, closed):
    command = [sys.executable, "-c", DAEMON, str(database), closed]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == b"ok"


FEW_FILES = """
import resource, sys, tempfile
from pathlib import Path
from text2sql.sandbox import Sandbox
tempfile.tempdir = "/no/such/folder"
with Sandbox(1) as sandbox:
    print(sandbox.execute(Path(sys.argv[1]), "SELECT 1").status)
held = [open(sys.argv[1]) for _ in range(5)]
resource.setrlimit(resource.RLIMIT_NOFILE, (8, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
with Sandbox(1) as sandbox:
    sandbox.execute(Path(sys.argv[1]), "SELECT 1")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory with a name is Linux's")
def test_a_worker_needs_no_temporary_files_and_failing_to_start_is_an_error(database):
    command = [sys.executable, "-c", FEW_FILES, str(database)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "ok\n"
    last = done.stderr.splitlines()[-1]
    assert "InfrastructureError: A worker process cannot start: Too many open files. " in last


def test_running_out_of_threads_is_not_a_query_error(database, monkeypatch):
    def refused(thread):
        raise RuntimeError("can't start new thread")

    with Sandbox(2) as sandbox, monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        for run in (
            lambda: sandbox.execute_many([(database, f"SELECT {n}") for n in range(300)]),
            lambda: asyncio.run(sandbox.aexecute(database, "SELECT 1")),
        ):
            with pytest.raises(InfrastructureError, match=r"thread can start\. ulimit -a"):
                run()
        patch.undo()
        assert sandbox.execute(database, "SELECT 1").status is Status.OK


@pytest.mark.slow
def test_no_descriptor_or_memory_leaks(tmp_path):
    databases = [build(tmp_path / f"{n}.sqlite") for n in range(12)]
    queries = ["SELECT * FROM t", "DROP TABLE t", "SELECT nope", "SELECT 1; SELECT 2", ""]
    texts = [(databases[n % 12], f"{queries[n % 5]} -- {n % 3000}") for n in range(20_000)]
    with Sandbox(1) as own:
        measured = []
        for start in range(0, 20_000, 20):
            own.execute(*texts[start])
            own.execute_many(texts[start + 1 : start + 20])
            if start in (5_000, 19_980):
                (worker,) = own._alive
                measured.append(usage(worker.process.pid) + usage(os.getpid()))
    (files, memory, our_files, our_memory), after = measured
    assert (files, our_files) == (after[0], after[2])
    assert after[1] - memory < 20_000 and after[3] - our_memory < 20_000


def test_workers_that_are_killed_leave_no_descriptor(database):
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        for late in (True, False, True):
            with Sandbox(1) as own:
                own.execute(database, UNINTERRUPTIBLE if late else "SELECT 1", Limits(0.05))
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


def usage(process):
    status = Path(f"/proc/{process}/status").read_text()
    memory = int(status.split("VmRSS:")[1].split()[0])
    return len(os.listdir(f"/proc/{process}/fd")), memory
