"""A mistyped command, option or number is refused in one sentence, and nothing is done."""

import click
import pytest
from click.testing import CliRunner

from text2sql.cli.main import COMMANDS, cli


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("anwsers list", "No such command 'anwsers'. Did you mean 'answers'?"),
        ("answers lst", "No such command 'lst'. Did you mean 'list'?"),
        ("champion adpot m", "No such command 'adpot'. Did you mean 'adopt'?"),
        ("questions improt q", "No such command 'improt'. Did you mean 'import'?"),
        ("reporting upgrad", "No such command 'upgrad'. Did you mean 'upgrade'?"),
        ("questions entirely-else", "No such command 'entirely-else'."),
        ("evaluate --quetsions dev.json", "--questions"),
        ("ask --votes eight", "'--votes': 'eight' is not a valid integer."),
        ("ask --votes 65", "'--votes': it must be at least 1 and at most 64, not 65."),
        ("evaluate --jobs 1.5", "'--jobs': '1.5' is not a valid integer."),
        ("evaluate --timeout 0", "'--timeout': it must be more than 0, not 0."),
        ("evaluate --timeout inf", "'--timeout': 'inf' is not a finite number."),
        ("predict --temperature nan", "'--temperature': 'nan' is not a finite number."),
        ("champion promote r --missing all", "'all' is not a valid number."),
        ("champion rollback --to june", "'--to': 'june' is not a valid integer."),
        ("answers show seven", "'ID': 'seven' is not a valid integer."),
        ("questions add q --votes many", "'--votes': 'many' is not a valid integer."),
        ("questions add q --minimum-share half", "'half' is not a valid float."),
    ],
)
def test_it_names_what_was_meant(words, sentence):
    result = CliRunner().invoke(cli, words.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr


def test_bounded_numbers_are_finite():
    """click's own range of floats accepts NaN."""
    ranges = [
        f"{name}: {parameter.name}"
        for name, command in _commands()
        for parameter in command.params
        if type(parameter.type) is click.FloatRange
    ]
    assert ranges == []


def _commands():
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        yield name, command
        yield from getattr(command, "commands", {}).items()
