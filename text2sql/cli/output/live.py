"""Show the agent's work on standard error as it happens: one line per step, or everything."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import Any

import click

from text2sql.common.render import neutral
from text2sql.policy.base import Message
from text2sql.rollouts.ask import AskResult

_LEAST_WIDTH = 40


def shows_steps() -> bool:
    """Say whether standard error is a terminal, so that steps are shown."""
    return sys.stderr.isatty()


class Steps:
    """Writes one line per call: seconds since the start, the tool, the start of its argument.

    With several rollouts each line has the rollout's number, from 1.
    """

    def __init__(self, votes: int) -> None:
        self._several = votes > 1
        self._started = time.monotonic()

    def __call__(self, number: int, message: Message) -> None:
        """Show the calls or the text of a reply."""
        if message["role"] != "assistant":
            return
        for call in message.get("tool_calls") or ():
            function = call["function"]
            self._line(number, neutral(function["name"]), _argument(function["arguments"]))
        if not message.get("tool_calls"):
            self._line(number, "says", str(message.get("content") or ""))

    def _line(self, number: int, what: str, argument: str) -> None:
        seconds = f"{time.monotonic() - self._started:6.1f} s  "
        rollout = f"{number + 1:>2}  " if self._several else ""
        line = f"{seconds}{rollout}{what:<14}  {neutral(' '.join(argument.split()))}".rstrip()
        width = max(_LEAST_WIDTH, shutil.get_terminal_size().columns) - 1
        click.echo(line if len(line) <= width else f"{line[: width - 3]}...", err=True)


def _argument(arguments: str) -> str:
    """Return the values of a call's arguments, without their names."""
    try:
        values = json.loads(arguments, strict=False)
    except ValueError:
        return arguments
    return ", ".join(map(str, values.values())) if isinstance(values, dict) else arguments


class Trace:
    """Writes every message in full as it comes; the prompt, common to all rollouts, once."""

    def __init__(self, votes: int) -> None:
        self._several = votes > 1
        self._begun: set[int] = set()
        self._prompts: set[str] = set()

    def __call__(self, number: int, message: Message) -> None:
        """Show a message and the calls in it."""
        text = _lines(message.get("content"))
        if message["role"] == "assistant":
            self._begun.add(number)
        elif self._several and number not in self._begun:
            prompt = f"[all {message['role']}] {text}".rstrip()
            if prompt not in self._prompts:
                self._prompts.add(prompt)
                click.echo(prompt, err=True)
            return
        lines = [f"[{self._rollout(number)}{message['role']}] {text}".rstrip()]
        if reasoning := message.get("reasoning") or message.get("reasoning_content"):
            lines.insert(0, f"[{self._rollout(number)}reasoning] {_lines(reasoning)}".rstrip())
        for call in message.get("tool_calls") or ():
            function = call["function"]
            lines.append(f"  -> {neutral(function['name'])} {neutral(function['arguments'])}")
        click.echo("\n".join(lines), err=True)

    def end(self, found: AskResult) -> None:
        """Show how each rollout ended."""
        for number, rollout in enumerate(found.rollouts):
            error = rollout.error if rollout.sql is None else ""
            end = f"[{self._rollout(number)}end] {rollout.stop_reason} {error}"
            click.echo(end.rstrip(), err=True)

    def _rollout(self, number: int) -> str:
        return f"{number + 1} " if self._several else ""


def _lines(text: Any) -> str:
    return "\n".join(neutral(line) for line in str(text or "").splitlines())
