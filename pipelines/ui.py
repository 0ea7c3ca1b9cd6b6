"""``python -m pipelines.ui``: Dagster's web interface on the artifact root's state."""

from __future__ import annotations

import logging
import os
import sys

from pipelines.home import open_instance
from pipelines.programs.dagster_program import become_dagster
from text2sql.common.checkout import CHECKOUT
from text2sql.errors import Text2SqlError


def main() -> None:
    """Prepare the home and become ``dagster dev``; further arguments are passed on."""
    with open_instance():
        pass
    os.chdir(CHECKOUT)
    logging.getLogger("dagster").addFilter(_is_true)
    become_dagster("dev", "-w", "workspace.yaml", *sys.argv[1:])


def _is_true(record: logging.LogRecord) -> bool:
    """Refuse the warning that the checkout's dagster.yaml is not used: the home links to it."""
    return "will not be used to configure Dagster" not in record.getMessage()


if __name__ == "__main__":
    try:
        main()
    except Text2SqlError as error:
        sys.exit(f"error: {error}")
