"""Results of earlier runs are used exactly where they must be the same."""

import os
import sqlite3

import pytest

from text2sql.errors import Text2SqlError
from text2sql.evaluation.predictions.score import score_predictions
from text2sql.judge import known_results
from text2sql.judge.known_results import KnownResults, execute_known
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox, Status, is_repeatable

LIMITS = Limits(seconds=10)
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"


@pytest.fixture(autouse=True)
def fine_clock(monkeypatch):
    monkeypatch.setattr(known_results, "_CLOCK_TICK_NS", 0)


@pytest.fixture
def closed():
    """A sandbox that runs nothing: what it seems to answer was known."""
    ended = Sandbox(1)
    ended.close()
    return ended


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "shop.sqlite"
    change(path, "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)")
    return path


def change(path, script):
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    connection.close()


@pytest.fixture
def known(tmp_path):
    opened = KnownResults(tmp_path / "cache")
    yield opened
    opened.close()


def run(database, sandbox, known, *texts, limits=LIMITS):
    return execute_known([(database, sql) for sql in texts], sandbox, limits, known)


def comparable(results):
    return [(r.status, r.row_count, r.digest, r.ordered_digest, r.error) for r in results]


KEPT = ["SELECT a FROM t", "SELECT nope", "DROP TABLE t", "-- nothing", "SELECT '\ud800'"]


def test_the_next_run_uses_stored_results(sandbox, database, known, closed, tmp_path):
    first = run(database, sandbox, known, *KEPT)
    assert [r.status for r in first] == ["ok", "error", "write", "no_statement", "error"]
    later = KnownResults(tmp_path / "cache")
    assert comparable(run(database, closed, later, *KEPT)) == comparable(first)
    later.close()


def test_a_copy_of_the_database_is_the_same_database(sandbox, database, known, tmp_path):
    first = run(database, sandbox, known, "SELECT a FROM t")
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(database.read_bytes())
    assert known.fingerprint(copy, sandbox) == known.fingerprint(database, sandbox)
    assert comparable(run(copy, sandbox, known, "SELECT a FROM t")) == comparable(first)


