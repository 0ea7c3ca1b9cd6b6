"""A program that starts a run and follows it: how it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable

from text2sql.errors import Text2SqlError
from text2sql.stopping import Stopped, stop_on_signals


def run_program(main: Callable[[list[str]], None]) -> int:
    """Run a program on its arguments to its end, or until it is stopped; return its exit status."""
    stop_on_signals()
    try:
        main(sys.argv[1:])
    except Text2SqlError as error:
        return _tell(f"error: {error}", error.exit_code)
    except Stopped as stopped:
        return _tell("stopped; run it again to go on", stopped.status)
    return 0


def _tell(sentence: str, status: int) -> int:
    """Say why it ends, below the line that moves on a terminal."""
    below = "\n" if sys.stdout.isatty() else ""
    print(f"{below}{sentence}", file=sys.stderr)
    return status
