"""The reporting tables, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import math
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from tests.support.reporting_databases import (
    own_postgresql,
    own_schema,
    postgresql_server,
    reporting_url,
    save,
    upgrade_tables,
)
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.reporting.delivery.entries import read_entry
from text2sql.reporting.delivery.page import render_page
from text2sql.reporting.model.answer import AnswerStatus, Change, NewAnswer, SampledQuery
from text2sql.reporting.model.question import Expectations, ReportQuestion
from text2sql.reporting.model.values import result_table, safe_name, safe_names
from text2sql.reporting.tables import database, location, views, writing
from text2sql.reporting.tables import schema as tables
from text2sql.reporting.tables.location import URL_VARIABLE, reporting_place
from text2sql.reporting.tables.questions import QuestionTable
from text2sql.reporting.tables.store import ReportingStore
from text2sql.sandbox.results import ResultDigest

__all__ = ["own_postgresql", "postgresql_server", "reporting_url"]
MONDAY = datetime(2026, 3, 2, 6, tzinfo=UTC)
TUESDAY = MONDAY + timedelta(days=1)
WEDNESDAY = MONDAY + timedelta(days=2)


def ask(id: str = "q1", **fields) -> ReportQuestion:
    defaults = {"question": "How many shops?", "database": "shop"}
    return ReportQuestion(id=id, **(defaults | fields))


def answered(
    question, at=MONDAY, labels=("n",), rows=((1,),), sql="SELECT 1", **fields
) -> NewAnswer:
    table = result_table(labels, rows, fields.pop("total", len(rows)))
    content = ResultDigest()
    content.add(rows)
    defaults = {"digest": content.digests()[-1], "share": 1.0, "votes": 8}
    return NewAnswer(question, at, AnswerStatus.ANSWERED, sql, table, **(defaults | fields))


def failed(question, at=MONDAY, error="server down") -> NewAnswer:
    return NewAnswer(question, at, AnswerStatus.ERROR, error=error)


@pytest.fixture
def store(reporting_url):
    with ReportingStore(reporting_url) as store:
        save(store, ask(), ask("q2"), ask("q3"))
        yield store


def count(store: ReportingStore, table: sa.Table) -> int:
    with store.engine.connect() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(table))


def query(store: ReportingStore, sql: str) -> list:
    """Read with plain SQL, as a BI tool does."""
    with store.engine.connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(sql)]


def run_sql(store: ReportingStore, sql: str) -> None:
    """Change the database as its owner does."""
    with store.writing() as connection:
        connection.exec_driver_sql(sql)


def view_rows(store: ReportingStore, question_id: str = "q1", what: str = "*") -> list:
    return query(store, f'SELECT {what} FROM "answer_{safe_name(question_id)}"')


# -- one row for each question and instant


def test_an_answer_written_twice_is_one_row(store):
    first = store.write_answer(answered(ask(), rows=[(1,), (2,)]))
    second = store.write_answer(answered(ask(), rows=[(3,)]))
    assert second.id == first.id
    assert second.attempts == 2
    assert second.created_at == first.created_at
    assert count(store, tables.answers) == 1
    assert store.rows(second) == [{"n": 3}]


def test_two_instants_with_the_same_wall_clock_are_two_rows(store):
    berlin = ZoneInfo("Europe/Berlin")
    for fold in (0, 1):
        at = datetime(2026, 10, 25, 2, tzinfo=berlin, fold=fold)
        store.write_answer(answered(ask(), at))
    instants = [answer.scheduled_at for answer in store.history("q1")]
    assert instants == [datetime(2026, 10, 25, hour, tzinfo=UTC) for hour in (1, 0)]


def test_an_answer_to_an_unknown_question_is_refused(store):
    with pytest.raises(Text2SqlError, match="'nobody' is not in the reporting tables"):
        store.write_answer(answered(ask("nobody")))


# -- values


def test_infinities_are_stored_alike_and_come_back(store):
    stored = store.write_answer(answered(ask(), labels=["x"], rows=[(math.inf,), (-math.inf,)]))
    assert store.rows(stored) == [{"x": math.inf}, {"x": -math.inf}]
    with store.engine.connect() as connection:
        cells = connection.execute(sa.select(tables.answer_rows.c.cells)).scalars().all()
        marks = connection.execute(sa.select(tables.answer_rows.c.marks)).scalars().all()
    assert cells == [{"x": "Infinity"}, {"x": "-Infinity"}]
    assert marks == [{"x": "float"}] * 2
    assert view_rows(store, what="x") == [(math.inf,), (-math.inf,)]


def test_every_kind_of_value_survives(store):
    row = (2**63 - 1, -(2**63), b"abc", 1.5, None, "ünï 'q' \"d\"", "", 0.1, 12)
    labels = list("abcdefghi")
    stored = store.write_answer(answered(ask(), labels=labels, rows=[row]))
    assert store.rows(stored) == [dict(zip(labels, row, strict=True))]
    assert view_rows(store, what="a, b, d, e, f, i") == [
        (2**63 - 1, -(2**63), 1.5, None, "ünï 'q' \"d\"", 12)
    ]


def test_text_that_postgresql_cannot_store_is_replaced_and_marked(store):
    rows = [("a\x00b",), ("\ud800",), ("😀",)]
    stored = store.write_answer(answered(ask(), labels=["t"], rows=rows, sql="SELECT 'a\x00b'"))
    assert store.rows(stored) == [{"t": "a␀b"}, {"t": "\ufffd"}, {"t": "😀"}]
    assert stored.sql == "SELECT 'a␀b'"
    assert view_rows(store, what="t") == [("a␀b",), ("\ufffd",), ("😀",)]


def test_json_can_be_read_with_plain_sql_whatever_is_in_it(store):
    """PostgreSQL stores a NUL that is written as an escape, and then cannot read it as text."""
    save(store, ask("nul", expectations=Expectations(("a\x00b", "\\u0000", "\\\x00"))))
    (found,) = query(store, "SELECT expectations ->> 'columns' FROM questions WHERE id = 'nul'")
    assert json.loads(found[0]) == ["a␀b", "\\u0000", "\\␀"]


def test_long_cells_are_cut_and_marked(store):
    stored = store.write_answer(answered(ask(), labels=["t"], rows=[("x" * 300_000,)]))
    assert [len(row["t"]) for row in store.rows(stored)] == [100_000]
    with store.engine.connect() as connection:
        assert connection.scalar(sa.select(tables.answer_rows.c.marks)) == {"t": "cut"}


def test_long_blobs_are_cut_and_stay_blobs(store):
    blobs = [(b"\x00\xff" * 100_000,), (b"\x00\xff",)]
    stored = store.write_answer(answered(ask(), labels=["b"], rows=blobs))
    assert store.rows(stored) == [{"b": b"\x00\xff" * 50_000}, {"b": b"\x00\xff"}]


def test_columns_with_one_name_keep_their_values(store):
    stored = store.write_answer(answered(ask(), labels=["k", "K", "k_2", ""], rows=[(1, 2, 3, 4)]))
    assert store.rows(stored) == [{"k": 1, "k_2": 2, "k_2_2": 3, "column_4": 4}]
    assert [column.label for column in stored.columns] == ["k", "K", "k_2", ""]
    assert view_rows(store, what="k, k_2, k_2_2, column_4") == [(1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("COUNT(*)", "count"),
        ("2024 total", "_2024_total"),
        ('a"; DROP TABLE answers; --', "a_drop_table_answers"),
        ("%s :name $1", "s_name_1"),
        ("Größe", "größe"),
        ("銷售額", "銷售額"),
        ("***", "column_1"),
        ("x" * 200, "x" * 40),
        ("answer_id", "answer_id"),
    ],
)
def test_names_are_made_safe(store, label, name):
    assert safe_names([label]) == [name]
    store.write_answer(answered(ask(), labels=[label], rows=[(7,)]))
    assert view_rows(store, what=f'"{name}"') == [(7,)]


def test_rows_beyond_the_cap_are_counted(store):
    stored = store.write_answer(answered(ask(), rows=[(1,), (2,)], total=1_000_000))
    assert (stored.row_count, stored.rows_kept) == (1_000_000, 2)


def test_text_is_data(store):
    text = "x'); DROP TABLE answers;-- :name 100% %s $1 {} \\"
    question = ask("q5", question=text, evidence=text)
    save(store, question)
    stored = store.write_answer(answered(question, sql="SELECT ':What' LIKE '%s' -- 100%"))
    assert stored.question == stored.evidence == text
    assert stored.sql == "SELECT ':What' LIKE '%s' -- 100%"
    assert QuestionTable(store).get("q5").question == question


def test_none_in_a_json_column_is_null(store):
    store.write_answer(failed(ask()))
    assert query(store, "SELECT count(*) FROM answers WHERE columns IS NULL") == [(1,)]


# -- instants


def test_instants_are_utc_on_both_databases(store):
    tokyo = timezone(timedelta(hours=9))
    stored = store.write_answer(answered(ask(), datetime(2026, 3, 1, 1, 30, tzinfo=tokyo)))
    assert stored.scheduled_at == datetime(2026, 2, 28, 16, 30, tzinfo=UTC)
    assert stored.scheduled_at.tzinfo is UTC
    assert store.answer("q1", datetime(2026, 2, 28, 16, 30, tzinfo=UTC)) == stored


def test_a_time_without_a_zone_is_refused(store):
    with pytest.raises(sa.exc.StatementError, match="has no time zone"):
        store.write_answer(answered(ask(), datetime(2026, 3, 1)))


def test_a_day_begins_in_the_time_zone_of_the_question():
    day = date(2026, 10, 25)
    assert ask(timezone="Europe/Berlin").scheduled_at(day) == datetime(2026, 10, 24, 22, tzinfo=UTC)
    assert ask().scheduled_at(day) == datetime(2026, 10, 25, tzinfo=UTC)


@pytest.mark.parametrize("day", [date.min, date.max])
def test_there_are_no_answers_at_the_ends_of_the_calendar(store, day):
    assert store.list_answers(day) == []


def test_an_answer_whose_question_was_deleted_by_hand_is_found(store):
    stored = store.write_answer(answered(ask()))
    if store.engine.dialect.name == "sqlite":  # which does not look at keys unless it is told to
        with closing(sqlite3.connect(store.engine.url.database)) as connection, connection:
            connection.execute("DELETE FROM questions WHERE id = 'q1'")
    else:
        run_sql(store, "ALTER TABLE answers DROP CONSTRAINT fk_answers_question_id")
        run_sql(store, "DELETE FROM questions WHERE id = 'q1'")
    assert store.list_answers(MONDAY.date()) == [stored]


# -- one transaction


def test_a_failure_between_answer_and_rows_leaves_nothing(store, monkeypatch):
    store.write_answer(answered(ask("q2")))

    def broken(*_):
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(writing, "_write_rows", broken)
        with pytest.raises(RuntimeError):
            store.write_answer(answered(ask("q1")))
    assert [a.question_id for a in store.list_answers()] == ["q2"]
    store.write_answer(answered(ask("q1")))
    assert count(store, tables.answer_rows) == 2


_KILLED = """
import os, sys
from datetime import UTC, datetime
from text2sql.reporting.tables import writing
from text2sql.sandbox.results import ResultDigest
from text2sql.reporting.model.answer import NewAnswer, AnswerStatus
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.tables.store import ReportingStore
from text2sql.reporting.model.values import result_table