def test_a_changed_database_is_queried_again(sandbox, database, known, closed):
    assert run(database, sandbox, known, "SELECT a FROM t")[0].row_count == 2
    state = database.stat()
    change(database, "UPDATE t SET a = 7 WHERE a = 2; INSERT INTO t VALUES (3)")
    os.utime(database, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert database.stat().st_size == state.st_size
    with pytest.raises(Text2SqlError, match="closed"):
        run(database, closed, known, "SELECT a FROM t")
    assert run(database, sandbox, known, "SELECT a FROM t")[0].row_count == 3


@pytest.mark.parametrize("limits", [Limits(seconds=9), Limits(seconds=10, max_rows=1)])
def test_other_limits_have_their_own_results(sandbox, database, known, closed, limits):
    run(database, sandbox, known, "SELECT a FROM t")
    with pytest.raises(Text2SqlError, match="closed"):
        run(database, closed, known, "SELECT a FROM t", limits=limits)


@pytest.mark.parametrize(
    ("sql", "limits"),
    [
        (ENDLESS, Limits(seconds=0.2)),
        ("SELECT zeroblob(2000000000)", LIMITS),
        ("SELECT a FROM t", Limits(max_rows=1)),
        ("SELECT a FROM t", Limits(max_rows=1, cut=True)),
        ("SELECT random() FROM t", LIMITS),
        ("SELECT date('now') FROM t", LIMITS),
    ],
)
def test_results_that_may_change_are_never_stored(sandbox, database, known, closed, sql, limits):
    run(database, sandbox, known, sql, limits=limits)
    with pytest.raises(Text2SqlError, match="closed"):
        run(database, closed, known, sql, limits=limits)


def test_a_database_in_use_or_with_a_clock_in_a_view_is_never_cached(sandbox, database, known):
    assert known.fingerprint(database, sandbox)
    (database.parent / "shop.sqlite-wal").write_bytes(b"")
    assert known.fingerprint(database, sandbox) == ""
    (database.parent / "shop.sqlite-wal").unlink()
    change(database, "CREATE VIEW v AS SELECT a, date('now') AS today FROM t")
    assert known.fingerprint(database, sandbox) == ""
    assert run(database, sandbox, known, "SELECT a FROM v")[0].row_count == 2


def test_a_change_between_hash_and_query_is_not_stored_under_the_old_content(
    sandbox, database, known, monkeypatch
):
    find, before = known.find, database.read_bytes()

    def find_late(keys):
        change(database, "INSERT INTO t VALUES (3)")
        return find(keys)

    monkeypatch.setattr(known, "find", find_late)
    assert run(database, sandbox, known, "SELECT a FROM t")[0].row_count == 3
    monkeypatch.setattr(known, "find", find)
    database.write_bytes(before)
    assert run(database, sandbox, known, "SELECT a FROM t")[0].row_count == 2


def test_results_of_a_database_that_just_changed_are_never_stored(
    sandbox, database, known, monkeypatch
):
    monkeypatch.setattr(known_results, "_CLOCK_TICK_NS", 3_600_000_000_000)
    assert known.fingerprint(database, sandbox) == ""
    assert run(database, sandbox, known, "SELECT a FROM t")[0].row_count == 2


def test_another_build_of_sqlite_has_its_own_results(sandbox, database, known, closed, monkeypatch):
    run(database, sandbox, known, "SELECT sqrt(a) FROM t")
    monkeypatch.setattr(known_results, "_sqlite", lambda: [sqlite3.sqlite_version, "OMIT_MATH"])
    with pytest.raises(Text2SqlError, match="closed"):
        run(database, closed, known, "SELECT sqrt(a) FROM t")


def test_equal_texts_run_once_unless_chance_decides(sandbox, database):
    slow = ENDLESS.replace("FROM r)", "FROM r LIMIT 400000)")
    once = run(database, sandbox, None, slow)[0].seconds
    results = run(database, sandbox, None, *[slow] * 40, "SELECT a FROM t")
    assert results[0].seconds > once / 10 and len({id(result) for result in results[:40]}) == 1
    random = run(database, sandbox, None, *["SELECT random()"] * 20)
    assert len({result.digest for result in random}) == 20


def test_a_cache_file_that_is_not_a_database_is_an_error(tmp_path):
    (tmp_path / "results.sqlite").write_text("not a database, just some text " * 100)
    with pytest.raises(Text2SqlError, match=r"results\.sqlite.*Delete the file"):
        KnownResults(tmp_path)
    with pytest.raises(Text2SqlError, match="cannot be used"):
        KnownResults(tmp_path / "results.sqlite")


def test_the_oldest_results_are_dropped_first(sandbox, database, known, closed, monkeypatch):
    monkeypatch.setattr(known_results, "_MOST", 3)
    run(database, sandbox, known, *[f"SELECT {n}" for n in range(3)])
    run(database, sandbox, known, "SELECT 3")
    assert run(database, closed, known, "SELECT 1", "SELECT 2", "SELECT 3")[2].status is Status.OK
    with pytest.raises(Text2SqlError, match="closed"):
        run(database, closed, known, "SELECT 0")


def test_scores_are_the_same_from_stored_results(sandbox, database, known, closed):
    sql = ["SELECT a FROM t", "SELECT 5", "DROP TABLE t", "SELECT nope", ""]
    gold = "SELECT a FROM t ORDER BY a DESC"
    questions = [Question(f"dev/{n}", "shop", database, "?", sql=gold) for n in range(5)]
    predictions = {f"dev/{n}": text for n, text in enumerate(sql)}
    plain = score_predictions(questions, predictions, sandbox, LIMITS)
    assert score_predictions(questions, predictions, sandbox, LIMITS, known=known) == plain
    assert score_predictions(questions, predictions, closed, LIMITS, known=known) == plain
    verdicts = [item.verdict for item in plain.scored]
    assert verdicts == ["match", "wrong", "write", "error", "no_submission"]


@pytest.mark.parametrize(
    ("sql", "repeatable"),
    [
        ("SELECT a FROM t", True),
        ("SELECT strftime('%Y', birthday) FROM t", True),
        ("SELECT date(d), julianday(d) - julianday(e), time(a, '+1 day') FROM t", True),
        ("SELECT birthdate, known FROM t WHERE timeline = 'Snow'", True),
        ("SELECT update_date FROM t", True),
        ("SELECT random()", False),
        ("SELECT a FROM t ORDER BY RANDOM ( ) LIMIT 1", False),
        ("SELECT hex(randomblob(4))", False),
        ("SELECT CURRENT_TIMESTAMP", False),
        ("SELECT strftime('%Y', CURRENT_DATE) - strftime('%Y', b) FROM t", False),
        ("SELECT date('NOW')", False),
        ("SELECT date('now', '-1 day')", False),
        ('SELECT date("now")', False),
        ("SELECT date()", False),
        ("SELECT datetime ( /* nothing */ )", False),
        ("SELECT unixepoch()", False),
        ("SELECT strftime('%Y')", False),
        ("SELECT strftime('%Y', (SELECT max(a, b) FROM t))", True),
        ("SELECT date(a, 'localtime') FROM t", False),
        ("SELECT date((a)), strftime('(', (a)) FROM t", True),
        ("SELECT " + "date(" * 1_600 + "a" + ")" * 1_600, True),
        ("SELECT " + "date(" * 1_600 + ")" * 1_600, False),
        ("SELECT max(strftime('%Y', date(a)), strftime(',')) FROM t", False),
        ("PRAGMA database_list", False),
        ("SELECT * FROM pragma_database_list", False),
        ('SELECT * FROM "pragma_database_list"', False),
        ('SELECT "random"()', False),
        ("SELECT date('n' || 'ow')", False),
        ("SELECT date(substr('know', 2))", False),
        ("SELECT date(lower(a)) FROM t", False),
        ("SELECT date(char(110, 111, 119))", False),
        ("SELECT date(CAST(x'6e6f77' AS TEXT))", False),
        ("SELECT date(j -> '$[0]') FROM t", False),
        ("SELECT date(value) FROM json_each('[\"now\"]')", False),
        ("SELECT date(n) FROM (SELECT 'n' || 'ow' AS n)", False),
        ("WITH c AS (SELECT replace('nxw', 'x', 'o') AS n) SELECT \"date\"(n) FROM c", False),
        ("SELECT unixepoch('subsec')", False),
        ("SELECT a || b, lower(a) FROM t WHERE birthdate > 4", True),
        ("SELECT CAST(sum(strftime('%Y', a) > 1) AS REAL) * 100 / count(*) FROM t", True),
        ("SELECT a FROM t WHERE strftime('%Y', d) IN (SELECT max(e) FROM u) AND (a - b) > 1", True),
    ],
)
def test_is_repeatable(sql, repeatable):
    assert is_repeatable(sql) is repeatable
