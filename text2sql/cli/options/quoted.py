"""An argument that is a text with spaces in it: a question, a statement."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import click


def quoted(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command an argument, and say what to do where the shell split it into words."""
    metavar = name.upper()

    def one(context: click.Context, argument: click.Parameter, words: tuple[str, ...]) -> str:
        if len(words) > 1:
            raise click.UsageError(
                f"The {name} is {len(words)} arguments; put it in quotes, like "
                f"{shlex.quote(' '.join(words))}."
            )
        return words[0]

    return click.argument(name, nargs=-1, required=True, metavar=metavar, callback=one)
