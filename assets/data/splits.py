"""The splits of a dataset: where each lies, and its questions as the suites look at them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from assets.common.versions import fingerprint
from assets.data.config import POCKET, BirdConfig
from assets.data.stored import Archive
from text2sql.datasets.fetching.sources import Sources
from text2sql.datasets.pocket.corpus import FORMAT, CorpusSizes, generate
from text2sql.datasets.reading.bird import Record
from text2sql.datasets.reading.digests import Digests, combine_digests
from text2sql.datasets.reading.layout import SplitLayout
from text2sql.datasets.reading.layout import fingerprint as layout_of
from text2sql.errors import Text2SqlError


def find_splits(config: BirdConfig, sources: Sources, root: Path) -> dict[str, SplitLayout]:
    """Return where each split lies; what is not there yet is generated or brought first."""
    if not config.splits:
        raise Text2SqlError("There is no split to ingest: name train, dev or both.")
    places = {split: config.source_of(split) for split in config.splits}
    pocket = any(source.place == POCKET for source in places.values())
    folder = _generate(config, root) if pocket else root
    return {
        split: sources.find(replace(source, place=str(folder)), split)
        if source.place == POCKET
        else sources.find(source, split)
        for split, source in places.items()
    }


def content_of(splits: Mapping[str, SplitLayout], digests: Digests) -> str:
    """Return the fingerprint of a dataset's files as they are now."""
    return combine_digests({name: layout_of(split, digests) for name, split in splits.items()})


def archive_of(source: str, splits: dict[str, SplitLayout], digests: Digests) -> Archive:
    """Return a dataset as it lies on disk now; its folder is the one that has all of it."""
    folders = [layout.questions.parent for layout in splits.values()]
    folder = Path(os.path.commonpath(folders))
    return Archive(source, folder, content_of(splits, digests), splits)


def require_unchanged(archive: Archive, digests: Digests) -> None:
    """Raise Text2SqlError where the files are not what ``bird_archive`` looked at."""
    if content_of(archive.splits, digests) != archive.fingerprint:
        raise Text2SqlError(
            f"The files of {archive.folder} have changed since bird_archive looked at them: "
            "materialize bird_archive again, with what follows it."
        )


def _generate(config: BirdConfig, root: Path) -> Path:
    """Return the folder of the pocket corpus."""
    sizes = config.sizes.model_dump()
    version = fingerprint(format=FORMAT, seed=config.seed, sizes=sizes)
    return generate(root / "corpus" / version, config.seed, CorpusSizes(**sizes))


_COLUMNS = ["key", "db_id", "question", "evidence", "sql", "difficulty", "status", "detail"]


def question_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Return what the suites look at, a row for each question; an empty text is a null there."""
    return pd.DataFrame([_question_row(record) for record in records], columns=_COLUMNS)


def _question_row(record: Record) -> dict[str, Any]:
    texts = {name: getattr(record.question, name) or None for name in _COLUMNS[:6]}
    return texts | {"status": record.reason or "ok", "detail": record.detail}


def count_values(column: pd.Series) -> dict[str, int]:
    """Return how often each value of a column occurs, the most frequent first."""
    return {str(name): int(count) for name, count in column.value_counts().items()}
