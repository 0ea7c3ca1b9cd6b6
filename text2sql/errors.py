"""The two kinds of failure that a user or a caller is told about."""


class Text2SqlError(Exception):
    """Something the user can mend; ``str(error)`` is one sentence: what, where, what to do.

    The command line prints it and leaves with ``exit_code``; Dagster shows it as the failure.
    """

    exit_code = 1


class InfrastructureError(Text2SqlError):
    """A server, worker or disk failed: whatever was in flight is invalid, never wrong."""

    exit_code = 6
