"""The command line: ``text2sql``. Each command is loaded only when it is called."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

import text2sql
from text2sql.cli.ending import log_to_terminal, quiet_on_closed_pipe, run
from text2sql.cli.options.usage import NamingGroup

COMMANDS = {
    "ask": "Answer one question on a SQLite database.",
    "serve": "Serve a policy with vLLM.",
    "answers": "Answer scheduled questions; list, replay and export their answers.",
    "champion": "Show or change the champion, the policy that answers; show its history.",
    "compare": "Compare two evaluations of the same questions.",
    "doctor": "Check this machine and say how to fix what is wrong.",
    "evaluate": "Score a file of predicted SQL by execution accuracy.",
    "gold": "Look at the gold queries of a questions file.",
    "lineage": "Show what an answer, a training run or an accuracy was made from.",
    "predict": "Let a policy answer a questions file, for evaluate.",
    "questions": "Manage scheduled questions.",
    "report": "Write the report of a training run's evaluation.",
    "reporting": "Migrate the reporting tables.",
    "sql": "Run one statement exactly as the agent's run_sql would.",
    "train": "Start a training run: filter the prompts, train and evaluate.",
    "vote": "Let several predictions of each question vote.",
}


class LazyGroup(NamingGroup):
    """A group that knows the names of its commands and imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"text2sql.cli.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the command line, which may print a help text."""
        with quiet_on_closed_pipe():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with quiet_on_closed_pipe():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


_CONTEXT = {"help_option_names": ["-h", "--help"], "show_default": True}


@click.group(cls=LazyGroup, context_settings=_CONTEXT)
@click.version_option(text2sql.__version__, prog_name="text2sql")
@click.option(
    "-v", "--verbose", is_flag=True, help="Log every attempt, and show the traceback of an error."
)
def cli(verbose: bool) -> None:
    """Ask SQLite databases questions in plain language, safely, and judge the answers exactly.

    \b
    Exit status of every command, in addition to its own:
      0    done
      1    an error you can fix; the message says how
      2    wrong usage
      6    a server, a worker or a database failed: run it again (ask: 5)
      70   a bug in text2sql
      130  interrupted by Ctrl-C
      141  the output pipe was closed
    """
    log_to_terminal(verbose)


def main() -> None:
    """Run the command line; an error that the user can fix is one sentence on stderr."""
    sys.exit(run(cli))
