"""Where the reporting tables are: the default place, and which database URLs are valid."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from text2sql.common.artifacts import artifact_root, reporting_file
from text2sql.errors import Text2SqlError

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

URL_VARIABLE = "TEXT2SQL_REPORTING_URL"
_SQLITE_OPTIONS = {
    *("cached_statements", "check_same_thread", "detect_types", "isolation_level", "timeout")
}


def reporting_url(root: Path | None = None) -> str:
    """Return ``TEXT2SQL_REPORTING_URL``, or the URL of the file below the artifact root."""
    return os.environ.get(URL_VARIABLE) or sqlite_url(reporting_file(root or artifact_root()))


def reporting_place(root: Path) -> str:
    """Return where the tables are, for people: a file's path, or a URL without its password."""
    file, url = reporting_file(root), reporting_url(root)
    return str(file) if url == sqlite_url(file) else shown(parse_url(url))


def sqlite_url(file: Path) -> str:
    """Return the URL of an SQLite file, also of one with ``?`` or ``%`` in its path."""
    path = str(file)
    if not {"?", "%"} & set(path):
        return f"sqlite:///{path}"
    from sqlalchemy.engine import URL

    return URL.create("sqlite", database=path).render_as_string()


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite database, None for a server's; raises like ``parse_url``."""
    parsed = parse_url(url)
    return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None


def refuse_own(own: Path | None, database: Path) -> None:
    """Raise Text2SqlError if ``database``, which the agent would read, is the tables' own file."""
    asked = database.resolve()
    if own is not None and own.exists() and asked.exists() and asked.samefile(own):
        raise Text2SqlError(
            f"{database} has the reporting tables, which the agent may not read: name another "
            "database."
        )


def plain_name(url: URL) -> str:
    """Return what people call a database: its file, or its name and server."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)

    def first(name: str, other: str) -> str:
        value = url.query.get(name) or other
        return value if isinstance(value, str) else value[0]

    server, port = url.host or first("host", "localhost"), url.port or first("port", "")
    named = url.database or first("dbname", "") or os.environ.get("PGDATABASE", "")
    return f"{named or 'the database'} on {server}{f':{port}' if port else ''}"


def shown(url: URL) -> str:
    """Return a URL without its passwords, whether after the user or in the query."""
    secret = {name: "hidden" for name in url.query if "pass" in name.lower()}
    as_written = url.set(drivername=url.get_backend_name())  # without the driver that we add
    return as_written.update_query_dict(secret).render_as_string(hide_password=True)


def parse_url(url: str) -> URL:
    """Parse the URL of a PostgreSQL database or an SQLite file; ``~`` is the home folder.

    Raises Text2SqlError if it is malformed, names no database or names another kind of database.
    """
    import sqlalchemy as sa  # here, because commands name URL_VARIABLE without SQLAlchemy
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = sa.make_url(url.strip())  # a mounted secret usually ends with a line break
        backend = parsed.get_backend_name()
    except (ArgumentError, ValueError) as error:
        raise Text2SqlError(
            "The reporting database's URL is malformed; use postgresql://USER@HOST:PORT/DATABASE,"
            " or sqlite:/// followed by the path of a file, as in sqlite:///reporting.sqlite."
        ) from error
    if "@" in (parsed.host or ""):
        raise Text2SqlError(
            "The reporting database's URL has more than one @: write one in a password as %40."
        )
    if backend in ("postgresql", "postgres"):
        named = parsed.database or {"dbname", "service"} & set(parsed.query)
        # Without a database in the URL, PostgreSQL's client takes it from these variables.
        if not named and not any(map(os.environ.get, ("PGDATABASE", "PGSERVICE"))):
            raise Text2SqlError(
                f"The reporting database's URL {shown(parsed)} names no database; add it after the"
                " server, as in postgresql://USER@HOST:PORT/DATABASE."
            )
        return parsed.set(drivername="postgresql+psycopg")
    in_memory = (parsed.database or "").startswith((":memory:", "file:"))
    if parsed.drivername in ("sqlite", "sqlite+pysqlite") and not in_memory:
        return _sqlite(parsed)
    raise Text2SqlError(
        "Reporting tables live in an SQLite file (sqlite:///) or in PostgreSQL (postgresql://),"
        f" not in {parsed.database if in_memory else parsed.drivername!r}."
    )


def _sqlite(url: URL) -> URL:
    file = url.database or ""
    if url.host or not file:
        raise Text2SqlError(
            f"The reporting database's URL {shown(url)} names no file; put three slashes before"
            " its path, as in sqlite:///reporting.sqlite, and four before an absolute path."
        )
    if unknown := sorted(set(url.query) - _SQLITE_OPTIONS):
        raise Text2SqlError(
            f"The reporting database's URL {shown(url)} has the option {unknown[0]}, which an"
            " SQLite file does not take: remove it, or write a ? in the file's name as %3F."
        )
    path = os.path.expanduser(file)
    if Path(path).is_dir():
        raise Text2SqlError(
            f"The reporting database {path} is a folder: name a file, such as"
            f" sqlite:///{Path(path) / 'reporting.sqlite'}."
        )
    return url.set(database=path)
