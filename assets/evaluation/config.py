"""What a person sets about the rollouts of an evaluation: the forms of the launchpad."""

from __future__ import annotations

from pydantic import Field

from assets.rollouts.sampling import SamplingConfig


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
    """How base, trained policy and, where it needs to be, the champion are sampled on dev."""

    ask_champion: bool = Field(
        default=True,
        description="Also ask the champion each question once, greedily, where it was not "
        "evaluated on these questions with these prompts: the gate compares with it.",
    )