writing._mark_changes = lambda *_: os.kill(os.getpid(), 9)
table = result_table(["n"], [(1,)], 1)
question = ReportQuestion("q1", "?", "shop")
at = datetime(2026, 3, 2, 6, tzinfo=UTC)
answer = NewAnswer(question, at, AnswerStatus.ANSWERED, "SELECT 1", table, digest="d", share=1.0)
ReportingStore(sys.argv[1]).write_answer(answer)
"""


def test_a_killed_writer_leaves_nothing_and_no_lock(store, reporting_url):
    ended = subprocess.run([sys.executable, "-c", _KILLED, reporting_url], check=False)
    assert ended.returncode == -9
    assert store.answer("q1", MONDAY) is None
    assert count(store, tables.answer_rows) == 0
    assert store.write_answer(answered(ask())).attempts == 1


_WRITER = """
import sys
from datetime import UTC, datetime, timedelta
from text2sql.sandbox.results import ResultDigest
from text2sql.reporting.model.answer import NewAnswer, AnswerStatus
from text2sql.reporting.tables.questions import QuestionTable
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.tables.store import ReportingStore
from text2sql.reporting.model.values import result_table
from pathlib import Path

number = int(sys.argv[2])
with ReportingStore(sys.argv[1]) as store:
    questions = [ReportQuestion(f"w{i}", "?", "shop") for i in range(5)]
    QuestionTable(store).import_file(Path("w.yaml"), questions)
    for day in range(8):
        at = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=8 * number + day)
        for question in questions:
            table = result_table([f"n{number}"], [(day,)], 1)
            store.write_answer(NewAnswer(question, at, AnswerStatus.ANSWERED, "SELECT 1", table,
                                      digest=str(day), share=1.0))
