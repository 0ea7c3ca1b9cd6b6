"""What a person sets for the reports: the forms of the launchpad."""

from __future__ import annotations

from pydantic import Field

from resources.forms import MAX_TOKENS, TEMPERATURE, TOP_P, Form, bounded
from text2sql.policy.base import Sampling
from text2sql.reporting.model import bounds


class ReportQuestionsConfig(Form):
    """Where the questions and their databases come from."""

    file: str = Field(
        default="",
        description="A YAML list of questions; empty: the shipped questions, unless the tables "
        "only have others.",
    )
    databases: str = Field(
        default="",
        description="The folder of the databases; empty: the shipped questions' own database.",
    )


class ReportAnswersConfig(Form):
    """How the champion answers."""

    group: str = Field(
        default="",
        description="Answer only this schedule group, on any day; empty: every group that is "
        "due on the day.",
    )
    force: bool = Field(default=False, description="Ask again what is already answered.")
    least_answered: float = bounded(bounds.LEAST_ANSWERED)
    least_agreement: float = bounded(bounds.LEAST_AGREEMENT)
    temperature: float = bounded(TEMPERATURE)
    top_p: float = bounded(TOP_P)
    max_tokens: int = bounded(MAX_TOKENS)
    keep_rows: int = bounded(bounds.KEEP_ROWS)
    concurrency: int = bounded(bounds.CONCURRENCY)
    threads: int = bounded(bounds.THREADS)

    def sampling(self) -> Sampling:
        """Return how queries are sampled."""
        return Sampling(self.temperature, self.top_p, self.max_tokens)
