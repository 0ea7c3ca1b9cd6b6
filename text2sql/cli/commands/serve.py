"""``text2sql serve``: a policy behind a vLLM server, until Ctrl-C."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import NoReturn

import click

from text2sql.cli.ending import last_words
from text2sql.cli.options.numbers import NumberIn, WholeNumberIn
from text2sql.common.artifacts import artifact_root
from text2sql.common.stopping import stop_on_signals
from text2sql.evaluation.promotion.choice import Choice, choose
from text2sql.policy.open import POCKET
from text2sql.policy.vllm.command import VllmOptions
from text2sql.policy.vllm.interpreter import PYTHON_VARIABLE
from text2sql.policy.vllm.server import VllmServer
from text2sql.training.runs import training_record

_WATCH_SECONDS = 0.5


@click.command()
@click.argument("policy", required=False, metavar="[DIR|RUN|MODEL_ID|pocket]")
@click.option(
    "--port",
    type=WholeNumberIn(0, 65535),
    default=8000,
    show_default=True,
    help="The port on 127.0.0.1; 0 takes a free one.",
)
@click.option(
    "--python",
    type=click.Path(path_type=Path, readable=False),
    help="Python of an environment with vLLM. "
    f"Default: {PYTHON_VARIABLE}, else what 'make vllm' or 'make vllm-cpu' built.",
)
@click.option(
    "--data-parallel-size",
    type=WholeNumberIn(1, 64),
    default=1,
    show_default=True,
    help="Copies of the model, each on GPUs of its own.",
)
@click.option(
    "--gpu-memory",
    type=NumberIn(0, 1, min_open=True),
    default=0.9,
    show_default=True,
    help="Share of each GPU's memory that vLLM takes.",
)
@click.option(
    "--ready-seconds",
    type=NumberIn(0, min_open=True),
    default=900.0,
    show_default=True,
    help="How long starting may take.",
)
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

    The policy is a model directory, a training run of the project around, a model's id on the
    hub, or 'pocket'; without it the champion of the project, else the pocket policy. Where
    TEXT2SQL_API_KEY is set, clients need that key. Exit status: 0 after
    Ctrl-C, SIGTERM or the end of its terminal, 1 something to mend, 6 vLLM failed.
    """
    options = VllmOptions(python, data_parallel_size, gpu_memory, ready_seconds, _split(vllm_args))
    stop_on_signals()
    try:
        _serve(policy, port, options)
    except KeyboardInterrupt:
        last_words("Stopped.")


def _serve(policy: str | None, port: int, options: VllmOptions) -> NoReturn:
    """Serve until somebody stops it."""
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
    """Return the policy to serve, and the name to serve it under: a training run's is its own."""
    known = policy is None or policy == POCKET or Path(policy).exists()
    record = {} if known else training_record(artifact_root(), str(policy))
    if record:
        return Choice(str(record["policy"]), f"the training run {policy}"), str(policy)
    choice = choose(policy)
    return choice, _name(choice)


def _name(choice: Choice) -> str:
    """Return the name to serve under; empty where the policy's own will do."""
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
