"""What docs/reports.md tells people to type, typed."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.reporting_databases import postgresql_server
from text2sql.cli.main import cli
from text2sql.datasets.pocket.corpus import generate_business_databases
from text2sql.errors import InfrastructureError
from text2sql.reporting.model.answer import AnswerStatus, NewAnswer
from text2sql.reporting.model.values import result_table
from text2sql.reporting.tables.location import URL_VARIABLE
from text2sql.reporting.tables.questions import QuestionTable
from text2sql.reporting.tables.store import ReportingStore

__all__ = ["postgresql_server"]
TEXT = (Path(__file__).resolve().parents[2] / "docs" / "reports.md").read_text()
AT = datetime(2026, 3, 2, tzinfo=UTC)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)


def run(line: str, **replaced: str) -> None:
    words = [replaced.get(word, word) for word in shlex.split(line.removeprefix("$ text2sql "))]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, (line, result.output, result.exception)


def test_the_commands_work_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "made"))
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    generate_business_databases(tmp_path / "made" / "report_databases")
    asking, files, _ = blocks("console")
    for line in (asking + files).splitlines():
        run(line)
    with ReportingStore(f"sqlite:///{tmp_path}/made/reporting.sqlite") as store:
        question = QuestionTable(store).get("big-stores").question
        assert (question.votes, question.owner, question.enabled) == (16, "ops@example.org", True)
        store.write_answer(_answer(question, "store"))
        for query in blocks("sql")[0].strip().splitlines():
            with store.engine.connect() as connection:
                assert len(connection.exec_driver_sql(query).all()) == 1


def _answer(question, column: str) -> NewAnswer:
    table = result_table([column], [("Oslo",)], 1)
    return NewAnswer(question, AT, AnswerStatus.ANSWERED, "SELECT 1", table, "d", 1.0)


def upgraded(url: str) -> str:
    """Upgrade the tables with a role; return what it says."""
    result = CliRunner().invoke(cli, ["reporting", "upgrade", "--reporting", url])
    return result.output + str(result.exception or "")


@pytest.fixture(params=["owner", "writer"])
def roles(request, postgresql_server):
    """URLs of the three roles that the page tells an administrator to make.

    Either the owner upgrades first, as it says, or the writer, and then what it says to mend that.
    """
    psycopg = pytest.importorskip("psycopg")

    def administer(sql: str) -> None:
        with psycopg.connect(postgresql_server, autocommit=True) as connection:
            connection.execute(sql)

    _, first, after, mend = blocks("sql")
    administer(first)
    urls = {
        name: postgresql_server.replace("postgres:@", f"reports_{name}:@")
        for name in ("owner", "writer", "reader")
    }
    if request.param == "writer":
        theirs = "tables belong to the role reports_writer, which made them, and the schema reports"
        assert f"0004\nwarning: the {theirs} to reports_owner: only" in upgraded(urls["writer"])
        assert f"permission denied for table reporting_version; the {theirs}" in upgraded(
            urls["owner"]
        )
        administer(mend)
    for line in blocks("console")[2].splitlines():
        run(line, **{"postgresql://reports_owner@host/warehouse": urls["owner"]})
    if request.param == "owner":
        administer(after)
    assert "warning" not in upgraded(urls["owner"])
    yield urls
    administer("DROP SCHEMA reports CASCADE")
    for name in urls:
        administer(f"DROP OWNED BY reports_{name}; DROP ROLE reports_{name}")


def test_the_roles_may_do_what_they_need_and_no_more(roles, tmp_path):
    import psycopg

    def refused(role: str, sql: str) -> None:
        with (
            psycopg.connect(roles[role]) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(sql)

    def read(sql: str) -> list:
        with psycopg.connect(roles["reader"]) as connection:
            return connection.execute(sql).fetchall()

    generate_business_databases(tmp_path)
    database = str(tmp_path / "store_chain" / "store_chain.sqlite")
    add = ["questions", "add", "q", "--question", "?", "--database", database]
    run(shlex.join([*add, "--reporting", roles["writer"]]))
    with ReportingStore(roles["writer"]) as store:
        question = QuestionTable(store).get("q").question
        for column in ("city", "town"):  # the view is replaced, and stays readable
            store.write_answer(_answer(question, column))
            assert read(f"SELECT {column} FROM answer_q") == [("Oslo",)]
    assert read("SELECT status FROM latest_answers") == [("answered",)]
    for sql in ("DELETE FROM answers", "UPDATE questions SET votes = 1", "CREATE TABLE x(i int)"):
        refused("reader", sql)
    for sql in ("DROP TABLE answers", "DELETE FROM questions", "UPDATE reporting_version SET"
                " version_num = '1'", "ALTER TABLE answers ADD COLUMN x int"):  # fmt: skip
        refused("writer", sql)
    with psycopg.connect(roles["owner"]) as connection:
        connection.execute("ALTER TABLE answers ADD COLUMN x int")  # as the next upgrade may
        connection.rollback()
    run(shlex.join([*add[:2], "r", *add[3:], "--reporting", roles["writer"]]))
    delete = ["questions", "delete", "r", "--reporting"]
    denied = CliRunner().invoke(cli, [*delete, roles["writer"]])
    assert "reports_owner, which owns the tables" in str(denied.exception)
    run(shlex.join([*delete, roles["owner"]]))
    wanted = "role reports_reader needs that right, or reports_owner, which owns the tables"
    with ReportingStore(roles["reader"]) as store, pytest.raises(InfrastructureError, match=wanted):
        store.write_answer(_answer(question, "city"))


def test_a_role_that_works_in_a_schema_of_the_superuser_is_not_warned(postgresql_server):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("CREATE ROLE app LOGIN; CREATE SCHEMA place")
        connection.execute("GRANT USAGE, CREATE ON SCHEMA place TO app")
        connection.execute("ALTER ROLE app SET search_path = place")
        said = upgraded(postgresql_server.replace("postgres:@", "app:@"))
        connection.execute("DROP SCHEMA place CASCADE; DROP OWNED BY app; DROP ROLE app")
    assert "to 0004" in said and "warning" not in said


def test_the_page_names_every_check():
    from assets.reporting.answers import report_answers

    checks = {spec.name for spec in report_answers.check_specs}
    named = set(
        re.findall(
            r"`(\w+)`", TEXT.partition("The asset's checks:")[2].partition("The asset is late")[0]
        )
    )
    assert checks == named
