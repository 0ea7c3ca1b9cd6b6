"""Where replies come from: the base policy of the project and the policies trained from it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

if TYPE_CHECKING:
    from text2sql.policy.base import Policy
    from text2sql.settings import AgentSettings


class PolicyResource(dg.ConfigurableResource):
    """The base policy; ``open`` also opens any other policy by its specification."""

    base: str = Field(
        default="pocket",
        description="The policy to start from: 'pocket', a model directory, or a server's URL.",
    )
    model: str = Field(default="", description="The model to ask for, where the base is a server.")

    def open(self, spec: str | Path | None = None, threads: int | None = None) -> Policy:
        """Open the policy ``spec``, or the base policy; the caller closes it.

        ``threads`` bounds the CPU threads of a policy that runs in this process.
        """
        from text2sql.policy.open import open_policy

        return open_policy(str(spec or self.base), self.model or None, threads=threads)

    def directory(self, spec: str | Path | None = None) -> Path | None:
        """Return the directory of a policy's weights; None where a server holds them."""
        from text2sql.policy.open import policy_directory

        return policy_directory(str(spec or self.base))

    def revision(self, spec: str | Path | None = None) -> str:
        """Return what changes when the policy's weights do, without loading them."""
        directory = self.directory(spec)
        if directory is not None:
            from text2sql.policy.revision import directory_revision

            return directory_revision(directory)
        opened = self.open(spec)
        asyncio.run(opened.close())
        return opened.info.revision

    def settings(self, spec: str | Path | None = None) -> AgentSettings:
        """Return the agent settings that the policy was trained with."""
        from text2sql.settings import AgentSettings

        return AgentSettings.for_policy(self.directory(spec))
