"""What plain ``dagster`` commands print where the project refuses to load: its sentence alone.

Dagster imports this package in its own program and lets what it raises end that program, with a
stack of thirty frames above the sentence. In its code servers Dagster catches it first.
"""

from __future__ import annotations

import sys
from types import TracebackType

from text2sql.errors import Text2SqlError


def tell_sentences() -> None:
    """Print an uncaught Text2SqlError as one sentence from now on, and all others as before."""
    before = sys.excepthook

    def told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, Text2SqlError):
            print(f"error: {error}", file=sys.stderr)
        else:
            before(kind, error, trace)

    sys.excepthook = told
