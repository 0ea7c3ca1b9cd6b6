"""Forms of the launchpad say what they accept, and stages fail with a sentence."""

import dagster as dg
import pytest
from pydantic import Field

from assets.common.failures import StageFailed, fails_in_a_sentence
from pipelines.definitions import defs
from resources.forms import Form, config_of_step
from text2sql.errors import InfrastructureError, Text2SqlError


class Example(Form):
    """A form with every kind of bound."""

    steps: int = Field(default=3, ge=1, le=100_000, description="Steps.")
    rate: float = Field(default=0.1, gt=0, lt=1, description="A rate.")
    name: str = Field(default="", description="A name.")


class Longer(Example):
    """A form that inherits fields."""

    most: int = Field(default=0, ge=0)


def test_help_ends_with_what_a_field_accepts():
    words = {name: field.description for name, field in Longer.model_fields.items()}
    assert words == {
        "steps": "Steps. (at least 1, at most 100,000)",
        "rate": "A rate. (more than 0, less than 1)",
        "name": "A name.",
        "most": "(at least 0)",
    }


def forms(kind: type[Form] = Form) -> list[type[Form]]:
    """Return every form of the project."""
    assert defs
    own = [form for form in kind.__subclasses__() if not form.__module__.startswith("test")]
    return [*own, *(deeper for form in own for deeper in forms(form))]


@pytest.mark.parametrize("form", forms(), ids=lambda form: form.__name__)
def test_every_field_of_every_form_has_words(form):
    fixed = {"backend"}  # says which form it is
    for name, field in form.model_fields.items():
        words = field.description or ""
        assert name in fixed or words.strip("(") == words != "", f"{form.__name__}.{name}: {words}"


@dg.asset
@fails_in_a_sentence
def lost() -> None:
    """An asset whose server is down."""
    raise InfrastructureError("No policy server answers at http://127.0.0.1:9.")


@dg.asset
@fails_in_a_sentence
def mistaken() -> None:
    """An asset with a mistake in its code."""
    raise ZeroDivisionError("division by zero")


@dg.op(out=dg.DynamicOut())
@fails_in_a_sentence
def shards():
    """A step that yields and then fails."""
    yield dg.DynamicOutput(1, "1")
    raise Text2SqlError("The second shard has no questions.")


@dg.job
def sharded():
    """A job of one step."""
    shards()


@dg.op
@fails_in_a_sentence
def planned(config: Example) -> None:
    """The first step of a graph asset."""


@dg.graph_asset(config=config_of_step("planned", Example))
def in_steps():
    """An asset of several steps."""
    return planned()


@dg.asset
@fails_in_a_sentence
def in_one(config: Example) -> None:
    """An asset of one step."""


def failure(result: dg.ExecuteInProcessResult) -> str:
    """Return the message of the step that failed."""
    (event,) = result.get_step_failure_events()
    return event.step_failure_data.error.message


def test_a_stage_fails_with_its_sentence_first():
    message = failure(dg.materialize([lost], raise_on_error=False))
    assert message.endswith("StageFailed: No policy server answers at http://127.0.0.1:9.\n")
    with pytest.raises(StageFailed, match="No policy server") as caught:
        dg.materialize([lost])
    assert isinstance(caught.value.__cause__, InfrastructureError)
    assert "StageFailed: The second shard has no questions." in failure(
        sharded.execute_in_process(raise_on_error=False)
    )


@pytest.mark.parametrize("asset", [in_steps, in_one], ids=lambda asset: asset.key.to_user_string())
def test_a_value_out_of_bounds_fails_the_stage_with_a_sentence(asset):
    config = {"ops": {asset.key.to_user_string(): {"config": {"steps": 0}}}}
    message = failure(dg.materialize([asset], run_config=config, raise_on_error=False))
    assert message.endswith("steps is 0: Input should be greater than or equal to 1.\n")


@pytest.mark.parametrize("asset", ["base_rollouts", "dev_rollouts", "held_out_rollouts"])
def test_a_value_out_of_bounds_is_left_to_the_step_of_a_graph_asset(asset):
    graph = defs.resolve_asset_graph()
    chosen = dg.define_asset_job("chosen", asset)
    job = chosen.resolve(asset_graph=graph, resource_defs=defs.resources)
    config = {"ops": {asset: {"config": {"samples": 0}}}}
    assert asset in dg.validate_run_config(job, config)["ops"]


def test_a_mistake_in_the_code_passes_as_it_is():
    with pytest.raises(ZeroDivisionError):
        dg.materialize([mistaken])
