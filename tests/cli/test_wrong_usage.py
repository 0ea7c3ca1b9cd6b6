"""What a mistyped command, option or number is told, and that nothing is done then."""

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
        ("ask --votes eight", "'--votes': give a whole number from 1 to 64, not 'eight'."),
        ("ask --votes 65", "'--votes': give a whole number from 1 to 64, not '65'."),
        ("evaluate --jobs 1.5", "'--jobs': give a whole number of 1 or more, not '1.5'."),
        ("evaluate --timeout inf", "'--timeout': give a number above 0, not 'inf'."),
        ("predict --temperature nan", "give a number above 0, at most 2, not 'nan'."),
        ("champion promote r --missing all", "give a number from 0 to 1, not 'all'."),
        ("champion rollback --to june", "'--to': give a whole number, not 'june'."),
        ("answers show seven", "'ID': give a whole number, not 'seven'."),
        ("questions add q --votes many", "'--votes': give a whole number, not 'many'."),
        ("questions add q --minimum-share half", "give a number, not 'half'."),
    ],
)
def test_it_names_what_was_meant(words, sentence):
    result = CliRunner().invoke(cli, words.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr


def test_no_number_is_refused_in_the_words_of_a_library():
    numbers = [
        f"{name}: {parameter.name}"
        for name, command in _commands()
        for parameter in command.params
        if type(parameter.type).__module__.startswith("click")
        and isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType)
    ]
    assert numbers == []


def _commands():
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        yield name, command
        yield from getattr(command, "commands", {}).items()
