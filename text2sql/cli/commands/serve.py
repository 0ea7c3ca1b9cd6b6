"""``text2sql serve``: serve a policy with vLLM until Ctrl-C."""

from __future__ import annotations

import shlex
import time
from dataclasses import fields
from pathlib import Path
from typing import NoReturn

import click

from text2sql.cli.ending import last_words
from text2sql.cli.options.types import FILE, IntegerRange, setting_option
from text2sql.common.artifacts import artifact_root
from text2sql.common.stopping import stop_on_signals
from text2sql.evaluation.promotion.champion import Choice, choose
from text2sql.policy.open import POCKET
from text2sql.policy.vllm.options import VllmOptions
from text2sql.policy.vllm.server import VllmServer
from text2sql.training.runs import training_record

_WATCH_SECONDS = 0.5
_SETTINGS = {setting.name: setting for setting in fields(VllmOptions)}


@click.command()
@click.argument("policy", required=False, metavar="[DIR|RUN|MODEL_ID|pocket]")
@click.option(
    "--port", type=IntegerRange(0, 65535), default=8000, help="Port on 127.0.0.1; 0 picks one."
)
@setting_option(_SETTINGS["python"], FILE)
@setting_option(_SETTINGS["data_parallel_size"])
@setting_option(_SETTINGS["gpu_memory"])
@setting_option(_SETTINGS["ready_seconds"])
@click.option("--vllm-args", help="More arguments for vLLM, as on a command line.")
def command(
    policy: str | None,
    port: int,
    python: Path | None,
    data_parallel_size: int,
    gpu_memory: float,
    ready_seconds: float,
    vllm_args: str | None,
) -> None:
    """Serve a policy with vLLM on this machine until Ctrl-C.

    The policy is a model directory, a training run of this project, the id of a model on the
    Hugging Face hub, or 'pocket'. Default: the project's champion, or the pocket policy without
    one. If TEXT2SQL_API_KEY is set, clients need that key.

    \b
    Exit status:
      0  stopped by Ctrl-C, SIGTERM or the end of its terminal
      1  an error you can fix: no such policy, no vLLM, a port that is in use
      2  wrong usage
      6  vLLM failed
    """
    try:
        extra = tuple(shlex.split(vllm_args or ""))
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--vllm-args") from error
    options = VllmOptions(python, data_parallel_size, gpu_memory, ready_seconds, extra)
    stop_on_signals()
    try:
        _serve(policy, port, options)
    except KeyboardInterrupt:
        last_words("Stopped.")


def _serve(policy: str | None, port: int, options: VllmOptions) -> NoReturn:
    """Serve until a signal stops it, or vLLM fails."""
    choice, name = _choice(policy)
    server = VllmServer(choice.spec, options, model=name, port=port)
    server.prepare()
    click.echo(f"Starting vLLM for {choice.title or choice.spec}; its log is {server.log}.")
    with server:
        use = f"What it is good for: {choice.use}.\n" if choice.use else ""
        click.echo(
            f"Serving {server.model} at {server.url} until Ctrl-C.\n{use}"
            f'Ask it: text2sql ask DATABASE "QUESTION" --policy {server.url}'
        )
        while True:
            server.check()
            time.sleep(_WATCH_SECONDS)


def _choice(policy: str | None) -> tuple[Choice, str]:
    """Return the policy to serve, and its name for clients: empty for the policy's own."""
    known = policy is None or policy == POCKET or Path(policy).exists()
    record = {} if known else training_record(artifact_root(), str(policy))
    if record:
        return Choice(str(record["policy"]), f"the training run {policy}"), str(policy)
    choice = choose(policy)
    return choice, POCKET if choice.spec == POCKET else "champion" if choice.revision else ""
