"""The view of each question, with typed columns: the latest published answer's rows."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from text2sql.common.render import quoted
from text2sql.errors import Text2SqlError
from text2sql.reporting.model.answer import AnswerStatus
from text2sql.reporting.model.values import Column, free_name, safe_name, wider
from text2sql.reporting.tables import schema as tables

MOST_COLUMNS = 1500
"""Columns of an answer that its view has: PostgreSQL allows 1,600 in all, SQLite 2,000."""
_VIEW_SECONDS = 10
"""How long to wait for a view that somebody reads."""
_answers = tables.answers
_log = logging.getLogger(__name__)
# The columns that every view has beside the answer's own.
_ABOUT = (("answer_id", "id"), ("answer_scheduled_at", "scheduled_at"), ("answer_share", "share"))

# How to read the cell ``{name}`` of each type, a JSON scalar. SQLite would read the text 'Infinity'
# as 0.0, and has no NaN: there it is NULL.
_SQLITE_CELL = "json_extract(r.cells, '$.\"{name}\"')"
_SQLITE_TEXT = f"CAST({_SQLITE_CELL} AS TEXT)"
_SQLITE_TYPES = {
    "integer": f"CAST({_SQLITE_CELL} AS INTEGER)",
    "real": f"CASE {_SQLITE_CELL} WHEN 'Infinity' THEN 9e999 WHEN '-Infinity' THEN -9e999"
    f" WHEN 'NaN' THEN NULL ELSE CAST({_SQLITE_CELL} AS REAL) END",
    "text": _SQLITE_TEXT,
    "blob": _SQLITE_TEXT
    + " || CASE json_extract(r.marks, '$.\"{name}\"') WHEN 'cut_blob' THEN '... [cut]' ELSE '' END",
    "null": _SQLITE_TEXT,
}
# A view that could not be replaced reads the cells of later answers too: there, text in a column
# of numbers is an error of the reader's query, never a NULL.
_CELL = "(r.cells ->> '{name}')"
_POSTGRESQL_TYPES = {
    "integer": f"CAST({_CELL} AS bigint)",
    "real": f"CAST({_CELL} AS double precision)",
    "text": _CELL,
    "blob": f"{_CELL} || CASE r.marks ->> '{{name}}' WHEN 'cut_blob' THEN '... [cut]' ELSE '' END",
    "null": _CELL,
}
# The views that read a view, directly or not, the nearest first; a path may reach one twice. A
# table whose rule reads one is left out: PostgreSQL then refuses to drop the view, which stays.
_READERS = """
WITH RECURSIVE readers AS (
    SELECT CAST(:view AS regclass)::oid AS oid, 0 AS depth
    UNION
    SELECT rule.ev_class, readers.depth + 1
    FROM readers JOIN pg_depend AS link ON link.refobjid = readers.oid
         AND link.classid = 'pg_rewrite'::regclass
    JOIN pg_rewrite AS rule ON rule.oid = link.objid AND rule.ev_class <> readers.oid
    JOIN pg_class AS reader ON reader.oid = rule.ev_class AND reader.relkind IN ('v', 'm')
)
SELECT c.oid, c.relkind::text AS kind,
       quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name,
       pg_get_viewdef(c.oid) AS definition, c.reloptions AS options,
       quote_ident(pg_get_userbyid(c.relowner)) AS owner,
       pg_get_userbyid(c.relowner) = current_user AS own,
       obj_description(c.oid, 'pg_class') AS comment
FROM (SELECT oid, max(depth) AS depth FROM readers GROUP BY oid) AS found
JOIN pg_class AS c ON c.oid = found.oid JOIN pg_namespace AS n ON n.oid = c.relnamespace
ORDER BY found.depth
"""
_GRANTS = """
SELECT acl.privilege_type AS privilege, given.attribute, acl.is_grantable,
       CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END
       AS role
FROM (
    SELECT relowner, NULL AS attribute, relacl AS acl FROM pg_class WHERE oid = :oid
    UNION ALL
    SELECT c.relowner, a.attname, a.attacl
    FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid WHERE c.oid = :oid
) AS given, aclexplode(given.acl) AS acl
WHERE acl.grantee <> given.relowner
"""
_COMMENTS = """
SELECT attname AS attribute, col_description(attrelid, attnum) AS comment FROM pg_attribute
WHERE attrelid = :oid AND attnum > 0 AND col_description(attrelid, attnum) IS NOT NULL
"""
# Who has rights on a view that was just made: those of the schema's default privileges.
_GIVEN = """
SELECT DISTINCT
       CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END
