"""How a stage fails: with one sentence, which Dagster shows before its stack of frames."""

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
    """What a person can mend; Dagster shows its sentence as it is."""


def told(stage: Stage) -> Stage:
    """Let a stage, a step or a check fail with the sentence of its Text2SqlError.

    Other exceptions are mistakes in the code: they pass as they are.
    """
    if inspect.isgeneratorfunction(stage):

        @wraps(stage)
        def generate(*arguments: Any, **named: Any) -> Iterator[Any]:
            with _told():
                yield from stage(*arguments, **named)

        return generate  # type: ignore[return-value]

    @wraps(stage)
    def run(*arguments: Any, **named: Any) -> Any:
        with _told():
            return stage(*arguments, **named)

    return run  # type: ignore[return-value]


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except Text2SqlError as error:
        raise StageFailed(str(error)) from error
