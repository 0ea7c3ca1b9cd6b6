"""The two kinds of failure that users see."""


class Text2SqlError(Exception):
    """A problem the user can fix; ``str(error)`` is one sentence: what, where, what to do.

    The command line prints it and exits with ``exit_code``; Dagster shows it as the failure.
    """

    exit_code = 1


class InfrastructureError(Text2SqlError):
    """A server, worker or disk failed: whatever was running is invalid, never wrong."""

    exit_code = 6
