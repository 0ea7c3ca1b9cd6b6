"""Each number that a person can set has one definition, from which everything else comes."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from assets.reporting.answers import ReportAnswersConfig
from resources.automation import AutomationSettings
from resources.forms import InvalidValue
from text2sql.cli.main import cli
from text2sql.reporting.model import bounds
from text2sql.reporting.model.question import QuestionError, ReportQuestion

DAY = (
    *("most_attempts", "least_answered", "least_agreement"),
    *("keep_rows", "concurrency", "threads"),
)


@pytest.mark.parametrize("command", ["add", "edit"])
def test_the_options_of_a_question_show_its_defaults(command):
    shown = " ".join(CliRunner().invoke(cli, ["questions", command, "--help"]).output.split())
    for setting in (bounds.VOTES, bounds.MINIMUM_SHARE):
        assert setting.option() in shown
        assert str(setting.default) in setting.option()


@pytest.mark.parametrize(
    ("name", "setting"), [("votes", bounds.VOTES), ("minimum_share", bounds.MINIMUM_SHARE)]
)
def test_a_question_is_valid_within_the_bounds(name, setting):
    assert getattr(ReportQuestion("q", "?", "shop"), name) == setting.default
    for value in (setting.least, setting.most):
        assert getattr(ReportQuestion("q", "?", "shop", **{name: value}), name) == value
    for value in (setting.least - 1, setting.most + 1, None, True):
        with pytest.raises(QuestionError, match=f"{name} must be {setting}, not {value}"):
            ReportQuestion("q", "?", "shop", **{name: value})


@pytest.mark.parametrize("name", DAY)
def test_the_form_of_a_day_has_the_bounds(name):
    setting = getattr(bounds, name.upper())
    field = ReportAnswersConfig.model_fields[name]
    assert field.default == setting.default
    assert field.description.startswith(setting.description)
    for value in (setting.least - 1, setting.most + 1):
        with pytest.raises(InvalidValue, match=f"{name} is {value}"):
            ReportAnswersConfig(**{name: value})


def test_the_rule_of_a_decline_has_the_defaults_of_the_settings():
    assert AutomationSettings().decline_rule() == bounds.DeclineRule()
