"""Usage errors that name the fix: a mistyped command, an unquoted text, paths that clash."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from text2sql.errors import Text2SqlError, did_you_mean


class NamingGroup(click.Group):
    """A group that names the nearest command when the given one does not exist."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or name the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(error.message + near, ctx) from error


def quoted(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command an argument with spaces in it, and say what to do if the shell split it."""

    def one(context: click.Context, argument: click.Parameter, words: tuple[str, ...]) -> str:
        if len(words) > 1:
            text = shlex.quote(" ".join(words))
            raise click.UsageError(
                f"The {name} is {len(words)} arguments; put it in quotes, like {text}."
            )
        return words[0]

    return click.argument(name, nargs=-1, required=True, metavar=name.upper(), callback=one)


def require_apart(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Raise Text2SqlError if an output is one of the inputs, or the same as another output."""
    read = {os.path.realpath(file) for file in set(inputs) if file is not None}
    written: set[str] = set()
    for file in filter(None, outputs):
        place = os.path.realpath(file)
        if place in read:
            raise Text2SqlError(f"{file} is an input and would be replaced; write to another file.")
        if place in written:
            raise Text2SqlError(f"{file} would be written twice; give each output its own file.")
        written.add(place)
