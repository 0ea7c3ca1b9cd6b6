"""What the training programs share: their usage, their tie to their parent, and their report.

Nothing of a training program outlives the process that started it. That process keeps the writing
end of a pipe and names the reading end in the environment variable TEXT2SQL_HEARTBEAT_FD: when the
pipe closes, it is gone, however it died.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from collections.abc import Mapping, Sequence

from text2sql.common.guard import HEARTBEAT_VARIABLE, PR_SET_PDEATHSIG, prctl


def check_usage(arguments: Sequence[str], module: str, *names: str) -> int | None:
    """Print the usage ``python -m MODULE NAMES`` on request or if the arguments do not fit it.

    Returns the exit status then, None otherwise. A last name that ends with ``...`` stands for one
    or more arguments, in brackets for any number.
    """
    usage = f"usage: python -m {module} {' '.join(names)}"
    if list(arguments[:1]) in (["-h"], ["--help"]):
        print(usage)
        return 0
    minimum = sum(not name.startswith("[") for name in names)
    maximum = None if names[-1].rstrip("]").endswith("...") else len(names)
    if len(arguments) >= minimum and (maximum is None or len(arguments) <= maximum):
        return None
    print(usage, file=sys.stderr)
    return 2


def report_to_dagster(metadata: Mapping[str, str]) -> None:
    """Report the result as the asset's metadata if a Dagster step started this program."""
    if "DAGSTER_PIPES_CONTEXT" not in os.environ:
        return
    from dagster_pipes import open_dagster_pipes

    with open_dagster_pipes() as pipes:
        pipes.report_asset_materialization(metadata=dict(metadata))


def end_with_parent() -> None:
    """Tie this process and all that it starts to the process that started it.

    The process then leads a group of its own, which is killed as a whole when the heartbeat
    closes, when the parent dies (Linux), or on a signal. Does nothing in a program that was started
    by hand, without a heartbeat. Nor does it where the pipe is not open: then it belongs to the
    program in between, whose end ends this one too.
    """
    heartbeat = os.environ.pop(HEARTBEAT_VARIABLE, None)
    if heartbeat is None or not _is_pipe(int(heartbeat)):
        return
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: _end_group())
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    os.set_inheritable(int(heartbeat), False)

    def watch() -> None:
        while os.read(int(heartbeat), 64):
            pass
        _end_group()

    threading.Thread(target=watch, name="heartbeat", daemon=True).start()


def _is_pipe(number: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(number).st_mode)
    except OSError:
        return False


def _end_group() -> None:
    os.killpg(0, signal.SIGKILL)
