"""Numbers of things in sentences: ``1 question``, ``1,534 questions``."""

from __future__ import annotations


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with what it counts: in the singular where it is 1, else in the plural.

    ``several`` is the plural of words that take more than an ``s``: ``counted(1, "query was",
    "queries were")``.
    """
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"
