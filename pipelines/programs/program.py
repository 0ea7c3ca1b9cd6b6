"""How the programs of this package begin and end: ``python -m pipelines.NAME``.

They call ``run_program`` before they import what they need: Dagster takes seconds to import, and
Ctrl-C or an error of the project's modules must end in one sentence then, too.
"""

from __future__ import annotations

import importlib
import logging
import runpy
import signal
import sys
import warnings

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
    logging.getLogger().setLevel(logging.ERROR)  # no warning for each attempt to reach a database
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
        return _end(f"error: {error}", error.exit_code)
    except OSError as error:
        return _end(f"error: {error.filename or OUTPUT}: {error.strerror or error}.", FAILED)
    except Stopped as stopped:
        return _end(STOPPED, stopped.status)
    except Exception as error:
        from pipelines.runs.records import records_error

        if (explained := records_error(error)) is None:
            raise
        again = "" if "run it again" in str(explained) else " Run it again to go on."
        return _end(f"error: {explained}{again}", explained.exit_code)
    return 0


def become_dagster(*arguments: str) -> None:
    """Run ``dagster ARGUMENTS`` in this process, to its end; Dagster handles the signals."""
    import dagster as dg

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    warnings.simplefilter("ignore", dg.SupersessionWarning)  # about the command itself
    sys.argv = ["dagster", *arguments]
    runpy.run_module("dagster", run_name="__main__")


def _end(sentence: str, status: int) -> int:
    """Print why the program ends, below the live line of a terminal."""
    below = "\n" if sys.stdout.isatty() else ""
    last_words(f"{below}{sentence}", err=True)
    return status
