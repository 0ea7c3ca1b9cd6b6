"""The sandbox that runs every statement of the pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

if TYPE_CHECKING:
    from text2sql.sandbox import Sandbox


class SandboxResource(dg.ConfigurableResource):
    """How many worker processes a step may use to execute SQL."""

    workers: int = Field(default=2, ge=1, le=256, description="Worker processes of one step.")

    def open(self) -> Sandbox:
        """Start the workers; use the result in a ``with`` block, so that they end with it."""
        from text2sql.sandbox import Sandbox

        return Sandbox(workers=self.workers)
