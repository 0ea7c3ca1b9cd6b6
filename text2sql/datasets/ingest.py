"""Ingest a dataset: find or make its splits, name their content, and compare train with dev."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from text2sql.common.artifacts import corpus_folder
from text2sql.common.provenance import fingerprint
from text2sql.datasets.fetching.sources import Source, Sources
from text2sql.datasets.pocket.corpus import FORMAT, CorpusSizes, generate
from text2sql.datasets.reading.digests import Digests, combine_digests
from text2sql.datasets.reading.layout import SplitLayout
from text2sql.datasets.reading.layout import fingerprint as split_fingerprint
from text2sql.datasets.stored import Dataset
from text2sql.errors import Text2SqlError
from text2sql.questions import Question

POCKET = "pocket"
"""The source of the generated corpus, instead of a folder, a .zip or a URL."""


def find_splits(
    places: Mapping[str, Source], sources: Sources, root: Path, seed: int, sizes: CorpusSizes
) -> dict[str, SplitLayout]:
    """Return where each split is; generate, download or unpack it first if need be.

    ``seed`` and ``sizes`` are those of the pocket corpus, for splits whose source it is.
    """
    if not places:
        raise Text2SqlError("No split to ingest: name train, dev or both.")
    if any(source.place == POCKET for source in places.values()):
        version = fingerprint(format=FORMAT, seed=seed, sizes=asdict(sizes))
        folder = str(generate(corpus_folder(root, version), seed, sizes))
        places = {
            split: replace(source, place=folder) if source.place == POCKET else source
            for split, source in places.items()
        }
    return {split: sources.find(source, split) for split, source in places.items()}


def dataset_of(source: str, splits: dict[str, SplitLayout], digests: Digests) -> Dataset:
    """Return a dataset as it is on disk now; its folder is the one that holds all splits."""
    folder = Path(os.path.commonpath([layout.questions.parent for layout in splits.values()]))
    return Dataset(source, folder, _content(splits, digests), splits)


def require_unchanged(dataset: Dataset, digests: Digests) -> None:
    """Raise Text2SqlError if a dataset's files have changed since it was ingested."""
    if _content(dataset.splits, digests) != dataset.fingerprint:
        raise Text2SqlError(
            f"The files of {dataset.folder} have changed since bird_archive read them: "
            "materialize bird_archive again, with everything downstream."
        )


def _content(splits: Mapping[str, SplitLayout], digests: Digests) -> str:
    return combine_digests({name: split_fingerprint(one, digests) for name, one in splits.items()})


def repeated_questions(train: Iterable[Question], dev: Iterable[Question]) -> dict[str, str]:
    """Return the dev questions that are also in train: their keys, and the training keys.

    Two questions are the same if their words agree, ignoring case and spacing, and so does their
    database's name or their SQL: "How many singers are there?" is asked of many databases.
    """
    known: dict[tuple[str, ...], str] = {}
    for question in train:
        for identity in _identities(question):
            known.setdefault(identity, question.key)
    found: dict[str, str] = {}
    for question in dev:
        keys = [known[identity] for identity in _identities(question) if identity in known]
        if keys:
            found[question.key] = keys[0]
    return found


def repeated_databases(train: Mapping[str, str], dev: Mapping[str, str]) -> dict[str, str]:
    """Return the dev databases whose content is also in train: their db_ids, and those in train.

    Both map db_id to a digest of the database's content; an empty digest is unknown.
    """
    known = {digest: db_id for db_id, digest in train.items() if digest}
    return {db_id: known[digest] for db_id, digest in dev.items() if digest in known}


def _identities(question: Question) -> list[tuple[str, ...]]:
    words, sql = (
        " ".join(text.casefold().split()).rstrip("?.;! ")
        for text in (question.question, question.sql)
    )
    pairs = [("database", question.db_id), ("sql", sql)]
    return [(words, kind, value) for kind, value in pairs if words and value]
