"""The versions of the reporting tables, on SQLite and on PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from click.testing import CliRunner

from tests.support.reporting_databases import (
    empty_reporting_url,
    own_schema,
    postgresql_server,
    reporting_url,
)
from text2sql.cli.main import cli
from text2sql.errors import Text2SqlError
from text2sql.reporting.model.values import Column
from text2sql.reporting.tables import schema as tables
from text2sql.reporting.tables.database import Database
from text2sql.reporting.tables.migrating import NEWEST, VERSION_TABLE, schema_status, upgrade
from text2sql.reporting.tables.migrations.versions import v0001_tables
from text2sql.reporting.tables.questions import QuestionTable
from text2sql.reporting.tables.store import ReportingStore
from text2sql.reporting.tables.views import replace_view

__all__ = ["empty_reporting_url", "postgresql_server", "reporting_url"]
NOW = datetime(2026, 3, 2, tzinfo=UTC)
QUESTION = {
    "id": "q1",
    "question": "How many?",
    "database": "shop",
    "evidence": "",
    "votes": 8,
    "minimum_share": 0.5,
    "time_zone": "Asia/Tokyo",
    "schedule_group": "daily",
    "enabled": False,
    "view_name": "answer_q1",
    "view_columns": [{"name": "n", "label": "N", "type": "integer"}],
    "created_at": NOW,
    "updated_at": NOW,
}
ANSWER = {
    "id": 7,
    "question_id": "q1",
    "scheduled_at": NOW,
    "status": "answered",
    "change": "first",
    "sql": "SELECT ':x' AS N -- 100%",
    "columns": QUESTION["view_columns"],
    "row_count": 1,
    "candidates": 8,
    "minimum_share": 0.5,
    "tie": False,
    "question": "How many?",
    "evidence": "",
    "database": "shop",
    "attempts": 1,
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "seconds": 1.5,
    "created_at": NOW,
    "updated_at": NOW,
}


def make_uncounted(url: str) -> None:
    """Make the tables as they were before their versions were counted, with an answer in them."""
    old = v0001_tables.metadata
    with Database(url) as database, database.writing() as connection:
        old.create_all(connection)
        connection.exec_driver_sql(v0001_tables.LATEST_ANSWERS)
        connection.execute(sa.insert(old.tables["questions"]).values(QUESTION))
        connection.execute(sa.insert(old.tables["answers"]).values(ANSWER))
        row = {"answer_id": 7, "position": 0, "cells": {"n": 5}, "marks": None}
        connection.execute(sa.insert(old.tables["answer_rows"]).values(row))
        replace_view(connection, "answer_q1", "q1", [Column("n", "N", "integer")])


def upgrade_tables(url: str) -> str | None:
    """Do what the command does; return the version before."""
    with Database(url) as database, database.named_errors():
        return upgrade(database.writer).found


def version(url: str) -> str | None:
    with Database(url) as database:
        return schema_status(database.engine).found


def test_the_migrations_make_the_tables_that_the_code_uses(reporting_url):
    with ReportingStore(reporting_url) as store, store.engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        different = compare_metadata(context, tables.metadata)
        assert different == [], "tables.py says more than the steps make: a step is missing"
    assert version(reporting_url) == NEWEST


def test_the_newest_version_is_the_last_step():
    from text2sql.reporting.tables import migrations

    steps = ScriptDirectory(migrations.__path__[0])
    assert steps.get_current_head() == NEWEST, (
        "text2sql.reporting.tables.migrating.NEWEST is behind"
    )


def test_tables_from_before_versions_were_counted_are_adopted(empty_reporting_url):
    make_uncounted(empty_reporting_url)
    assert upgrade_tables(empty_reporting_url) is None
    with ReportingStore(empty_reporting_url) as store:
        [question] = QuestionTable(store).read().readable
        assert (question.timezone, question.enabled, question.owner) == ("Asia/Tokyo", False, "")
        [answer] = store.history("q1")
        assert (answer.id, answer.sql, answer.scheduled_at) == (7, ANSWER["sql"], NOW)
        assert (answer.verified, answer.expectations) == (None, None)
        assert store.rows(answer) == [{"n": 5}]
        assert [tuple(row) for row in store.read(sa.text('SELECT n FROM "answer_q1"'))] == [(5,)]
        assert store.list_answers() == [answer]
        [change] = store.read(sa.select(tables.questions.c.view_columns))
        assert change.view_columns is None
    assert upgrade_tables(empty_reporting_url) == NEWEST


def test_the_view_of_latest_answers_only_gains_columns_at_its_end(empty_reporting_url):
    make_uncounted(empty_reporting_url)
    with Database(empty_reporting_url) as database, database.writing() as connection:
        before = latest_columns(connection)
        connection.exec_driver_sql("CREATE VIEW mine AS SELECT sql, error FROM latest_answers")
    upgrade_tables(empty_reporting_url)
    with Database(empty_reporting_url) as database, database.writing() as connection:
        assert latest_columns(connection) == list(tables.LATEST_ANSWERS_COLUMNS)
        assert latest_columns(connection)[: len(before)] == before
        connection.exec_driver_sql("UPDATE answers SET verified = 'differs', error = 'other rows'")
        found = connection.exec_driver_sql("SELECT verified, error FROM latest_answers").all()
        assert [tuple(row) for row in found] == [("differs", "other rows")]
        mine = connection.exec_driver_sql("SELECT error FROM mine").all()
        assert [tuple(row) for row in mine] == [("other rows",)], "a view that reads it still does"


def latest_columns(connection: sa.Connection) -> list[str]:
    found = connection.exec_driver_sql("SELECT * FROM latest_answers")
    return list(found.keys())


def test_a_dropped_view_of_latest_answers_is_recreated(reporting_url):
    with ReportingStore(reporting_url) as store, store.writing() as connection:
        connection.exec_driver_sql("DROP VIEW latest_answers")
    status = CliRunner().invoke(cli, ["reporting", "status", "--reporting", reporting_url])
    assert (status.exit_code, "latest_answers is missing" in status.output) == (3, True)
    done = CliRunner().invoke(cli, ["reporting", "upgrade", "--reporting", reporting_url])
    assert "latest_answers was recreated" in done.output
    with Database(reporting_url) as database, database.writing() as connection:
        assert latest_columns(connection) == list(tables.LATEST_ANSWERS_COLUMNS)
        assert schema_status(database.engine).complete


def test_an_older_file_is_upgraded_when_it_is_opened(tmp_path):
    url = f"sqlite:///{tmp_path / 'r.sqlite'}"
    make_uncounted(url)
    with ReportingStore(url) as store:
        assert len(store.history("q1")) == 1
    assert version(url) == NEWEST


@pytest.mark.parametrize("empty_reporting_url", ["postgresql"], indirect=True)
def test_an_older_server_names_the_command_and_stays_as_it_is(empty_reporting_url):
    make_uncounted(empty_reporting_url)
    with pytest.raises(
        Text2SqlError, match=r"The reporting database postgres on .*run text2sql reporting upgrade"
    ):
        ReportingStore(empty_reporting_url)
    assert version(empty_reporting_url) is None


def test_tables_of_a_newer_release_are_refused_and_stay(reporting_url):
    with ReportingStore(reporting_url) as store, store.writing() as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '0999'")
    for work in (ReportingStore, upgrade_tables):
        with pytest.raises(Text2SqlError, match=r"0999.* no version above .*install a newer"):
            work(reporting_url)
    assert version(reporting_url) == "0999"


def test_tables_of_something_else_are_refused_and_stay(empty_reporting_url):
    own = ("questions", "answers", "answer_rows")
    with Database(empty_reporting_url) as database, database.writing() as connection:
        for name in own:
            connection.exec_driver_sql(f"CREATE TABLE {name}(id INTEGER)")
    with pytest.raises(Text2SqlError, match="'questions' that is there has no column question, "):
        upgrade_tables(empty_reporting_url)
    with Database(empty_reporting_url) as database:
        assert set(sa.inspect(database.engine).get_table_names()) == set(own)


def test_an_upgrade_that_fails_changes_nothing(empty_reporting_url):
    make_uncounted(empty_reporting_url)
    with Database(empty_reporting_url) as database, database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE deliveries(id INTEGER)")
    with pytest.raises(Text2SqlError, match="'deliveries' that is there has no column day, "):
        upgrade_tables(empty_reporting_url)
    with Database(empty_reporting_url) as database:
        columns = {one["name"] for one in sa.inspect(database.engine).get_columns("questions")}
    assert columns == set(QUESTION)
    assert version(empty_reporting_url) is None


def test_another_programs_view_of_latest_answers_is_refused_and_stays(empty_reporting_url):
    with Database(empty_reporting_url) as database, database.writing() as connection:
        connection.exec_driver_sql("CREATE VIEW latest_answers AS SELECT 42 AS mine")
    with pytest.raises(Text2SqlError, match="'latest_answers' that is there has no column quest"):
        upgrade_tables(empty_reporting_url)
    with Database(empty_reporting_url) as database, database.writing() as connection:
        assert latest_columns(connection) == ["mine"]
        assert not sa.inspect(connection).has_table("answers")


def test_tables_in_the_next_schema_do_not_matter(postgresql_server):
    theirs, ours = own_schema(postgresql_server), own_schema(postgresql_server)
    with Database(theirs) as database, database.writing() as connection:
        for name in ("questions", "deliveries", "latest_answers"):
            connection.exec_driver_sql(f"CREATE TABLE {name} AS SELECT 42 AS mine")
    url = f"{ours},{theirs.rpartition('%3D')[2]}"
    upgrade_tables(url)
    with ReportingStore(url) as store:
        assert QuestionTable(store).read().readable == []
    with Database(theirs) as database, database.writing() as connection:
        assert latest_columns(connection) == ["mine"]


def test_an_unknown_version_is_named(reporting_url):
    with Database(reporting_url) as database:
        upgrade(database.writer)
        with database.writing() as connection:
            connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '0000'")
    with pytest.raises(Text2SqlError, match=r"No release of text2sql made the version.*0000"):
        upgrade_tables(reporting_url)


_UPGRADE = """
import sys
from text2sql.reporting.tables.database import Database
from text2sql.reporting.tables.migrating import upgrade

