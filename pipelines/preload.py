"""What every step needs, imported once: the server that steps are forked from loads this.

Each of these takes a second or more. No torch: its threads do not survive a fork.
"""

from __future__ import annotations

import matplotlib.figure

import pipelines.definitions
from assets.checks.expectations import great_expectations

__all__ = ["matplotlib", "pipelines"]

great_expectations()
