"""Reading the URL of a reporting database, and saying what is wrong with one."""

from __future__ import annotations

import os
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from text2sql.errors import Text2SqlError

_DEFAULTS = ("PGDATABASE", "PGSERVICE")
"""Environment variables from which PostgreSQL's client takes a database that no URL names."""

_SQLITE_OPTIONS = {
    *("cached_statements", "check_same_thread", "detect_types", "isolation_level", "timeout"),
}


def parse_url(url: str) -> URL:
    """Return the parts of a URL of PostgreSQL or of an SQLite file, where ``~`` is the home folder.

    Raises Text2SqlError for one that is malformed, or names no database or another kind of one.
    """
    try:
        parsed = sa.make_url(url.strip())  # a secret's file mostly ends with a line break
        backend = parsed.get_backend_name()
    except (ArgumentError, ValueError) as error:
        raise Text2SqlError(
            "the reporting database's URL is malformed; use postgresql://USER@HOST:PORT/DATABASE,"
            " or sqlite:/// before the path of a file, as in sqlite:///reporting.sqlite"
        ) from error
    if "@" in (parsed.host or ""):
        raise Text2SqlError(
            "the reporting database's URL has more than one @: write one in a password as %40"
        )
    if backend in ("postgresql", "postgres"):
        return _postgresql(parsed)
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        return _sqlite(parsed)
    raise Text2SqlError(
        "reporting tables live in an SQLite file (sqlite:///) or in PostgreSQL (postgresql://),"
        f" not in {parsed.drivername!r}"
    )


def _postgresql(url: URL) -> URL:
    named = url.database or {"dbname", "service"} & set(url.query)
    if not named and not any(map(os.environ.get, _DEFAULTS)):
        raise Text2SqlError(
            f"the reporting database's URL {shown(url)} names no database; write it behind the"
            " server, as in postgresql://USER@HOST:PORT/DATABASE"
        )
    return url.set(drivername="postgresql+psycopg")


def _sqlite(url: URL) -> URL:
    file = url.database or ""
    if url.host or not file:
        raise Text2SqlError(
            f"the reporting database's URL {shown(url)} names no file; write three slashes before"
            " its path, as in sqlite:///reporting.sqlite, and four where it begins at the root"
        )
    if file.startswith((":memory:", "file:")):
        raise Text2SqlError(
            f"reporting tables live in an SQLite file or in PostgreSQL, not in {file}"
        )
    if unknown := sorted(set(url.query) - _SQLITE_OPTIONS):
        raise Text2SqlError(
            f"the reporting database's URL {shown(url)} has the option {unknown[0]}, which an"
            " SQLite file does not take: leave it out, or write a ? of the file's name as %3F"
        )
    path = os.path.expanduser(file)
    if Path(path).is_dir():
        raise Text2SqlError(
            f"the reporting database {path} is a folder: name a file, such as"
            f" sqlite:///{Path(path) / 'reporting.sqlite'}"
        )
    return url.set(database=path)


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite database, None for a server's; raises what opening raises."""
    parsed = parse_url(url)
    return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None


def shown(url: URL) -> str:
    """Return a URL without the passwords that it holds, behind the user or behind the ``?``."""
    secret = {name: "hidden" for name in url.query if "pass" in name.lower()}
    plain = url.set(drivername=url.get_backend_name())  # as people write it
    return plain.update_query_dict(secret).render_as_string(hide_password=True)