with Database(sys.argv[1]) as database:
    upgrade(database.writer)
"""


def test_processes_that_upgrade_at_once_wait_for_each_other(empty_reporting_url):
    make_uncounted(empty_reporting_url)
    command = [sys.executable, "-c", _UPGRADE, empty_reporting_url]
    children = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    assert [child.communicate()[1].decode() for child in children] == ["", "", ""]
    assert version(empty_reporting_url) == NEWEST


@pytest.mark.parametrize("columns", ["version TEXT", "version_num INTEGER"])
def test_another_programs_table_with_our_name_is_reported(empty_reporting_url, columns):
    with Database(empty_reporting_url) as database, database.writing() as connection:
        for name in ("questions", "answers", "answer_rows"):
            connection.exec_driver_sql(f"CREATE TABLE {name} (id TEXT)")
        connection.exec_driver_sql(f"CREATE TABLE reporting_version ({columns})")
        connection.exec_driver_sql("INSERT INTO reporting_version VALUES (3)")
    for command in ("status", "upgrade"):
        words = ["reporting", command, "--reporting", empty_reporting_url]
        refused = CliRunner().invoke(cli, words).exception
        assert "The table reporting_version in" in str(refused)
        assert "give the reports a database or a schema of their own" in str(refused)
        assert refused.exit_code == 1