"""


def test_three_writers_at_once_lose_nothing(reporting_url):
    """They start on an empty database: making the tables at the same time is part of it."""
    command = [sys.executable, "-c", _WRITER, reporting_url]
    writers = [subprocess.Popen([*command, str(i)], stderr=subprocess.PIPE) for i in range(3)]
    errors = [writer.communicate()[1].decode() for writer in writers]
    assert errors == ["", "", ""]
    with ReportingStore(reporting_url) as store:
        assert count(store, tables.answers) == 3 * 8 * 5
        changes = [answer.change for answer in store.history("w0")]
        assert changes == [Change.DATA_CHANGED] * 23 + [Change.FIRST]
        assert view_rows(store, "w0", "n2") == [(7,)]


# -- what is published


def test_an_unsure_answer_publishes_nothing_and_keeps_its_candidates(store):
    tried = (
        SampledQuery("SELECT 1", "ok", "d1", 1, voted=True, chosen=True),
        SampledQuery("SELECT 2", "ok", "d2", 1, voted=True),
        SampledQuery(None, "no_submission", error="turn limit"),
    )
    low = NewAnswer(ask(), MONDAY, AnswerStatus.LOW_AGREEMENT, share=1 / 3, votes=1, queries=tried)
    stored = store.write_answer(low)
    assert (stored.sql, stored.columns, stored.row_count, stored.change) == (None, (), None, None)
    assert store.rows(stored) == []
    assert store.sampled_queries(stored) == list(tried)


def test_an_error_does_not_replace_a_published_answer(store):
    store.write_answer(answered(ask()))
    kept = store.write_answer(failed(ask()))
    assert (kept.status, kept.error, kept.attempts) == (AnswerStatus.ANSWERED, "server down", 2)
    assert store.rows(kept) == [{"n": 1}]


def test_an_answer_replaces_an_error(store):
    store.write_answer(failed(ask()))
    stored = store.write_answer(answered(ask()))
    assert (stored.status, stored.error, stored.attempts) == (AnswerStatus.ANSWERED, None, 2)


# -- what changed


def test_changes_of_sql_and_data_are_distinguished(store):
    days = [MONDAY + timedelta(days=i) for i in range(6)]
    store.write_answer(answered(ask(), days[0]))
    store.write_answer(answered(ask(), days[1]))
    store.write_answer(answered(ask(), days[2], rows=[(2,)]))
    store.write_answer(failed(ask(), days[3]))
    store.write_answer(answered(ask(), days[4], rows=[(2,)], sql="SELECT 1 + 1"))
    store.write_answer(answered(ask(), days[5], rows=[(1,)], sql="SELECT 1"))
    changes = [answer.change for answer in reversed(store.history("q1"))]
    assert changes == [
        Change.FIRST,
        Change.SAME,
        Change.DATA_CHANGED,
        None,
        Change.SQL_CHANGED,
        Change.BOTH,
    ]


def test_a_backfilled_day_corrects_the_change_of_the_day_after(store):
    store.write_answer(answered(ask(), MONDAY))
    store.write_answer(answered(ask(), WEDNESDAY))
    store.write_answer(answered(ask(), TUESDAY, rows=[(9,)]))
    changes = [answer.change for answer in store.history("q1")]
    assert changes == [Change.DATA_CHANGED, Change.DATA_CHANGED, Change.FIRST]


def test_the_difference_lists_rows_with_their_multiplicity(store):
    before = store.write_answer(answered(ask(), MONDAY, rows=[(1,), (1,), (2,)]))
    after = store.write_answer(answered(ask(), TUESDAY, rows=[(1,), (2,), (3,)]))
    difference = store.difference(after)
    assert difference.rows.added == ({"n": 3},)
    assert difference.rows.removed == ({"n": 1},)
    assert (difference.rows.unchanged, difference.sql_changed, difference.complete) == (
        2,
        False,
        True,
    )
    assert store.difference(before) is None


def test_columns_of_other_names_do_not_make_another_result(store):
    store.write_answer(answered(ask(), MONDAY, ["shops"]))
    after = store.write_answer(answered(ask(), TUESDAY, ["n"], sql="SELECT 1 AS n"))
    entry = read_entry(store, after)
    assert (entry.difference.rows.counts, entry.difference.renamed) == ((0, 0, 0), True)
    assert entry.change == (
        "the SQL changed since the answer before, the result did not, its columns have other names"
    )


def test_a_change_in_the_last_digit_is_rounding_and_a_larger_one_is_seen(store):
    store.write_answer(answered(ask(), MONDAY, ["x"], [(0.6,)]))
    after = store.write_answer(answered(ask(), TUESDAY, ["x"], [(0.6000000000000001,)]))
    assert after.change == Change.SAME
    page = render_page("2026-03-03", [read_entry(store, after)])
    assert ">0.6000000000000001<" not in page
    later = store.write_answer(answered(ask(), WEDNESDAY, ["x"], [(0.60000001,)]))
    assert later.change == Change.DATA_CHANGED
    assert ">0.60000001<" in render_page("2026-03-04", [read_entry(store, later)])


# -- views


def test_a_view_shows_the_latest_published_rows(store):
    store.write_answer(answered(ask(), MONDAY, ["city", "n"], [("Oslo", 1), ("Bonn", None)]))
    store.write_answer(failed(ask(), TUESDAY))
    assert view_rows(store, what="city, n, answer_share") == [("Oslo", 1, 1.0), ("Bonn", None, 1.0)]
    assert query(store, "SELECT status FROM latest_answers") == [("error",)]


def test_a_view_follows_the_columns_of_its_answer(store):
    store.write_answer(answered(ask(), MONDAY, ["n"], [(1,)]))
    store.write_answer(answered(ask(), TUESDAY, ["n", "city"], [("many", "Oslo")]))
    assert view_rows(store, what="n, city") == [("many", "Oslo")]


def test_a_backfill_does_not_change_the_view(store):
    store.write_answer(answered(ask(), TUESDAY, ["n"], [(1,)]))
    store.write_answer(answered(ask(), MONDAY, ["city"], [("Oslo",)]))
    assert view_rows(store, what="n") == [(1,)]


def test_a_view_that_others_read_stays_readable(store):
    store.write_answer(answered(ask(), MONDAY, ["n", "m"], [(1, 2)]))
    with store.engine.begin() as connection:
        connection.exec_driver_sql("CREATE VIEW board AS SELECT m FROM answer_q1")
    stored = store.write_answer(answered(ask(), TUESDAY, ["m", "k"], [(3, 4)]))
    assert store.rows(stored) == [{"m": 3, "k": 4}]
    assert query(store, "SELECT m FROM board") == [(3,)]


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, "many"), (1, 2.5), (1, 2**62), (1.5, "x"), (1.5, math.inf), (None, 3), ("a", 1)],
)
def test_a_view_that_others_read_shows_values_of_another_type(store, before, after):
    store.write_answer(answered(ask(), MONDAY, ["n"], [(before,)]))
    run_sql(store, "CREATE VIEW board AS SELECT n FROM answer_q1")
    run_sql(store, "CREATE VIEW wall AS SELECT n AS m FROM board")
    store.write_answer(answered(ask(), TUESDAY, ["n"], [(after,)]))
    expected = str(after) if before == "a" else after
    assert query(store, "SELECT n FROM board") == view_rows(store, what="n") == [(expected,)]
    assert query(store, "SELECT m FROM wall") == [(expected,)]


def test_a_columns_type_is_that_of_its_history(store):
    """A NULL, or a whole number among fractions, changes nothing for those who read the view."""
    sum_of = "SELECT sum(n) FROM answer_q1"
    store.write_answer(answered(ask(), MONDAY, ["n"], [(1.5,), (2,)]))
    store.write_answer(answered(ask(), TUESDAY, ["n"], [(None,)]))
    assert query(store, sum_of) == [(None,)]
    store.write_answer(answered(ask(), WEDNESDAY, ["n"], [(4,)]))
    assert [type(n) for (n,) in query(store, "SELECT n FROM answer_q1")] == [float]
    store.write_answer(answered(ask(), WEDNESDAY + timedelta(days=1), ["other"], [(4,)]))
    store.write_answer(answered(ask(), WEDNESDAY + timedelta(days=2), ["n"], [(None,)]))
    assert query(store, sum_of) == [(None,)]


@pytest.fixture
def served(store):
    if store.engine.dialect.name != "postgresql":
        pytest.skip("SQLite has no grants and comments")
    run_sql(store, "DROP ROLE IF EXISTS reader")
    run_sql(store, "CREATE ROLE reader")
    yield store
    run_sql(store, "DROP OWNED BY reader")
    run_sql(store, "DROP ROLE reader")


def test_grants_and_comments_outlive_another_type(served):
    served.write_answer(answered(ask(), MONDAY, ["n", "gone"], [(1, 2)]))
    for sql in (
        "CREATE VIEW board AS SELECT n FROM answer_q1",
        "CREATE MATERIALIZED VIEW kept AS SELECT n FROM board",
        "CREATE UNIQUE INDEX kept_n ON kept (n)",
        "GRANT SELECT ON answer_q1, board TO reader",
        "GRANT SELECT (n), UPDATE (gone) ON answer_q1 TO reader WITH GRANT OPTION",
        "COMMENT ON VIEW answer_q1 IS 'it''s 5 %% of all'",
        "COMMENT ON COLUMN answer_q1.n IS 'how many'",
        "COMMENT ON MATERIALIZED VIEW kept IS 'kept'",
    ):
        run_sql(served, sql)
    served.write_answer(answered(ask(), TUESDAY, ["n", "more"], [(2.5, 3)]))
    assert view_rows(served, what="n, more") == [(2.5, 3)]
    assert query(served, "SELECT n FROM kept") == [(2.5,)]
    rights = "SELECT has_table_privilege('reader', '{}', 'SELECT')"
    assert [query(served, rights.format(name)) for name in ("answer_q1", "board")] == [
        [(True,)]
    ] * 2
    assert query(
        served,
        "SELECT has_column_privilege('reader', 'answer_q1', 'n', 'SELECT WITH GRANT OPTION')",
    ) == [(True,)]
    assert query(served, "SELECT obj_description('answer_q1'::regclass)") == [("it's 5 % of all",)]
    assert query(served, "SELECT obj_description('kept'::regclass)") == [("kept",)]
    assert query(served, "SELECT col_description('answer_q1'::regclass, 1)") == [("how many",)]
    assert query(served, "SELECT indexname FROM pg_indexes WHERE tablename = 'kept'") == [
        ("kept_n",)
    ]


def test_a_new_view_gives_nobody_more_rights(served):
    """Neither default privileges that were revoked nor a lost option widen who reads what."""
    defaults = "ALTER DEFAULT PRIVILEGES {} SELECT ON TABLES {} reader"
    run_sql(served, defaults.format("GRANT", "TO"))
    served.write_answer(answered(ask(), MONDAY, ["n"], [(1,)]))
    for sql in (
        "CREATE VIEW board AS SELECT n FROM answer_q1",
        "REVOKE ALL ON answer_q1, board FROM reader",
        "GRANT SELECT (n) ON board TO reader",
        "GRANT SELECT ON answer_q1 TO PUBLIC",
        "ALTER VIEW answer_q1 SET (security_invoker = true, security_barrier = true)",
    ):
        run_sql(served, sql)
    served.write_answer(answered(ask(), TUESDAY, ["n"], [(2.5,)]))
    run_sql(served, defaults.format("REVOKE", "FROM"))
    assert view_rows(served, what="n") == query(served, "SELECT n FROM board") == [(2.5,)]
    acl = "SELECT relacl::text FROM pg_class WHERE oid = '{}'::regclass"
    assert "reader" not in query(served, acl.format("answer_q1"))[0][0]
    assert "reader" not in query(served, acl.format("board"))[0][0]
    rights = "SELECT has_table_privilege('reader', 'answer_q1', 'SELECT'), has_column_privilege"
    assert query(served, f"{rights}('reader', 'board', 'n', 'SELECT')") == [(True, True)]
    options = "SELECT reloptions FROM pg_class WHERE oid = 'answer_q1'::regclass"
    assert query(served, options) == [(["security_invoker=true", "security_barrier=true"],)]


def test_a_rule_that_reads_a_view_keeps_it_and_costs_no_answer(served, caplog):
    served.write_answer(answered(ask(), MONDAY, ["n"], [(1,)]))
    run_sql(served, "CREATE TABLE source (n int)")
    run_sql(served, "CREATE TABLE copy (n int)")
    run_sql(
        served,
        "CREATE RULE r AS ON INSERT TO source DO ALSO INSERT INTO copy SELECT n FROM answer_q1",
    )
    stored = served.write_answer(answered(ask(), TUESDAY, ["n"], [(2.5,)]))
    assert served.rows(stored) == [{"n": 2.5}]
    assert "view answer_q1 keeps its columns: cannot drop view" in caplog.text
    run_sql(served, "DROP TABLE source, copy")


def test_a_view_that_cannot_be_replaced_never_shows_a_wrong_null(served, caplog):
    served.write_answer(answered(ask(), MONDAY, ["n"], [(42,)]))
    run_sql(served, "CREATE VIEW board AS SELECT abs(n) AS n FROM answer_q1")
    served.write_answer(answered(ask(), TUESDAY, ["n"], [("many",)]))
    assert "view answer_q1 keeps its columns" in caplog.text
    with pytest.raises(Exception, match='invalid input syntax for type bigint: "many"'):
        query(served, "SELECT n FROM board")


def test_what_was_cut_says_so(store):
    text = "x" * 150_000
    store.write_answer(answered(ask(), MONDAY, ["t", "b"], [(text, text.encode())]))
    [(shown, blob)] = view_rows(store, what="t, b")
    assert len(shown) == 100_000 and shown.endswith("... [cut, 150,000 characters in all]")
    assert blob.endswith("... [cut]")
    stored = store.write_answer(failed(ask(), TUESDAY, "y" * 5000))
    assert len(stored.error) == 2000 and stored.error.endswith("[cut, 5,000 characters in all]")


def test_a_disabled_question_says_so_among_the_latest_answers(store):
    store.write_answer(answered(ask(), MONDAY, ["n"], [(1,)]))
    enabled = "SELECT enabled FROM latest_answers"
    assert query(store, enabled) in ([(True,)], [(1,)])
    run_sql(store, "UPDATE questions SET enabled = false WHERE id = 'q1'")
    assert query(store, enabled) in ([(False,)], [(0,)])


def test_a_long_read_of_a_view_does_not_block_the_answers(store, monkeypatch):
    monkeypatch.setattr(views, "_VIEW_SECONDS", 0.2)
    store.write_answer(answered(ask(), MONDAY, ["n"], [(1,)]))
    with store.engine.connect() as reader:
        reader.exec_driver_sql("SELECT n FROM answer_q1").all()
        stored = store.write_answer(answered(ask(), TUESDAY, ["n", "k"], [(3, 4)]))
        assert store.rows(stored) == [{"n": 3, "k": 4}]
    store.write_answer(answered(ask(), WEDNESDAY, ["n", "k"], [(5, 6)]))
    assert view_rows(store, what="n, k") == [(5, 6)]


def test_invalid_view_columns_are_named(tmp_path):
    file = tmp_path / "r.sqlite"
    with ReportingStore(f"sqlite:///{file}") as store:
        save(store, ask())
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("UPDATE questions SET view_columns = 'none'")
        with pytest.raises(Text2SqlError, match="invalid view_columns"):
            store.write_answer(answered(ask()))
        assert store.history("q1") == []


def test_a_dropped_view_is_recreated(store):
    store.write_answer(answered(ask(), MONDAY))
    run_sql(store, "DROP VIEW answer_q1")
    store.write_answer(answered(ask(), TUESDAY, rows=[(2,)]))
    assert view_rows(store, what="n") == [(2,)]


@pytest.mark.parametrize("kind", ["TABLE", "VIEW"])
def test_another_table_with_a_views_name_stays(store, kind):
    run_sql(store, f"CREATE {kind} answer_new AS SELECT 42 AS mine")
    save(store, ask("new"))
    store.write_answer(answered(ask("new"), rows=[(7,)]))
    assert query(store, "SELECT mine FROM answer_new") == [(42,)]
    view = QuestionTable(store).get("new").view
    assert query(store, f'SELECT n FROM "{view}"') == [(7,)]


def test_a_views_edited_name_is_never_run_as_sql(store):
    name = """x"; DROP TABLE candidates; --"""
    run_sql(store, f"UPDATE questions SET view_name = '{name}' WHERE id = 'q1'")
    store.write_answer(answered(ask()))
    quoted = name.replace('"', '""')
    assert query(store, f'SELECT n FROM "{quoted}"') == [(1,)]
    assert count(store, tables.candidates) == 0


