"""Where commands read and write: an output never takes the place of what is read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from text2sql.errors import Text2SqlError


def require_apart(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Raise Text2SqlError where an output is one of the inputs, or one that was named before."""
    read = {os.path.realpath(file) for file in inputs if file is not None}
    written: set[str] = set()
    for file in outputs:
        if file is None:
            continue
        place = os.path.realpath(file)
        if place in read:
            raise Text2SqlError(f"{file} is read and would be replaced; write to another file.")
        if place in written:
            raise Text2SqlError(f"{file} would be written twice; give each output its own file.")
        written.add(place)
