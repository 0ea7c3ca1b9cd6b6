"""What a person sets when ingesting a dataset: the forms of the launchpad."""

from __future__ import annotations

import dagster as dg
from pydantic import Field

from text2sql.datasets.pocket.corpus import DEVELOPMENT_SEED, CorpusSizes

POCKET = "pocket"


class PocketSizes(dg.Config):
    """How many questions each part of the pocket corpus has."""

    train: int = Field(default=CorpusSizes.train, ge=1, le=100_000)
    new_databases: int = Field(default=CorpusSizes.new_databases, ge=0, le=100_000)
    unseen_words: int = Field(default=CorpusSizes.unseen_words, ge=0, le=100_000)
    general: int = Field(default=CorpusSizes.general, ge=0, le=100_000)


class BirdConfig(dg.Config):
    """Which dataset to ingest."""

    source: str = Field(
        default=POCKET,
        description="'pocket' for the generated corpus, or a dataset in BIRD's or Spider's "
        "layout: its folder, at any level, or the .zip as it is published.",
    )
    splits: list[str] = Field(default=["train", "dev"], description="The splits to ingest.")
    seed: int = Field(default=DEVELOPMENT_SEED, ge=0, description="Seed of the pocket corpus.")
    sizes: PocketSizes = Field(
        default_factory=PocketSizes, description="How many questions each part of it has."
    )


class QuestionsConfig(dg.Config):
    """What a questions file may be like before it stops the run."""

    least: int = Field(default=1, ge=0, description="Questions that a split must have.")
    most: int = Field(default=1_000_000, ge=1, description="Questions that a split may have.")
    missing_databases: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="The share of questions that may lack their database; they are left out.",
    )


class GoldConfig(dg.Config):
    """How gold queries are run, and how many may fail."""

    seconds: float = Field(default=30.0, gt=0, le=3600, description="Limit of one gold query.")
    failing: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="The share of gold queries that may fail (3.9 % of BIRD's first train release "
        "do); their questions are not trained on.",
    )
