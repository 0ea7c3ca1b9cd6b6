"""What a person sets when the champion answers a day: the form of the launchpad."""

from __future__ import annotations

from pydantic import Field

from resources.forms import Form
from text2sql.policy.base import Sampling


class ReportAnswersConfig(Form):
    """How the champion answers."""

    group: str = Field(
        default="",
        description="Answer this schedule group only, on whatever day; empty: every group that is "
        "due on the day.",
    )
    force: bool = Field(default=False, description="Ask again what is already answered.")
    least_answered: float = Field(
        default=0.5, ge=0, le=1, description="A smaller answered share is warned of."
    )
    least_agreement: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="A smaller mean share of candidates that agree is warned of.",
    )
    temperature: float = Field(default=1.0, gt=0, le=2, description="Sampling temperature.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="Nucleus of the sampling.")
    max_tokens: int = Field(
        default=2048, ge=16, le=131_072, description="Tokens of one reply at most."
    )
    keep_rows: int = Field(
        default=10_000, ge=1, le=1_000_000, description="Rows of an answer that are stored."
    )
    concurrency: int = Field(default=4, ge=1, le=256, description="Questions asked side by side.")
    threads: int = Field(default=1, ge=1, le=256, description="CPU threads of a local policy.")

    def sampling(self) -> Sampling:
        """Return how the candidates are drawn."""
        return Sampling(self.temperature, self.top_p, self.max_tokens)
