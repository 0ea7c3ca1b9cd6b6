"""Becoming Dagster's own command line, without its warnings that a command has a successor."""

from __future__ import annotations

import runpy
import signal
import sys
import warnings


def become_dagster(*arguments: str) -> None:
    """Run ``dagster ARGUMENTS`` in this process, to its end; signals are Dagster's to take."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    warnings.filterwarnings("ignore", message=r"Function `\w+_command` is superseded")
    sys.argv = ["dagster", *arguments]
    runpy.run_module("dagster", run_name="__main__")