def test_similar_ids_have_views_of_their_own(store):
    ids = ["best-shops", "best_shops", "Best-Shops", "x" * 100, "x" * 99, "rows"]
    save(store, *map(ask, ids))
    save(store, *map(ask, reversed(ids)))
    views = dict(query(store, "SELECT id, view_name FROM questions"))
    assert views["best-shops"] == "answer_best_shops"
    assert views["rows"].startswith("answer_rows_")
    assert len(set(views.values())) == len(views)
    assert all(len(view) <= 63 for view in views.values())
    for number, id in enumerate(ids):
        store.write_answer(answered(ask(id), rows=[(number,)]))
    assert [query(store, f'SELECT n FROM "{views[id]}"') for id in ids] == [
        [(number,)] for number in range(len(ids))
    ]


def test_a_wide_answer_is_stored(store):
    labels = [f"c{i}" for i in range(1900)]
    stored = store.write_answer(answered(ask(), labels=labels, rows=[tuple(range(1900))]))
    assert len(store.rows(stored)[0]) == 1900
    assert view_rows(store, what="c0, c1499, answer_share") == [(0, 1499, 1.0)]


# -- runs and refusals


def test_a_run_is_one_row_from_start_to_end(store):
    for _ in range(2):  # a step that is retried starts again in the same run
        store.start_run("r1", "2026-03-02", "p", "rev", "demo")
    assert query(store, "SELECT finished_at FROM runs") == [(None,)]
    store.finish_run("r1", "2026-03-02", asked=3, answered=2, failed=1, reused=4)
    assert query(store, "SELECT id, day, policy, answered, reused FROM runs") == [
        ("r1", "2026-03-02", "p", 2, 4)
    ]
    with store.engine.connect() as connection:
        started, finished = connection.execute(
            sa.select(tables.runs.c.started_at, tables.runs.c.finished_at)
        ).one()
    assert started <= finished


