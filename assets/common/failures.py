"""How a stage fails: with one sentence, which Dagster shows before the stack trace."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import dagster as dg

from text2sql.errors import Text2SqlError

Stage = TypeVar("Stage", bound=Callable[..., Any])


class StageFailed(dg.Failure, Text2SqlError):
    """An error that a person can fix; Dagster shows its sentence unchanged."""


def fails_in_a_sentence(stage: Stage) -> Stage:
    """Make a stage, step or check fail with the sentence of its Text2SqlError.

    Other exceptions are bugs in the code and pass through unchanged.
    """
    if not inspect.isgeneratorfunction(stage):
        return _one_sentence()(stage)

    @wraps(stage)
    def generate(*arguments: Any, **named: Any) -> Iterator[Any]:
        with _one_sentence():
            yield from stage(*arguments, **named)

    return generate  # type: ignore[return-value]


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
    except Text2SqlError as error:
        raise StageFailed(str(error)) from error
