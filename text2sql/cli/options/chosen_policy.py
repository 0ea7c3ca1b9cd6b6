"""The policy of commands with ``--policy``: opened, and named on standard error."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import click

from text2sql.agent.settings import AgentSettings, trained_settings
from text2sql.cli.output.live import shows_steps
from text2sql.common.render import neutral
from text2sql.evaluation.promotion.champion import POCKET_USE, Choice
from text2sql.policy.base import Policy
from text2sql.policy.open import open_policy, policy_directory

T = TypeVar("T")
policy_option = click.option(
    "--policy",
    "spec",
    metavar="DIR|URL|pocket",
    help="A model directory, the URL of an OpenAI-compatible server, or 'pocket'. "
    "Default: the project's champion, or the pocket policy without one.",
)
model_option = click.option("--model", help="Which model to use if the server has several.")
single_turn_flag = click.option(
    "--single-turn", is_flag=True, help="Put the schema in the prompt; one reply, no tools."
)


def open_chosen(
    choice: Choice, model: str | None, single_turn: bool
) -> tuple[Policy, AgentSettings]:
    """Open a policy, and say on standard error which it is and what it is good for.

    ``model`` names one of a server's models; ``single_turn`` replaces the mode that the policy was
    trained with. Raises what ``open_policy`` raises.
    """
    if model and policy_directory(choice.spec) is not None:
        raise click.UsageError(
            "--model names a model of a server: give the server's URL with --policy."
        )
    if shows_steps():
        click.echo(f"opening {choice.title or choice.spec} ...", err=True)
    policy = open_policy(choice.spec, model)
    title = neutral(choice.title or policy.info.name)
    use = f": {choice.use}" if choice.use else ""
    use += ": give a model with --policy" if choice.use.endswith(POCKET_USE) else ""
    click.echo(f"policy: {title} ({policy.info.revision}){use}.", err=True)
    if choice.revision not in ("", policy.info.revision):
        click.echo(
            f"warning: the weights differ from the promoted ones ({choice.revision}).", err=True
        )
    settings = trained_settings(choice.spec, model)
    return policy, replace(settings, mode="single_turn") if single_turn else settings


def run_with(policy: Policy, work: Coroutine[Any, Any, T]) -> T:
    """Run what uses a policy in an event loop of its own, and close the policy."""

    async def run() -> T:
        try:
            return await work
        finally:
            await policy.close()

    return asyncio.run(run())