def test_the_agent_may_not_read_the_reporting_database(tmp_path):
    with ReportingStore(f"sqlite:///{tmp_path / 'r.sqlite'}") as store:
        with pytest.raises(Text2SqlError, match="may not read"):
            store.refuse_database(tmp_path / "sub" / ".." / "r.sqlite")
        store.refuse_database(tmp_path / "shop.sqlite")


def test_reports_are_not_written_into_a_questions_database(tmp_path):
    shop = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(shop)) as connection, connection:
        connection.execute("CREATE TABLE shop(id)")
    before = shop.read_bytes()
    with pytest.raises(Text2SqlError, match=r"shop\.sqlite has other tables \(shop\)"):
        ReportingStore(f"sqlite:///{shop}")
    assert shop.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["shop.sqlite"]


def test_a_file_that_is_not_a_database_is_named(tmp_path):
    (tmp_path / "r.sqlite").write_text("no database at all, " * 100)
    with pytest.raises(InfrastructureError, match=r"r\.sqlite failed: file is not a database"):
        ReportingStore(f"sqlite:///{tmp_path / 'r.sqlite'}")


def test_a_server_that_is_down_is_named_without_its_password():
    pytest.importorskip("psycopg")
    with pytest.raises(InfrastructureError) as caught:
        ReportingStore("postgresql://me:secret@127.0.0.1:9/reports?connect_timeout=2")
    assert str(caught.value) == (
        "The reporting database reports on 127.0.0.1:9 cannot be reached: Connection refused."
    )


