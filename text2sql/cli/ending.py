"""How a command ends: its exit status, and one sentence for an error; ``--verbose`` shows more."""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from text2sql.common.render import for_terminal
from text2sql.errors import Text2SqlError

FAILED = 1
OUTPUT = "Cannot write the output"
BUG = 70
"""An unexpected error (EX_SOFTWARE of sysexits.h)."""
INTERRUPTED = 130
"""Ctrl-C: 128 + SIGINT, as shells count."""
PIPE_CLOSED = 141
"""The reader of the output stopped (``text2sql ask … | head -1``): 128 + SIGPIPE."""

_log = logging.getLogger("text2sql")


def run(program: click.Group) -> int:
    """Run a command line and return its exit status; a failure is one sentence on stderr."""
    fail_on_closed_output()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # Write what the terminal's encoding lacks as escapes instead of failing.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return int(program.main(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except Text2SqlError as error:
        return _report(str(error), error.exit_code)
    except OSError as error:
        return _report(f"{error.filename or OUTPUT}: {error.strerror or error}.", FAILED)
    except Exception as error:  # noqa: BLE001 - the program ends here
        return _report(
            f"unexpected {type(error).__name__}: {error}. This is a bug in text2sql: please report "
            "it with the output of 'text2sql --verbose COMMAND …'.",
            BUG,
        )


def fail_on_closed_output() -> None:
    """Make writes fail if standard output is closed (``>&-``), as on a full disk.

    Python has no stream for it then, and would silently drop what is printed.
    """
    if sys.stdout is None:
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass  # what is opened next must not get the number of a standard stream
        os.close(number)
        sys.stdout = _Closed()


class _Closed(io.TextIOBase):
    """A stream that cannot be written."""

    def write(self, text: str) -> int:
        """Fail as a write to a closed descriptor does."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def _report(sentence: str, status: int) -> int:
    _log.debug("traceback:", exc_info=True)
    click.echo(f"error: {for_terminal(sentence)}", err=True)
    return status


@contextmanager
def quiet_on_closed_pipe() -> Iterator[None]:
    """End the program without a message if the reader of its output has gone."""
    try:
        yield
    except BrokenPipeError as error:
        _write_nowhere()
        raise click.exceptions.Exit(PIPE_CLOSED) from error


def last_words(sentence: str, *, err: bool = False) -> None:
    """Print a sentence before the end; a terminal that was closed is no error."""
    try:
        click.echo(sentence, err=err)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        _write_nowhere()


def _write_nowhere() -> None:
    """Discard what is still buffered: flushing it when Python exits would fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            os.dup2(nowhere, stream.fileno())


class _StandardError(logging.Handler):
    """Writes log records to the current standard error, which tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        click.echo(for_terminal(self.format(record)), err=True)


def log_to_terminal(verbose: bool) -> None:
    """Show what the library logs: warnings, or everything with ``verbose``."""
    handler = _StandardError()
    form = "%(relativeCreated)6d ms  %(name)s: %(message)s" if verbose else "warning: %(message)s"
    handler.setFormatter(logging.Formatter(form))
    _log.handlers = [handler]
    _log.setLevel(logging.DEBUG if verbose else logging.NOTSET)
