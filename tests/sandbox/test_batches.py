"""Many queries at once: order, deadlines of each, and what a killed worker loses."""

import os
import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from text2sql.errors import Text2SqlError
from text2sql.sandbox import Limits, Sandbox, Status
from text2sql.sandbox.channel import OPENING, RUNNING, WRITING
from text2sql.sandbox.pool import Work
from text2sql.sandbox.process import BatchOutcome

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
UNINTERRUPTIBLE = "SELECT instr(hex(zeroblob(4000000)), hex(zeroblob(2000000)) || '1')"
REPLY = ("ok", (), (), 0, True, "d", "m", "o", "", 0.0, ())


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    for number in range(12):
        with sqlite3.connect(folder / f"{number}.sqlite") as connection:
            connection.execute("CREATE TABLE t AS SELECT ? AS a", (number,))
        connection.close()
    return [folder / f"{number}.sqlite" for number in range(12)]


def asked(databases, count):
    return [(databases[n % 12], f"SELECT a, {n} FROM t") for n in range(count)]


def expected(count):
    return [((n % 12, n),) for n in range(count)]


KEEP = Limits(seconds=20, keep_rows=5)


def test_slow_texts_start_first_and_few_wait_behind_them():
    plain = [f"SELECT {n}" for n in range(300)]
    joined = [f"SELECT {n} FROM a JOIN b JOIN c JOIN d" for n in range(5)]
    nested = ["SELECT * FROM t WHERE a = (SELECT 1)"] * 3
    nested += ["SELECT * FROM t JOIN u WHERE a = (SELECT max(a) FROM u)"] * 2
    work = Work([("db", sql) for sql in [*plain, *joined, *nested]], workers=2)
    batches = [work.take() for _ in range(3)]
    assert batches[:2] == [[308, 309, 305, 306], [307, 300, 301, 302]]
    assert len(batches[2]) == 64 and batches[2][:2] == [303, 304]


def test_results_come_in_the_order_of_the_texts(databases):
    with Sandbox(2) as sandbox:
        assert sandbox.execute_many([], KEEP) == []
        results = sandbox.execute_many(asked(databases, 500), KEEP)
        assert [result.rows for result in results] == expected(500)
        assert all(result.seconds > 0 for result in results)


def test_each_text_has_its_own_deadline_and_only_late_ones_are_lost(databases):
    texts = asked(databases, 120)
    late = {7: UNINTERRUPTIBLE, 8: ENDLESS, 60: UNINTERRUPTIBLE, 119: ENDLESS}
    for number, sql in late.items():
        texts[number] = (texts[number][0], sql)
    with Sandbox(2) as sandbox:
        results = sandbox.execute_many(texts, Limits(seconds=1.0, keep_rows=5))
        for number, result in enumerate(results):
            if number in late:
                assert result.status is Status.TIMEOUT and result.seconds >= 1.0
            else:
                assert result.rows == expected(120)[number]


def test_many_texts_may_take_longer_together_than_one_may_take(databases):
    slow = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 100000) "
    slow += "SELECT count(*) FROM r"
    with Sandbox(1) as sandbox:
        once = sandbox.execute(databases[0], slow, Limits(seconds=30)).seconds
        count = int(2.5 / once) + 1
        results = sandbox.execute_many([(databases[0], slow)] * count, Limits(seconds=2.0))
    assert [result.status for result in results] == [Status.OK] * count


def test_five_killed_workers_spoil_at_most_two_results(databases):
    killed = []
    with Sandbox(2) as sandbox, ThreadPoolExecutor(1) as threads:

        def kill_five():
            while len(killed) < 5:
                for worker in list(sandbox._alive)[:1]:
                    os.kill(worker.process.pid, signal.SIGKILL)
                    killed.append(worker)
                threading.Event().wait(0.3)

        killing = threads.submit(kill_five)
        while not killing.done():
            results = sandbox.execute_many(asked(databases, 1000), KEEP)
            spoilt = {n for n, r in enumerate(results) if r.status is Status.INFRASTRUCTURE}
            assert len(spoilt) <= 2  # those under which a worker died twice
            for number, (result, row) in enumerate(zip(results, expected(1000), strict=True)):
                assert number in spoilt or result.rows == row


def test_one_unreadable_database_fails_the_whole_call(databases, tmp_path):
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"SQLite format 3\x00" + b"x" * 5000)
    with Sandbox(2) as sandbox:
        with pytest.raises(Text2SqlError, match=r"damaged\.sqlite"):
            sandbox.execute_many([*asked(databases, 100), (damaged, "SELECT 1")])
        assert sandbox.execute(databases[3], "SELECT a FROM t", KEEP).rows == ((3,),)


def test_too_long_texts_are_refused_unread(databases):
    with Sandbox(1) as sandbox:
        long, short = sandbox.execute_many(
            [(databases[1], "SELECT 1 -- " + "x" * 1_000_000), (databases[1], "SELECT a FROM t")],
            KEEP,
        )
    assert long.status is Status.ERROR and "1,000,000 characters" in long.error
    assert short.rows == ((1,),)


def test_exactly_the_lost_texts_run_again():
    work = Work([("db", f"SELECT {n}") for n in range(8)], workers=1)
    batch = work.take()
    assert batch == [0, 1, 2, 3]
    work.settle(batch, BatchOutcome([REPLY], at=2, late=True), seconds=1)
    assert work.take() == [1, 3, 4]  # 1 had run, but its result was lost with the worker
    work.settle([1, 3, 4], BatchOutcome([], at=0, died=True), seconds=1)
    assert work.take() == [1, 3, 4]
    work.settle([1, 3, 4], BatchOutcome([], at=0, died=True), seconds=1)
    assert work.take() == [3, 4]
    work.settle([3, 4], BatchOutcome([REPLY, REPLY]), seconds=1)
    while batch := work.take():
        work.settle(batch, BatchOutcome([REPLY] * len(batch)), seconds=1)
    statuses = [result.status.value for result in work.results()]
    assert statuses == ["ok", "infrastructure", "timeout", "ok", "ok", "ok", "ok", "ok"]


@pytest.mark.parametrize(
    ("stage", "status", "words"),
    [
        (OPENING, Status.INFRASTRUCTURE, "db: opening it crashes SQLite"),
        (RUNNING, Status.ERROR, "the query crashes SQLite"),
        (WRITING, Status.WRITE, "refused: DROP"),
    ],
)
def test_the_result_of_a_crash_depends_on_its_stage(stage, status, words):
    work = Work([("db", "DROP TABLE t")], workers=1)
    for _ in range(2):
        work.settle(work.take(), BatchOutcome([], 0, died=True, crashed=True, stage=stage), 1.0)
    (result,) = work.results()
    assert result.status is status and result.error.startswith(words)