def test_a_full_database_is_named_and_loses_nothing(tmp_path):
    with ReportingStore(f"sqlite:///{tmp_path / 'r.sqlite'}") as store:
        save(store, ask())
        store.write_answer(answered(ask(), MONDAY))
        with store.engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar() + 5
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        rows = [("x" * 1000,)] * 1000
        with pytest.raises(
            InfrastructureError, match=r"r\.sqlite failed: database or disk is full"
        ):
            store.write_answer(answered(ask(), TUESDAY, ["t"], rows))
        assert view_rows(store, what="n") == [(1,)]
        assert len(store.history("q1")) == 1
        store.write_answer(answered(ask(), TUESDAY))
        assert len(store.history("q1")) == 2


def test_a_locked_database_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.1)
    file = tmp_path / "r.sqlite"
    with ReportingStore(f"sqlite:///{file}") as store, closing(sqlite3.connect(file)) as other:
        save(store, ask())
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(InfrastructureError, match=r"r\.sqlite failed: database is locked"):
            store.write_answer(answered(ask()))
        assert store.history("q1") == []


def test_a_server_that_goes_down_and_comes_back_loses_nothing(own_postgresql):
    upgrade_tables(own_postgresql.url)
    with ReportingStore(own_postgresql.url) as store:
        save(store, ask())
        store.write_answer(answered(ask(), MONDAY))
        own_postgresql.stop()
        with pytest.raises(InfrastructureError, match=r"reporting database postgres on .*: "):
            store.write_answer(answered(ask(), TUESDAY))
        own_postgresql.start()
        store.write_answer(answered(ask(), TUESDAY))
        assert [answer.scheduled_at for answer in store.history("q1")] == [TUESDAY, MONDAY]


