"""Who owns the reporting tables on a PostgreSQL server: nobody else can bring them up to date."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

_PAGE = 'see "Tables that the wrong role owns" in docs/reports.md'
_QUERY = """
SELECT current_user AS role, place.nspname AS schema, theirs.rolname AS schema_owner,
       theirs.rolcanlogin AND NOT theirs.rolsuper AS logs_in,
       pg_get_userbyid(made.relowner) AS tables_owner
FROM pg_namespace AS place
JOIN pg_roles AS theirs ON theirs.oid = place.nspowner
JOIN pg_class AS made ON made.relnamespace = place.oid AND made.relname = 'questions'
WHERE place.nspname = current_schema()
"""


@dataclass(frozen=True)
class Owners:
    """The role that asks, its schema with its owner, and the owner of the tables in it.

    ``logs_in`` tells whether the schema's owner is a role for its tables, as in docs/reports.md:
    neither a superuser nor one that nobody uses, as PostgreSQL's own of the schema public.
    """

    role: str
    schema: str
    schema_owner: str
    logs_in: bool
    tables_owner: str

    @property
    def apart(self) -> bool:
        """Whether the tables were made by another role than the one that the schema is for."""
        return self.logs_in and self.schema_owner != self.tables_owner

    def mend(self) -> str:
        """Return whose the tables are, whose they should be, and where the statements stand."""
        return (
            f"the tables belong to the role {self.tables_owner}, which made them, and the schema"
            f" {self.schema} to {self.schema_owner}: only {self.tables_owner} can upgrade them,"
            f" until an administrator gives them to {self.schema_owner}, {_PAGE}"
        )


def table_owners(engine: Engine) -> Owners | None:
    """Look who owns the tables; None on SQLite, and where the role finds no tables."""
    if engine.dialect.name != "postgresql":
        return None
    with engine.connect() as connection:
        row = connection.execute(sa.text(_QUERY)).one_or_none()
    return Owners(**row._mapping) if row else None


def missing_right(engine: Engine) -> str:
    """Say what to do where the server refused a right to the role in the URL."""
    try:
        owners = table_owners(engine)
    except DBAPIError:
        owners = None
    if owners is None:
        return "the role in the URL needs that right: see PostgreSQL in docs/reports.md"
    if owners.apart:
        return owners.mend()
    if owners.role == owners.tables_owner:
        return f"the role {owners.role} needs that right: see PostgreSQL in docs/reports.md"
    return (
        f"the role {owners.role} needs that right, or {owners.tables_owner}, which owns the tables,"
        " does this: see PostgreSQL in docs/reports.md"
    )
