"""The entrypoint of a training pod's container:
``python -m text2sql.training.pod_entrypoint LOG GRACE_SECONDS COMMAND...``.

Runs the command, copies its output to a log that outlives the pod, and ends all its processes when
the pod is asked to end: SIGTERM first, SIGKILL after the grace period. The first process of a
container ignores SIGTERM unless it handles it, and has to collect orphaned processes.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

from text2sql.common import guard
from text2sql.training.child import check_usage

_PIPES_MESSAGE = b'{"__dagster_pipes_version"'


def main(log: Path, grace: float, command: list[str]) -> int:
    """Run the command to its end, or end it; return its exit status."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, guard.request_stop)
    guard.prctl(guard.PR_SET_CHILD_SUBREAPER, 1)
    log.parent.mkdir(parents=True, exist_ok=True)
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert child.stdout is not None
    copier = threading.Thread(target=_copy, args=(child.stdout, log), daemon=True)
    copier.start()
    while child.poll() is None and not guard.stop_requested:
        time.sleep(0.1)
    status = child.poll()
    guard.sweep(grace)
    copier.join(5.0)
    if status is None:
        return guard.ENDED_BY_GUARD
    return status if status >= 0 else 128 - status


def _copy(output: IO[bytes], log: Path) -> None:
    """Copy lines to standard output and, unless they are messages for Dagster, to the log."""
    with log.open("ab", buffering=0) as file:
        for line in output:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            if not line.startswith(_PIPES_MESSAGE):
                file.write(line)


if __name__ == "__main__":
    given = sys.argv[1:]
    names = ("LOG", "GRACE_SECONDS", "COMMAND...")
    misuse = check_usage(given, "text2sql.training.pod_entrypoint", *names)
    sys.exit(main(Path(given[0]), float(given[1]), given[2:]) if misuse is None else misuse)
