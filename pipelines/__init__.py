"""When and how it runs: definitions, jobs, schedules, the whole life in one command and the UI."""

from __future__ import annotations

import sys
from types import TracebackType

from text2sql.errors import Text2SqlError

_previous_hook = sys.excepthook


def _print_sentence(kind: type[BaseException], error: BaseException, trace: TracebackType) -> None:
    """Print an uncaught Text2SqlError as its sentence alone.

    Plain ``dagster`` commands import this package in their own program: if the project refuses to
    load, they would print thirty frames above the sentence.
    """
    if isinstance(error, Text2SqlError):
        print(f"error: {error}", file=sys.stderr)
    else:
        _previous_hook(kind, error, trace)


sys.excepthook = _print_sentence  # type: ignore[assignment]
