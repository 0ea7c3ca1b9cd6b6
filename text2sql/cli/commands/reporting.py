"""``text2sql reporting``: migrate the reporting tables."""

from __future__ import annotations

import json

import click

from text2sql.cli.options.reporting import require_file, with_url
from text2sql.cli.options.types import json_flag
from text2sql.cli.options.usage import NamingGroup
from text2sql.errors import Text2SqlError

_OLD = 3


@click.group(cls=NamingGroup)
def command() -> None:
    """Migrate the reporting tables to this release's version.

    A SQLite file is upgraded when it is opened. PostgreSQL tables are upgraded by their owner:
    run upgrade with the owner's role before the first run and after an update.
    """


@command.command()
@json_flag
@with_url
def status(url: str, as_json: bool) -> None:
    """Print the version of the tables and the one that is needed.

    \b
    Exit status:
      0  the tables have the version that this release needs
      1  they are newer than this release, or belong to another program
      3  they are missing, older or without their view: run upgrade
      6  the database is down
    """
    from text2sql.reporting.tables.database import Database
    from text2sql.reporting.tables.migrating import refuse_newer, schema_status

    try:
        require_file(url)
    except Text2SqlError as error:
        error.exit_code = _OLD
        raise
    with Database(url) as database, database.named_errors():
        found, name = schema_status(database.engine), database.name
    refuse_newer(found, name)
    if as_json:
        versions = {"found": found.found, "needed": found.needed}
        click.echo(json.dumps({"database": name, **versions, "complete": found.complete}))
    else:
        lacks = "; the view latest_answers is missing" if found.lacks_view else ""
        click.echo(f"{name}: version {found.found or 'none'}, needed: {found.needed}{lacks}")
    raise SystemExit(0 if found.complete else _OLD)


@command.command("upgrade")
@json_flag
@with_url
def upgrade_(url: str, as_json: bool) -> None:
    """Create the tables or migrate them to this release's version.

    All or nothing. Tables without a version number, from an older release, are migrated too;
    nothing is lost.
    """
    from text2sql.reporting.tables.database import Database, table_owners
    from text2sql.reporting.tables.migrating import upgrade

    with Database(url) as database, database.named_errors():
        before, name = upgrade(database.writer), database.name
        owners = table_owners(database.engine)
    if as_json:
        click.echo(json.dumps({"database": name, "found": before.found, "needed": before.needed}))
    elif before.lacks_view:
        click.echo(f"{name}: version {before.needed}; the view latest_answers was recreated")
    elif before.current:
        click.echo(f"{name}: version {before.needed} already; nothing to do")
    else:
        click.echo(f"{name}: from version {before.found or 'none'} to {before.needed}")
    if owners is not None and owners.mismatch:
        click.echo(f"warning: {owners.advice()}.", err=True)
