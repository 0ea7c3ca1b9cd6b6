"""How a command ends: what a failure is told in, and the exit status. ``--verbose`` tells more."""

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
"""An error that nobody foresaw (EX_SOFTWARE of sysexits.h)."""
INTERRUPTED = 130
"""Ctrl-C: 128 + SIGINT, as shells count."""
READER_GONE = 141
"""Whoever read the output stopped (``text2sql ask … | head -1``): 128 + SIGPIPE."""

_log = logging.getLogger("text2sql")


def run(program: click.Group) -> int:
    """Run a command line and return its exit status; a failure is one sentence on stderr."""
    hold_standard_output()
    _admit_all_characters()
    try:
        return int(program.main(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except Text2SqlError as error:
        return _tell(str(error), error.exit_code)
    except OSError as error:
        return _tell(f"{error.filename or OUTPUT}: {error.strerror or error}.", FAILED)
    except RuntimeError as error:
        if "start new thread" not in str(error):
            return _unforeseen(error)
        return _tell("No other thread can start. ulimit -a shows this user's limits.", FAILED)
    except Exception as error:  # noqa: BLE001 - the last one to ask; nothing goes on after it
        return _unforeseen(error)


def _unforeseen(error: Exception) -> int:
    return _tell(
        f"unexpected {type(error).__name__}: {error}. This is a fault of text2sql: see where "
        "with 'text2sql --verbose COMMAND …', and report it.",
        BUG,
    )


def hold_standard_output() -> None:
    """Let what is written fail where standard output is closed (``>&-``), as on a full disk.

    Python has no stream for it then, and what is printed would be lost without a word.
    """
    if sys.stdout is None:
        while (number := os.open(os.devnull, os.O_RDWR)) < _FIRST_FREE:
            pass  # whatever is opened next must not get a standard stream's number
        os.close(number)
        sys.stdout = _Closed()


_FIRST_FREE = 3


class _Closed(io.TextIOBase):
    """Takes nothing."""

    def write(self, text: str) -> int:
        """Fail as a write to a closed descriptor does."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def _admit_all_characters() -> None:
    """Let characters that the terminal's encoding lacks be written as escapes."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _tell(sentence: str, status: int) -> int:
    _log.debug("where it arose:", exc_info=True)
    click.echo(f"error: {for_terminal(sentence)}", err=True)
    return status


@contextmanager
def ending_with_its_reader() -> Iterator[None]:
    """End the program quietly where nobody reads what it writes; nothing more is written."""
    try:
        yield
    except BrokenPipeError as error:
        _write_nowhere()
        raise click.exceptions.Exit(READER_GONE) from error


def last_words(sentence: str, *, err: bool = False) -> None:
    """Say something before the end; a terminal that was closed takes nothing any more."""
    try:
        click.echo(sentence, err=err)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        _write_nowhere()


def _write_nowhere() -> None:
    """Let what is still buffered be lost without an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            os.dup2(nowhere, stream.fileno())


class _Told(logging.Handler):
    """Writes log records to standard error, whatever that is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        click.echo(for_terminal(self.format(record)), err=True)


def log_to_terminal(verbose: bool) -> None:
    """Show what the library logs: warnings, or with ``verbose`` all that is tried."""
    handler = _Told()
    form = "%(relativeCreated)6d ms  %(name)s: %(message)s" if verbose else "warning: %(message)s"
    handler.setFormatter(logging.Formatter(form))
    _log.handlers = [handler]
    _log.setLevel(logging.DEBUG if verbose else logging.NOTSET)
