"""``python -m pipelines.ui``: Dagster's web interface on the artifact root's state."""

from __future__ import annotations

import logging
import os
import runpy
import signal
import sys
import warnings

from pipelines.home import open_instance
from resources.paths import CHECKOUT
from text2sql.errors import Text2SqlError


def main() -> None:
    """Prepare the home and become ``dagster dev``; further arguments are passed on."""
    with open_instance():
        pass
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(CHECKOUT)
    warnings.filterwarnings("ignore", message="Function `dev_command` is superseded")
    logging.getLogger("dagster").addFilter(_is_true)
    sys.argv = ["dagster", "dev", "-w", "workspace.yaml", *sys.argv[1:]]
    runpy.run_module("dagster", run_name="__main__")


def _is_true(record: logging.LogRecord) -> bool:
    """Refuse the warning that the checkout's dagster.yaml is not used: the home links to it."""
    return "will not be used to configure Dagster" not in record.getMessage()


if __name__ == "__main__":
    try:
        main()
    except Text2SqlError as error:
        sys.exit(f"error: {error}")
