"""What answers are made and kept with: the sandbox and the reporting database."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from text2sql.cli.doctor.finding import Finding, State
from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError
from text2sql.reporting.tables.location import URL_VARIABLE, reporting_url
from text2sql.sandbox import Limits, Sandbox, Status

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_CONNECT_SECONDS = "5"


def check_sandbox() -> Iterable[Finding]:
    """Run a query in the sandbox, and see it refuse a write."""
    with tempfile.TemporaryDirectory() as folder, Sandbox(workers=1) as sandbox:
        database = Path(folder) / "doctor.sqlite"
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2);")
        read = sandbox.execute(database, "SELECT count(*) FROM t", Limits(keep_rows=1))
        wrote = sandbox.execute(database, "DELETE FROM t")
        after = sandbox.execute(database, "SELECT count(*) FROM t", Limits(keep_rows=1))
        confined = sandbox.confined
    mend = "check that this Python's sqlite3 works and that processes can be started here"
    if read.rows != ((2,),):
        yield Finding("sandbox", State.FAIL, f"a query failed: {read.error or read.rows}", mend)
    elif wrote.status is not Status.WRITE or after.rows != read.rows:
        yield Finding("sandbox", State.FAIL, f"a write was not refused: {wrote.status}", mend)
    else:
        kernel = "as does the kernel" if confined else "the kernel has no filter (seccomp) for it"
        found = f"runs a query in {read.seconds * 1000:.1f} ms and refuses a write; {kernel}"
        yield Finding("sandbox", State.OK, found)


def check_reporting() -> Iterable[Finding]:
    """Connect to the reporting database, where there is one; nothing is written or made."""
    name = "reporting database"
    try:
        from text2sql.reporting.tables.location import parse_url
    except ImportError:
        mend = "pip install 'text2sql-lifecycle[reporting]' where you need it"
        yield Finding(name, State.WARN, "the extra 'reporting' is not installed", mend)
        return
    given = reporting_url()
    try:
        url = parse_url(given)
    except Text2SqlError as error:
        mend = f"set {URL_VARIABLE} to sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        yield Finding(name, State.FAIL, str(error), mend)
        return
    yield _sqlite(name, url) if url.get_backend_name() == "sqlite" else _server(name, url)


def _sqlite(name: str, url: URL) -> Finding:
    file = Path(url.database or "")
    if not file.is_file():
        return Finding(name, State.OK, f"{file} is not there yet; the first answers make it")
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as found:
            (answers,) = found.execute("SELECT count(*) FROM answers").fetchone()
    except sqlite3.Error as error:
        mend = f"restore the file, or name another database with {URL_VARIABLE}"
        return Finding(name, State.FAIL, f"{file}: {error}", mend)
    return Finding(name, State.OK, f"{file}: {counted(answers, 'answer')}")


def _server(name: str, url: URL) -> Finding:
    import sqlalchemy as sa

    from text2sql.reporting.tables.database import open_engine
    from text2sql.reporting.tables.location import shown

    place = shown(url)
    bounded = url.update_query_dict({"connect_timeout": _CONNECT_SECONDS})
    try:
        engine = open_engine(bounded.render_as_string(hide_password=False))
        with engine.connect() as connection:
            there = sa.inspect(connection).has_table("answers")
    except (sa.exc.SQLAlchemyError, ImportError, Text2SqlError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()
        mend = f"start it, or correct {URL_VARIABLE}; PostgreSQL needs the extra 'postgres'"
        return Finding(name, State.FAIL, f"{place}: {reason[0] if reason else 'no reason'}", mend)
    return Finding(name, State.OK, f"{place}{'' if there else ': no tables yet'}")
