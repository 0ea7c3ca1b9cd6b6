"""The settings of ingestion: the forms of the launchpad."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from resources.forms import Form
from text2sql.datasets.fetching.sources import Source
from text2sql.datasets.ingest import POCKET
from text2sql.datasets.pocket.corpus import DEVELOPMENT_SEED, CorpusSizes
from text2sql.errors import Text2SqlError

Share = Annotated[float, Field(ge=0, le=1)]


def _count(default: int, description: str) -> Any:
    return Field(default=default, ge=0, le=100_000, description=description)


class PocketSizes(Form):
    """How many questions each part of the pocket corpus has."""

    train: int = Field(
        default=CorpusSizes.train, ge=1, le=100_000, description="Questions to train on."
    )
    new_databases: int = _count(
        CorpusSizes.new_databases, "Dev questions on databases that are not in train."
    )
    unseen_words: int = _count(
        CorpusSizes.unseen_words, "Dev questions with words that are not in train."
    )
    general: int = _count(
        CorpusSizes.general, "Dev questions in the general phrasing: what training forgets."
    )


class SplitConfig(Form):
    """Where one split comes from, if not from the dataset's source."""

    source: str = Field(
        default="",
        description="A folder, a .zip or a URL of a .zip that holds this split; empty for the "
        "dataset's source.",
    )
    sha256: str = Field(default="", description="The sha256 of this source's .zip, if known.")
    questions: str = Field(
        default="",
        description="Path or URL of the questions file (.json or .jsonl), if the source has "
        "none or several; empty to look for it in the source.",
    )


def _elsewhere(description: str) -> Any:
    return Field(default_factory=SplitConfig, description=description)


class BirdConfig(Form):
    """Which dataset to ingest."""

    source: str = Field(
        default=POCKET,
        description="'pocket' for the generated corpus, or a dataset in BIRD's, Spider's or a "
        "team's own layout: its folder, at any level, the .zip as it is published, or its URL.",
    )
    sha256: str = Field(default="", description="The sha256 of the source's .zip, if known.")
    train: SplitConfig = _elsewhere("The training split, if from elsewhere.")
    dev: SplitConfig = _elsewhere("The dev split, if from elsewhere.")
    test: SplitConfig = _elsewhere("A held-out split, if from elsewhere and named in splits.")
    splits: list[str] = Field(
        default=["train", "dev"],
        description="The splits to ingest. A third, test, decides nothing: held_out_scores "
        "evaluates the champion on it, once.",
    )
    seed: int = Field(default=DEVELOPMENT_SEED, ge=0, description="Seed of the pocket corpus.")
    sizes: PocketSizes = Field(
        default_factory=PocketSizes, description="How many questions each part of it has."
    )

    def source_of(self, split: str) -> Source:
        """Return where a split comes from; raise Text2SqlError for an unknown split."""
        known = {"train": self.train, "dev": self.dev, "test": self.test}
        if (own := known.get(split)) is None:
            raise Text2SqlError(f"Unknown split '{split}': use one of {', '.join(known)}.")
        place, sha256 = (own.source, own.sha256) if own.source else (self.source, self.sha256)
        return Source(place, sha256, own.questions)


class QuestionsConfig(Form):
    """What a questions file may be like before it stops the run."""

    least: int = Field(default=1, ge=0, description="Questions that a split must have.")
    most: int = Field(default=1_000_000, ge=1, description="Questions that a split may have.")
    missing_databases: Share = Field(
        default=0.0,
        description="The share of questions that may lack their database; they are left out.",
    )


class DatabasesConfig(Form):
    """How thoroughly databases are checked."""

    indexes: bool = Field(
        default=False,
        description="Compare every index with its table too; a damaged one makes queries miss "
        "rows. Reads each database several times: minutes for one of some GB.",
    )


class GoldConfig(Form):
    """How gold queries are run, and how many may fail."""

    seconds: float = Field(default=30.0, gt=0, le=3600, description="Time limit of one gold query.")
    failing: Share = Field(
        default=0.05,
        description="The share of gold queries that may fail (3.9 % of BIRD's first train release "
        "do); their questions are not trained on.",
    )
