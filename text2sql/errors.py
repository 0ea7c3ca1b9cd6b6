"""The two kinds of failure that users see, and what somebody who mistyped a name meant."""

from __future__ import annotations

from collections.abc import Iterable


class Text2SqlError(Exception):
    """A problem the user can fix; ``str(error)`` is one sentence: what, where, what to do.

    The command line prints it and exits with ``exit_code``; Dagster shows it as the failure.
    """

    exit_code = 1


class InfrastructureError(Text2SqlError):
    """A server, worker or disk failed: whatever was running is invalid, never wrong."""

    exit_code = 6


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the known name closest to one, empty if none is close."""
    import difflib  # here: sandbox workers start without it

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f" Did you mean {near[0]!r}?" if near else ""