def test_a_pool_without_a_free_connection_is_named(store):
    store.engine.pool._timeout = 0.1
    with ExitStack() as taken:
        for _ in range(15):
            taken.enter_context(store.engine.connect())
        with pytest.raises(InfrastructureError, match=r"reporting database .* QueuePool limit"):
            store.history("q1")
    assert store.history("q1") == []


@pytest.fixture
def postgresql_settings(postgresql_server, request):
    """The URL of tables in a schema of their own, in sessions with a setting."""
    return f"{own_schema(postgresql_server)}%20-c{request.param}"


@pytest.mark.parametrize(
    "postgresql_settings", ["default_transaction_isolation%3Dserializable"], indirect=True
)
def test_writers_do_not_refuse_each_other_whatever_the_isolation(postgresql_settings):
    upgrade_tables(postgresql_settings)
    questions = [ask(f"w{i}") for i in range(6)]
    with ReportingStore(postgresql_settings) as store, ThreadPoolExecutor(6) as threads:
        save(store, *questions)
        days = [MONDAY + timedelta(days=i) for i in range(3)]
        writing = [
            threads.submit(store.write_answer, answered(question, day))
            for day in days
            for question in questions
        ]
        assert len([one.result() for one in writing]) == count(store, tables.answers) == 18


@pytest.mark.parametrize(
    "postgresql_settings",
    ["datestyle%3DSQL,DMY%20-cTimeZone%3DAsia/Tokyo", "datestyle%3DGerman"],
    indirect=True,
)
def test_instants_are_read_whatever_the_sessions_style_and_zone(postgresql_settings):
    upgrade_tables(postgresql_settings)
    with ReportingStore(postgresql_settings) as store:
        save(store, ask())
        store.write_answer(answered(ask()))
        assert store.write_answer(answered(ask(), TUESDAY)).scheduled_at == TUESDAY
        assert [answer.scheduled_at for answer in store.history("q1")] == [TUESDAY, MONDAY]


