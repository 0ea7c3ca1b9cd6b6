"""A program that starts a run and follows it: how it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from text2sql.ending import FAILED, ending_with_its_reader, hold_standard_output, last_words
from text2sql.errors import Text2SqlError
from text2sql.stopping import Stopped, stop_on_signals


def run_program(main: Callable[[list[str]], None]) -> int:
    """Run a program on its arguments to its end, or until it is stopped; return its exit status."""
    stop_on_signals()
    hold_standard_output()
    try:
        with ending_with_its_reader():
            main(sys.argv[1:])
            sys.stdout.flush()
    except click.exceptions.Exit as left:
        return left.exit_code
    except Text2SqlError as error:
        return _tell(f"error: {error}", error.exit_code)
    except OSError as error:
        return _tell(f"error: {error.filename or 'The output'}: {error.strerror or error}.", FAILED)
    except Stopped as stopped:
        return _tell("stopped; run it again to go on", stopped.status)
    return 0


def _tell(sentence: str, status: int) -> int:
    """Say why it ends, below the line that moves on a terminal."""
    below = "\n" if sys.stdout.isatty() else ""
    last_words(f"{below}{sentence}", err=True)
    return status
