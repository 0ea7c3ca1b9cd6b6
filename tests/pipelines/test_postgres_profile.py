"""Dagster's records in a real PostgreSQL, as deploy/postgres/dagster.yaml describes it."""

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from pipelines.home import CONFIG_VARIABLE, open_instance
from pipelines.runs.launch import ASSETS, CommandRuns
from pipelines.runs.records import records_error
from tests.support.reporting_databases import postgresql_server
from text2sql.errors import InfrastructureError, Text2SqlError

__all__ = ["postgresql_server"]
REPO = Path(__file__).resolve().parents[2]
PROFILE = "deploy/postgres/dagster.yaml"


@pytest.fixture
def database(postgresql_server, tmp_path, monkeypatch):
    """An empty database for Dagster, the environment that names it, and how to ask it."""
    psycopg = pytest.importorskip("psycopg")
    pytest.importorskip("dagster_postgres")
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS dagster")
        connection.execute("CREATE DATABASE dagster")
        folder = connection.info.host
    # Without a host libpq takes PGHOST, here the folder of the server's socket.
    named = {"HOST": "", "PORT": "5432", "DB": "dagster", "USERNAME": "postgres", "PASSWORD": "x"}
    for name, value in named.items():
        monkeypatch.setenv(f"DAGSTER_PG_{name}", value)
    monkeypatch.setenv("PGHOST", folder)
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setenv(CONFIG_VARIABLE, PROFILE)
    return f"host={folder} user=postgres dbname=dagster"


def rows(database: str, sql: str) -> list[tuple]:
    """Ask Dagster's database."""
    import psycopg

    with psycopg.connect(database) as connection:
        return connection.execute(sql).fetchall()


def test_profile_is_the_default_one_with_another_storage():
    default = yaml.safe_load((REPO / "dagster.yaml").read_text())
    profile = yaml.safe_load((REPO / PROFILE).read_text())
    assert profile.pop("storage")["postgres"]["postgres_db"]["scheme"] == "postgresql+psycopg2"
    assert profile == default


def test_a_run_its_events_its_pools_and_schedules_are_in_postgresql(database, tmp_path):
    with open_instance() as instance:
        job = [
            sys.executable,
            "-m",
            "dagster",
            "job",
            "execute",
            "-f",
            "tests/resources/gpu_job.py",
        ]
        done = subprocess.run(job, cwd=REPO, env=os.environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "DEBUG" not in done.stderr  # all is well: only what the stages say
        (run,) = instance.get_runs()
        assert run.status is dg.DagsterRunStatus.SUCCESS
    assert rows(database, "SELECT run_id, status FROM runs") == [(run.run_id, "SUCCESS")]
    events = "SELECT dagster_event_type FROM event_logs WHERE run_id = %s"
    found = {kind for (kind,) in rows(database, events.replace("%s", f"'{run.run_id}'"))}
    assert {"PIPELINE_SUCCESS", "STEP_SUCCESS"} <= found
    limits = dict(rows(database, 'SELECT concurrency_key, "limit" FROM concurrency_limits'))
    assert limits == {"gpu": 1, "sampling": os.cpu_count()}
    assert rows(database, "SELECT count(*) FROM jobs") == [(0,)]
    assert not list((tmp_path / "root").rglob("*.db"))


def test_a_run_of_a_command_is_in_postgresql_with_its_origin(database, tmp_path):
    with open_instance() as instance, CommandRuns(instance, tmp_path / "log") as runs:
        progress = runs.run(ASSETS, "", {}, [dg.AssetKey("report_questions")])
    ((status, tags),) = rows(
        database,
        "SELECT status, (SELECT string_agg(value, ' ') FROM run_tags t WHERE t.run_id = r.run_id"
        f" AND key = 'dagster/code_location') FROM runs r WHERE run_id = '{progress.run_id}'",
    )
    assert (status, tags) == ("SUCCESS", "pipelines.definitions")
    assert not list((tmp_path / "root").rglob("*.db"))


def test_a_variable_that_is_not_set_is_named(database, monkeypatch):
    monkeypatch.delenv("DAGSTER_PG_HOST")
    with pytest.raises(Text2SqlError, match="are not set: DAGSTER_PG_HOST"):
        open_instance()


def test_a_database_that_is_away_is_one_sentence(database, monkeypatch):
    import dagster_postgres.utils

    monkeypatch.setattr(dagster_postgres.utils.time, "sleep", lambda seconds: None)
    monkeypatch.setenv("DAGSTER_PG_HOST", "127.0.0.1")
    monkeypatch.setenv("DAGSTER_PG_PORT", "9")
    with pytest.raises(InfrastructureError, match=r"database cannot be reached: .*port 9 failed"):
        open_instance()


GONE = """
import psycopg
from pipelines.home import open_instance


def main(arguments):
    with open_instance() as instance:
        with psycopg.connect(arguments[0].replace("=dagster", "=postgres"), autocommit=True) as one:
            one.execute("DROP DATABASE dagster WITH (FORCE)")
        instance.get_runs()
"""


def test_a_database_that_goes_away_ends_a_program_in_one_sentence(database, tmp_path, monkeypatch):
    (tmp_path / "goes_away.py").write_text(GONE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{REPO}")
    program = (
        "import sys; from pipelines.programs.program import run_program as run; "
        "sys.exit(run('goes_away'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, database], capture_output=True, text=True, cwd=REPO
    )
    assert done.returncode == 6, done.stderr
    assert done.stderr.startswith("error: Dagster's database cannot be reached: ")
    assert done.stderr.endswith('database "dagster" does not exist. Run it again to go on.\n')
    assert done.stderr.count("\n") == 1


def test_errors_of_others_are_none_of_the_records():
    assert records_error(ValueError("x")) is None
