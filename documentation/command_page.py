"""The reference of the command line: the help of every command, as a terminal shows it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from text2sql.cli.main import cli

WIDTH = 90


def page() -> str:
    """Return the page, with a section for each command."""
    parts = [
        "# Commands",
        "What `--help` says. Exit statuses in one place: [exit statuses](exit-statuses.md).",
    ]
    for path, help_text in command_helps():
        depth = min(len(path), 2) + 1
        parts += [f"{'#' * depth} {' '.join(path)}", f"```text\n{help_text}\n```"]
    return "\n\n".join(parts) + "\n"


def command_helps() -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the words that call a command and its help, for the program and every command."""
    for path, context in command_contexts():
        yield path, context.get_help()


def command_contexts() -> Iterator[tuple[tuple[str, ...], click.Context]]:
    """Yield every command, groups before their commands."""
    root = click.Context(cli, info_name="text2sql", terminal_width=WIDTH, max_content_width=WIDTH)
    yield from _below((), root)


def _below(
    above: tuple[str, ...], context: click.Context
) -> Iterator[tuple[tuple[str, ...], click.Context]]:
    path = (*above, str(context.info_name))
    yield path, context
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                yield from _below(
                    path, click.Context(child, parent=context, info_name=name, terminal_width=WIDTH)
                )
