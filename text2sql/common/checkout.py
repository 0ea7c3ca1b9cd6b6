"""Where this package lies: in a checkout of the project, or among installed packages."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
"""The folder that holds the package; where it is installed without a checkout, site-packages."""