def test_no_statement_stays_prepared_in_a_session_that_a_pooler_may_give_to_others(
    postgresql_server,
):
    url = own_schema(postgresql_server)
    upgrade_tables(url)
    with ReportingStore(url) as store, store.engine.connect() as connection:
        for _ in range(10):
            connection.execute(sa.select(tables.answers)).all()
        assert connection.exec_driver_sql("SELECT * FROM pg_prepared_statements").all() == []


def test_a_database_without_an_encoding_holds_every_text(postgresql_server):
    import psycopg

    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE plain ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
            " TEMPLATE template0"
        )
    url = postgresql_server.replace("/postgres?", "/plain?")
    upgrade_tables(url)
    with ReportingStore(url) as store:
        save(store, ask(question="Größe 💥"))
        stored = store.write_answer(answered(ask(question="Größe 💥"), rows=[("日本",)]))
        assert stored.question == "Größe 💥"
        assert view_rows(store, what="n") == [("日本",)]


def test_a_shown_url_has_no_password():
    pytest.importorskip("psycopg")
    with database.Database("postgresql://me:secret@h/d?password=secret&sslpassword=secret") as one:
        assert one.name == "d on h"
        assert "secret" not in location.shown(one.engine.url)
    with pytest.raises(Text2SqlError, match="more than one @: write one in a password as %40"):
        database.Database("postgresql://me:se@cret@h/d")


def test_blanks_around_a_url_are_no_part_of_it(tmp_path):
    with ReportingStore(f" sqlite:///{tmp_path / 'r.sqlite'}\n"):
        pass
    assert "r.sqlite" in [file.name for file in tmp_path.iterdir()]


BAD_URLS = ("mysql://h/d", "nonsense", "sqlite://", "", "sqlite:///:memory:", "postgresql://h:x/d")
BAD_URLS += ("sqlite+pysqlcipher://:secret@/r.sqlite", "sqlite+aiosqlite:///r.sqlite")


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_url_of_another_kind_is_refused(url):
    with pytest.raises(Text2SqlError, match=r"[Rr]eporting") as caught:
        ReportingStore(url)
    assert "secret" not in str(caught.value)


def test_the_place_of_the_tables_has_no_password(tmp_path, monkeypatch):
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    assert reporting_place(tmp_path) == str(tmp_path / "reporting.sqlite")
    monkeypatch.setenv(URL_VARIABLE, "postgresql://me:secret@db/warehouse")
    assert reporting_place(tmp_path) == "postgresql://me:***@db/warehouse"
