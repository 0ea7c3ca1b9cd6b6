"""How the programs of this package begin and end: ``python -m pipelines.NAME``.

They call ``run_program`` before they import what they need: Dagster takes seconds, in which
Ctrl-C and what the project's modules refuse are told in a sentence, too.
"""

from __future__ import annotations

import importlib
import sys

import click

from text2sql.cli.ending import (
    FAILED,
    OUTPUT,
    fail_on_closed_output,
    last_words,
    quiet_on_closed_pipe,
)
from text2sql.common.stopping import Stopped, exit_on_signals, stop_on_signals
from text2sql.errors import Text2SqlError

STOPPED = "stopped; run it again to go on"


def run_program(module: str) -> int:
    """Run a module's ``main`` on the arguments until it ends or is stopped; return the status."""
    exit_on_signals(STOPPED)
    fail_on_closed_output()
    try:
        with quiet_on_closed_pipe():
            main = importlib.import_module(module).main
            stop_on_signals()
            main(sys.argv[1:])
            sys.stdout.flush()
    except click.exceptions.Exit as left:
        return left.exit_code
    except Text2SqlError as error:
        return _tell(f"error: {error}", error.exit_code)
    except OSError as error:
        return _tell(f"error: {error.filename or OUTPUT}: {error.strerror or error}.", FAILED)
    except Stopped as stopped:
        return _tell(STOPPED, stopped.status)
    except Exception as error:
        if (told := _of_records(error)) is None:
            raise
        again = "" if "run it again" in str(told) else " Run it again to go on."
        return _tell(f"error: {told}{again}", told.exit_code)
    return 0


def _of_records(error: Exception) -> Text2SqlError | None:
    from pipelines.runs.records import records_error

    return records_error(error)


def _tell(sentence: str, status: int) -> int:
    """Say why it ends, below the line that moves on a terminal."""
    below = "\n" if sys.stdout.isatty() else ""
    last_words(f"{below}{sentence}", err=True)
    return status
