"""``text2sql serve``: serve a policy with vLLM until Ctrl-C."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

import click

from text2sql.cli.ending import last_words
from text2sql.cli.options.numbers import IntegerRange, NumberRange
from text2sql.common.artifacts import artifact_root
from text2sql.common.stopping import stop_on_signals
from text2sql.evaluation.promotion.champion import Choice, choose
from text2sql.policy.open import POCKET
from text2sql.policy.vllm.options import VllmOptions
from text2sql.policy.vllm.server import VllmServer
from text2sql.training.runs import training_record

_WATCH_SECONDS = 0.5
_SETTINGS = {setting.name: setting for setting in fields(VllmOptions)}


def _option(name: str, kind: click.ParamType | None = None) -> Callable[[Any], Any]:
    """Return the option of a setting of vLLM: its default, bounds and description."""
    default, about = _SETTINGS[name].default, _SETTINGS[name].metadata
    least, most = about.get("ge", about.get("gt")), about.get("le")
    if isinstance(default, int):
        kind = IntegerRange(least, most)
    elif isinstance(default, float):
        kind = NumberRange(least, most, min_open="gt" in about)
    return click.option(
        f"--{name.replace('_', '-')}",
        type=kind,
        default=default,
        show_default=default is not None,
        help=about["description"],
    )


@click.command()
@click.argument("policy", required=False, metavar="[DIR|RUN|MODEL_ID|pocket]")
@click.option(
    "--port",
    type=IntegerRange(0, 65535),
    default=8000,
    show_default=True,
    help="The port on 127.0.0.1; 0 takes a free one.",
)
@_option("python", click.Path(path_type=Path, readable=False))
@_option("data_parallel_size")
@_option("gpu_memory")
@_option("ready_seconds")
@click.option("--vllm-args", default="", help="More arguments for vLLM, as on a command line.")
def command(
    policy: str | None,
    port: int,
    python: Path | None,
    data_parallel_size: int,
    gpu_memory: float,
    ready_seconds: float,
    vllm_args: str,
) -> None:
    """Serve a policy with vLLM on this machine until Ctrl-C.

    The policy is a model directory, a training run of this project, a model's id on the hub, or
    'pocket'. Default: the project's champion, else the pocket policy. If TEXT2SQL_API_KEY is set,
    clients need that key. Exit status: 0 after Ctrl-C, SIGTERM or the end of its terminal, 1 an
    error you can fix, 6 vLLM failed.
    """
    options = VllmOptions(python, data_parallel_size, gpu_memory, ready_seconds, _split(vllm_args))
    stop_on_signals()
    try:
        _serve(policy, port, options)
    except KeyboardInterrupt:
        last_words("Stopped.")


def _serve(policy: str | None, port: int, options: VllmOptions) -> NoReturn:
    """Serve until it is stopped."""
    choice, name = _chosen(policy)
    server = VllmServer(choice.spec, options, model=name, port=port)
    server.prepare()
    click.echo(f"Starting vLLM for {choice.title or choice.spec}; its log is {server.log}.")
    with server:
        click.echo(_welcome(server, choice))
        while True:
            server.check()
            time.sleep(_WATCH_SECONDS)


def _chosen(policy: str | None) -> tuple[Choice, str]:
    """Return the policy to serve, and its name for clients: a training run keeps its own."""
    known = policy is None or policy == POCKET or Path(policy).exists()
    record = {} if known else training_record(artifact_root(), str(policy))
    if record:
        return Choice(str(record["policy"]), f"the training run {policy}"), str(policy)
    choice = choose(policy)
    return choice, _name(choice)


def _name(choice: Choice) -> str:
    """Return the name for clients; empty for the policy's own."""
    return POCKET if choice.spec == POCKET else "champion" if choice.revision else ""


def _welcome(server: VllmServer, choice: Choice) -> str:
    use = f"What it is good for: {choice.use}.\n" if choice.use else ""
    return (
        f"Serving {server.model} at {server.url} until Ctrl-C.\n{use}"
        f'Ask it: text2sql ask DATABASE "QUESTION" --policy {server.url}'
    )


def _split(arguments: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(arguments))
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--vllm-args") from error
