"""``python -m pipelines.ui``: Dagster's web interface on the artifact root's state."""

from __future__ import annotations

import os
import signal
import sys

from pipelines.home import open_instance
from resources.paths import CHECKOUT
from text2sql.errors import Text2SqlError


def main() -> None:
    """Prepare the home and become ``dagster dev``; further arguments are passed on."""
    with open_instance():
        pass
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.chdir(CHECKOUT)
    quiet = ["-W", "ignore:Function `dev_command` is superseded"]
    command = [sys.executable, *quiet, "-m", "dagster", "dev", "-w", "workspace.yaml"]
    command += sys.argv[1:]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    try:
        main()
    except Text2SqlError as error:
        sys.exit(f"error: {error}")
