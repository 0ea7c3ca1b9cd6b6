"""Dagster's access to the base policy and to the policies trained from it."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import dagster as dg
from pydantic import Field

from resources.forms import Form
from text2sql.policy.places import is_served
from text2sql.policy.vllm.options import VllmOptions

if TYPE_CHECKING:
    from text2sql.agent.settings import AgentSettings
    from text2sql.policy.base import Policy


_SETTINGS = {setting.name: setting for setting in fields(VllmOptions)}


def _setting(name: str, **more: Any) -> Any:
    """Return a form's field with the default, description and bounds of a vLLM option."""
    return Field(**{"default": _SETTINGS[name].default, **_SETTINGS[name].metadata, **more})


class VllmConfig(Form):
    """How a step's own vLLM server is started."""

    python: str = _setting("python", default="")
    data_parallel_size: int = _setting("data_parallel_size")
    gpu_memory: float = _setting("gpu_memory")
    ready_seconds: float = _setting("ready_seconds")
    extra_args: list[str] = _setting("extra_args", default=[])

    def options(self) -> VllmOptions:
        """Return the options that the form holds."""
        values = {name: getattr(self, name) for name in _SETTINGS}
        python, extra = self.python or None, tuple(self.extra_args)
        return VllmOptions(**values | {"python": python, "extra_args": extra})


class PolicyResource(dg.ConfigurableResource):
    """The base policy; ``open`` also opens any other policy by its specification."""

    base: str = Field(
        default="pocket",
        description="The policy to start from: 'pocket', a model directory, a server's URL (of "
        "several equal ones, separated by commas; #MODEL at the end chooses one of its models), "
        "or with 'vllm' a model's id on the hub.",
    )
    model: str = Field(default="", description="The model to ask for, if the base is a server.")
    server: Literal["in_process", "vllm"] = Field(
        default="in_process",
        description="Who runs a model directory: the step's own process, or a vLLM server that "
        "the step starts and stops. Each step that samples has its own: use one shard on one GPU.",
    )
    vllm: VllmConfig = VllmConfig()

    def open(self, spec: str | Path | None = None, threads: int | None = None) -> Policy:
        """Open the policy ``spec``, or the base policy; closing it stops a vLLM server of its own.

        ``threads`` limits the CPU threads of a policy that runs in this process.
        """
        from text2sql.policy.open import open_policy
        from text2sql.policy.vllm.policy import serve_policy

        spec = str(spec or self.base)
        if self.starts_server(spec):
            return serve_policy(spec, self.vllm.options())
        return open_policy(spec, self._model(spec), threads=threads)

    def directory(self, spec: str | Path | None = None) -> Path | None:
        """Return the directory of a policy's weights; None if a server has them."""
        from text2sql.policy.open import policy_directory
        from text2sql.policy.vllm.server import served_directory

        spec = str(spec or self.base)
        return served_directory(spec) if self.starts_server(spec) else policy_directory(spec)

    def revision(self, spec: str | Path | None = None) -> str:
        """Return the revision of the policy's weights, without loading them."""
        from text2sql.policy.vllm.policy import served_revision
        from text2sql.policy.weights import directory_revision

        spec = str(spec or self.base)
        if self.starts_server(spec):
            return served_revision(spec)
        if directory := self.directory(spec):
            return directory_revision(directory)
        opened = self.open(spec)
        asyncio.run(opened.close())
        return opened.info.revision

    def settings(self, spec: str | Path | None = None) -> AgentSettings:
        """Return the agent settings that the policy was trained with."""
        from text2sql.agent.settings import AgentSettings, trained_settings

        spec = str(spec or self.base)
        if self.starts_server(spec):
            return AgentSettings.for_policy(self.directory(spec))
        return trained_settings(spec, self._model(spec))

    def _model(self, spec: str) -> str | None:
        """Return the model to ask a server for, unless its specification names it."""
        return None if "#" in spec else self.model or None

    def starts_server(self, spec: str) -> bool:
        """Say whether a policy gets a vLLM server of its own."""
        return self.server == "vllm" and not is_served(spec)
