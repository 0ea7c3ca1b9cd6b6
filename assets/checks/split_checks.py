"""Checks that the dev split tests what training has not shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from assets.checks.expectations import Outcome, great_expectations, validate
from text2sql.datasets.reading.bird import asked_databases
from text2sql.datasets.reading.layout import SplitLayout
from text2sql.datasets.reading.overlap import repeated_databases, repeated_questions
from text2sql.questions import Question

TRAIN, DEV = "train", "dev"


def check_questions_apart(splits: Mapping[str, Iterable[Question]]) -> Outcome:
    """Warn of dev questions that training holds too: a model may know them by heart."""
    dev = list(splits.get(DEV, []))
    twins = repeated_questions(splits.get(TRAIN, []), dev)
    frame = pd.DataFrame(
        {
            "key": [question.key for question in dev],
            "db_id": [question.db_id for question in dev],
            "question": [question.question for question in dev],
            "in_train": [twins.get(question.key, "") for question in dev],
        },
        dtype=object,
    )
    return _none_in_train(frame, "question", ("key", "db_id", "question", "in_train"))


def check_databases_apart(frame: pd.DataFrame, layouts: Mapping[str, SplitLayout]) -> Outcome:
    """Warn of dev databases whose content training has too; rows of ``split, db_id, sha256``.

    Only databases that a split's questions name count: two splits may share a folder of them.
    """
    asked = {
        (split, db_id) for split, layout in layouts.items() for db_id in asked_databases(layout)
    }
    frame = frame[[pair in asked for pair in zip(frame["split"], frame["db_id"], strict=True)]]
    digests = {
        split: dict(zip(rows["db_id"], rows["sha256"], strict=True))
        for split, rows in frame.groupby("split")
    }
    twins = repeated_databases(digests.get(TRAIN, {}), digests.get(DEV, {}))
    dev = frame[frame["split"] == DEV]
    dev = dev.assign(in_train=[twins.get(db_id, "") for db_id in dev["db_id"]])
    return _none_in_train(dev, "database", ("db_id", "in_train"))


def _none_in_train(frame: pd.DataFrame, what: str, shown: tuple[str, ...]) -> Outcome:
    expectation = great_expectations().expectations.ExpectColumnValueLengthsToBeBetween(
        column="in_train",
        max_value=0,
        severity="warning",
        description=f"no {what} of the dev split is in the training split too",
    )
    return validate(frame, [expectation], shown)
