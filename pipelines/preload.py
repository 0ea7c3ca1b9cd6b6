"""What every step needs, imported once: the server that steps are forked from loads this.

Each of these takes a second or more. No torch: its threads do not survive a fork.
"""

from __future__ import annotations

import os
import signal

import matplotlib.figure

import pipelines.definitions
from assets.checks.expectations import great_expectations
from text2sql.common.guard import PR_SET_PDEATHSIG, prctl

__all__ = ["matplotlib", "pipelines"]


def end_with_run() -> None:
    """Let the kernel end the fork server with its run's process, and the steps with the server.

    By itself the server waits for its last step: each step holds the pipe that would end it.
    """
    server = os.getpid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def bind_step() -> None:
        if os.getppid() == server:  # the steps' own children are theirs to end
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    os.register_at_fork(after_in_child=bind_step)


end_with_run()
great_expectations()