FROM pg_class AS c, aclexplode(c.relacl) AS acl
WHERE c.oid = CAST(:view AS regclass) AND acl.grantee <> c.relowner
"""
_INDEXES = "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = :oid"


def refresh_view(connection: Connection, question_id: str) -> None:
    """Give the question's view the columns of the latest published answer.

    A column's type is wide enough for every answer that was published, so that a NULL or a whole
    number among fractions changes nothing for its readers. Recreates a view that somebody dropped.
    If PostgreSQL cannot replace a view, or somebody reads it for long, the old one stays, with a
    warning in the log; the next answer tries again.
    """
    published = [_answers.c.question_id == question_id, _answers.c.status == AnswerStatus.ANSWERED]
    latest = sa.select(_answers.c.columns).where(*published)
    columns = connection.scalar(latest.order_by(_answers.c.scheduled_at.desc()).limit(1))
    table = tables.questions
    about = sa.select(table.c.view_name, table.c.view_columns).where(table.c.id == question_id)
    try:
        view, current = connection.execute(about).one()
    except ValueError as error:
        raise Text2SqlError(f"invalid view_columns: {error}") from error
    if columns is None:
        return
    # The same few lists for years, so each is read once.
    different = sa.select(sa.cast(_answers.c.columns, sa.Text)).where(*published).distinct()
    types: dict[str, str] = {}
    for text in connection.scalars(different):
        for column in json.loads(text):
            name, kind = column["name"], column["type"]
            types[name] = wider(types.get(name, "null"), kind)
    shown = [replace(one, type=types[one.name]) for one in (Column(**c) for c in columns)]
    wanted = list(map(asdict, shown))
    if wanted == current and exists(connection, view):
        return
    try:
        with connection.begin_nested():
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_VIEW_SECONDS}s'")
            replace_view(connection, view, question_id, shown)
            mine = sa.update(table).where(table.c.id == question_id)
            connection.execute(mine.values(view_columns=wanted))
    except DBAPIError as error:
        _log.warning("view %s keeps its columns: %s", view, error.orig)


def free_view_name(connection: Connection, question_id: str, taken: Collection[str]) -> str:
    """Return a name for a question's view that no other view or table has, whoever made it.

    If the usual name is taken (``a_b`` by ``a-b``), a hash of the id follows it.
    """
    name = f"answer_{safe_name(question_id)}"
    if name not in (*taken, *tables.metadata.tables) and not exists(connection, name):
        return name
    return f"{name}_{hashlib.sha256(question_id.encode()).hexdigest()[:6]}"


def exists(connection: Connection, name: str) -> bool:
    """Whether a view or a table has this name."""
    return sa.inspect(connection).has_table(name)


def replace_view(
    connection: Connection, view: str, question_id: str, columns: Sequence[Column]
) -> None:
    """Make the view of a question show its latest published answer with these columns.

    Cells are read by name: a column that a later answer lacks is NULL. The view has at most the
    first ``MOST_COLUMNS`` columns. On PostgreSQL the views that read it are made again, and all
    keep their owners, options, comments and exactly their grants.
    """
    # Nothing here can end a name or a string: columns are letters, digits and ``_``
    # (``values.safe_name``), ``ReportQuestion`` checks the id, and the view's name, which a person
    # may have edited, is quoted.
    on_server = connection.dialect.name == "postgresql"
    typed = _POSTGRESQL_TYPES if on_server else _SQLITE_TYPES
    names = [column.name for column in columns[:MOST_COLUMNS]]
    shown = [
        f'{typed[column.type].format(name=column.name)} AS "{column.name}"'
        for column in columns[:MOST_COLUMNS]
    ]
    for label, source in _ABOUT:
        names.append(free_name(label, names))
        shown.append(f'a.{source} AS "{names[-1]}"')
    create = (
        f"CREATE VIEW {quoted(view)} AS SELECT {', '.join(shown)}"
        " FROM answers a JOIN answer_rows r ON r.answer_id = a.id WHERE a.id = ("
        f"SELECT b.id FROM answers b WHERE b.question_id = '{question_id}'"
        " AND b.status = 'answered' ORDER BY b.scheduled_at DESC LIMIT 1)"
        " ORDER BY r.position"
    )
    if not on_server or not exists(connection, view):
        _run(connection, f"DROP VIEW IF EXISTS {quoted(view)}", create)
        return
    mine, *readers = connection.execute(sa.text(_READERS), {"view": quoted(view)}).all()
    # All is read before anything is dropped.
    again = [(mine, [create], [*_options(mine), *_as_before(connection, mine, names)])]
    for reader in readers:
        options = f" WITH ({', '.join(reader.options)})" if reader.options else ""
        definition = reader.definition.rstrip("; \n")
        made = [f"CREATE {_KINDS[reader.kind]} {reader.name}{options} AS {definition}"]
        made += connection.scalars(sa.text(_INDEXES), {"oid": reader.oid})
        again.append((reader, made, list(_as_before(connection, reader, None))))
    for gone in (*readers[::-1], mine):
        _run(connection, f"DROP {_KINDS[gone.kind]} {gone.name}")
    for one, made, before in again:
        _run(connection, *made)
        given = connection.scalars(sa.text(_GIVEN), {"view": one.name})
        _run(connection, *[f"REVOKE ALL ON {one.name} FROM {role}" for role in given], *before)


_KINDS = {"v": "VIEW", "m": "MATERIALIZED VIEW"}


def _options(view: sa.Row[Any]) -> Iterator[str]:
    """Yield the statement that gives a view its options again, such as ``security_invoker``."""
    if view.options:
        yield f"ALTER VIEW {view.name} SET ({', '.join(view.options)})"


def _as_before(
    connection: Connection, view: sa.Row[Any], columns: Sequence[str] | None
) -> Iterator[str]:
    """Yield statements that give a view its comments, grants and owner again.

    Those of columns that it no longer has are left out; with None it has the same ones.
    """
    kind, oid = _KINDS[view.kind], {"oid": view.oid}
    if view.comment is not None:
        yield f"COMMENT ON {kind} {view.name} IS {_text(view.comment)}"
    for one in connection.execute(sa.text(_COMMENTS), oid).all():
        if columns is None or one.attribute in columns:
            yield f"COMMENT ON COLUMN {view.name}.{quoted(one.attribute)} IS {_text(one.comment)}"
    for one in connection.execute(sa.text(_GRANTS), oid).all():
        if columns is None or one.attribute is None or one.attribute in columns:
            part = f" ({quoted(one.attribute)})" if one.attribute is not None else ""
            more = " WITH GRANT OPTION" if one.is_grantable else ""
            yield f"GRANT {one.privilege}{part} ON {view.name} TO {one.role}{more}"
    if not view.own:
        yield f"ALTER {kind} {view.name} OWNER TO {view.owner}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _run(connection: Connection, *statements: str) -> None:
    """Run statements as they are: a ``%`` in another's view is no parameter."""
    for statement in statements:
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
