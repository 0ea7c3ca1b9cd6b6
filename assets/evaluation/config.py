"""What a person sets about an evaluation: the forms of the launchpad."""

from __future__ import annotations

from pydantic import Field

from assets.rollouts.sampling import SamplingConfig
from resources.forms import Form


class EvaluationConfig(SamplingConfig):
    """How two policies are sampled on a split's questions, beside one greedy rollout each."""

    sampled_per_subset: int = Field(
        default=0,
        ge=0,
        description="Questions of each subset that are also sampled; 0 means all of them.",
    )
    single_turn: bool = Field(
        default=True,
        description="Also ask each question once without tools: the schema, one greedy reply.",
    )


class DevRolloutsConfig(EvaluationConfig):
    """How the base, the trained policy and, if necessary, the champion are sampled on dev."""

    ask_champion: bool = Field(
        default=True,
        description="Also ask the champion each question once, greedily, if it was not evaluated "
        "on these questions with these prompts: the gate compares with it.",
    )


class HeldOutConfig(EvaluationConfig):
    """How champion and base are sampled on the held-out split."""

    split: str = Field(
        default="test",
        description="A split of the dataset that neither trains nor chooses a policy "
        "(bird_archive ingests it if its splits include it).",
    )


class ScoresConfig(Form):
    """Which slices of the questions are scored separately, and by which rules."""

    strong: float = Field(
        default=0.75,
        gt=0,
        le=1,
        description="From this reward strength on a question is strong (docs/reward-strength.md).",
    )
    other_rules: bool = Field(
        default=True,
        description="Run the greedy queries and gold once more to compare them by other rules "
        "(multiset, order, Soft-F1) as well.",
    )
    timed_runs: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="How often each greedy match and its gold are timed for VES and R-VES; 0: "
        "never. Costs twice as many runs of each, on one worker; needs other_rules.",
    )
