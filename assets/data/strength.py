"""Reward strength: how many near-misses of each gold query the reward tells apart from it."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import sqlglot
from pydantic import Field

from assets.common.columns import DATA_TEAM, named_columns
from assets.common.sources import JUDGE, SANDBOX, version_for
from assets.common.told import told
from assets.common.versions import code_version, fingerprint
from assets.data import stored as data
from assets.data.bird import gold_results
from assets.data.own_dataset import own_current
from assets.data.strength_view import describe_strength
from resources.forms import Form
from resources.paths import ArtifactRoot
from resources.sandbox import SandboxResource
from text2sql.common.files import write_whole
from text2sql.common.json_files import read_if_there, write_json, write_rows
from text2sql.errors import Text2SqlError
from text2sql.judge.known_results import KnownResults
from text2sql.judge.strength.measure import Strength, measure_strength
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox

STRENGTH, NEAR_MISSES, STATE = "strength.jsonl", "strength.parquet", "strength.json"


class StrengthConfig(Form):
    """How near-misses are run."""

    seconds: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="Limit of one near-miss; one that takes longer does not count.",
    )


@dg.asset(
    group_name="bird",
    deps=[gold_results],
    owners=DATA_TEAM,
    code_version=version_for("reward_strength"),
    kinds={"jsonl"},
    metadata=named_columns(
        ("key", "str", "The question's key."),
        ("score", "float", "Share of near-misses that the reward tells apart; null without one."),
        ("reason", "str", "Why there is no score; empty where there is one."),
        ("near_misses", "list", "Each that was tried: its kind, change, SQL and outcome."),
    ),
)
@told
def reward_strength(
    context: dg.AssetExecutionContext,
    config: StrengthConfig,
    root: ArtifactRoot,
    sandbox: SandboxResource,
) -> dg.MaterializeResult:
    """The share of near-misses of each gold query that the reward tells apart from it.

    What is there already, made from the same data by the same code, is not measured again.
    """
    archive = own_current(context, root.path)
    questions = [q for split in archive.splits for q in data.load_questions(root.path, split)]
    version = _version(root.path, archive, config)
    found = _stored(root.path, archive, version)
    if found is None:
        with sandbox.open() as box:
            found = list(_measure(context, root, questions, box, Limits(seconds=config.seconds)))
        _store(root.path, archive, found, version)
    else:
        context.log.info("Reused the reward strength of an earlier run: nothing has changed.")
    folder = data.dataset_folder(root.path, archive)
    frame = near_miss_frame(questions, found)
    write_whole(folder / NEAR_MISSES, frame.to_parquet(index=False))
    scores = [[strength.key, strength.score] for strength in found]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(fingerprint(scores=scores)),
        metadata=describe_strength(folder, questions, found, frame),
    )


def _version(root: Path, archive: data.Archive, config: StrengthConfig) -> str:
    golds = _golds(root, archive).values()
    return fingerprint(
        data=archive.fingerprint,
        golds=[[gold.key, gold.status, gold.digest] for gold in golds],
        config=config.model_dump(),
        code=code_version(*JUDGE),
        sqlite=sqlite3.sqlite_version,
        sqlglot=sqlglot.__version__,
    )


def _golds(root: Path, archive: data.Archive) -> dict[str, GoldResult]:
    splits = [data.load_golds(root, split) for split in archive.splits]
    return {key: gold for split in splits for key, gold in split.items()}


def _measure(
    context: dg.AssetExecutionContext,
    root: ArtifactRoot,
    questions: Sequence[Question],
    box: Sandbox,
    limits: Limits,
) -> Iterator[Strength]:
    """Measure all questions; near-misses that an earlier run has run are not run again."""
    golds = _golds(root.path, data.load_current(root.path))
    known = KnownResults(root.folder("known_results", code_version(*SANDBOX)))

    def tell(done: int, of: int) -> None:
        if done == of or done % 1000 == 0:
            context.log.info(f"The near-misses of {done:,} of {of:,} gold queries have run.")

    try:
        yield from measure_strength(questions, golds, box, limits, known, tell)
    finally:
        known.close()


def _store(root: Path, archive: data.Archive, found: Sequence[Strength], version: str) -> None:
    """Write the strengths of each split; what the infrastructure spoilt is not finished work."""
    for split in archive.splits:
        rows = [one.to_dict() for one in found if one.key.startswith(f"{split}/")]
        write_rows(data.split_folder(root, archive, split) / STRENGTH, rows)
    spoilt = any(strength.retry for strength in found)
    state = {"version": "" if spoilt else version}
    write_json(data.dataset_folder(root, archive) / STATE, state)


def _stored(root: Path, archive: data.Archive, version: str) -> list[Strength] | None:
    if read_if_there(data.dataset_folder(root, archive) / STATE).get("version") != version:
        return None
    files = [data.split_folder(root, archive, split) / STRENGTH for split in archive.splits]
    return [Strength.from_dict(row) for file in files for row in _rows(file)]


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def near_miss_frame(questions: Sequence[Question], found: Sequence[Strength]) -> pd.DataFrame:
    """Return a row a near-miss: question, database, what was changed and what became of it."""
    databases = {question.key: question.db_id for question in questions}
    rows = [
        {"key": strength.key, "db_id": databases[strength.key], "kind": tried.kind}
        | {"outcome": tried.outcome.value, "change": tried.change, "sql": tried.sql}
        | {"detail": tried.detail}
        for strength in found
        for tried in strength.tried
    ]
    columns = ["key", "db_id", "kind", "outcome", "change", "sql", "detail"]
    return pd.DataFrame(rows, columns=columns, dtype="str")


def load_strength(root: Path, split: str) -> dict[str, float | None]:
    """Return the reward strength of a split's questions by key, None where there is no score.

    Empty where reward_strength was not materialized for the current dataset.
    """
    file = data.split_folder(root, data.load_current(root), split) / STRENGTH
    if not file.is_file():
        return {}
    return {row["key"]: row["score"] for row in _rows(file)}


def require_strength(root: Path, split: str) -> dict[str, float | None]:
    """Return the reward strength of a split's questions; raise where it was not measured."""
    found = load_strength(root, split)
    if not found:
        raise Text2SqlError(
            f"There is no reward strength for the {split} questions: materialize reward_strength "
            "first, or set minimum_strength to 0."
        )
    return found
