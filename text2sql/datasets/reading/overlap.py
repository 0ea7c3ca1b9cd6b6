"""What a dev split shares with the training split: such questions are no test of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from text2sql.questions import Question


def repeated_questions(train: Iterable[Question], dev: Iterable[Question]) -> dict[str, str]:
    """Return the dev questions that training holds too: their keys, and the training keys.

    Two questions are one if their words agree, in any case and spacing, and so does their
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
    """Return the dev databases whose content training has too: their db_ids, and those there.

    Both map db_id to a digest of the database's content; an empty digest is unknown.
    """
    known = {digest: db_id for db_id, digest in train.items() if digest}
    return {db_id: known[digest] for db_id, digest in dev.items() if digest in known}


def _identities(question: Question) -> list[tuple[str, ...]]:
    words = _folded(question.question)
    if not words:
        return []
    places = [("database", question.db_id), ("sql", _folded(question.sql))]
    return [(words, kind, value) for kind, value in places if value]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip("?.;! ")
