"""Gold results and flags of an ingested dataset, computed once for the same data and code."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version as installed
from pathlib import Path

from text2sql.common.counting import counted
from text2sql.common.json_files import read_if_there, read_rows, write_json, write_rows
from text2sql.common.provenance import fingerprint
from text2sql.datasets.gold.find import flag_golds
from text2sql.datasets.gold.flags import Flag, GoldFlag
from text2sql.datasets.gold.run import run_golds
from text2sql.datasets.stored import Dataset, dataset_folder, load_all_golds
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox
from text2sql.sandbox.sql.repeatable import asks_outside

_FLAGS, _FLAG_STATE = "gold_flags.jsonl", "gold_flags.json"
_PROGRESS_EVERY = 500


def gold_version(dataset: Dataset, questions: Sequence[Question], limits: Limits, code: str) -> str:
    """Return a version of everything that gold results depend on; ``code`` is the code's."""
    return fingerprint(
        data=dataset.fingerprint,
        queries=[[question.key, question.sql] for question in questions],
        seconds=limits.seconds,
        code=code,
        sqlite=sqlite3.sqlite_version,
    )


def current_golds(
    root: Path,
    dataset: Dataset,
    questions: Sequence[Question],
    version: str,
    sandbox: Sandbox,
    limits: Limits,
    say: Callable[[str], None],
) -> dict[str, GoldResult]:
    """Return stored gold results of this version, or run all queries.

    Queries that ask the clock or chance are run again in any case.
    """
    stored = load_all_golds(root, dataset, version)
    if stored is not None:
        changing = [question for question in questions if asks_outside(question.sql)]
        say(
            "Reused the gold results of an earlier run: nothing has changed. Run again because "
            f"they ask the clock or chance: {counted(len(changing), 'query', 'queries')}."
        )
        return stored | run_golds(changing, sandbox, limits)

    def report(ended: int, of: int) -> None:
        if ended == of or ended % _PROGRESS_EVERY == 0:
            say(f"{ended:,} of {of:,} gold queries have run.")

    return run_golds(questions, sandbox, limits, report)


def current_flags(
    root: Path,
    dataset: Dataset,
    questions: Sequence[Question],
    golds: Mapping[str, GoldResult],
    sandbox: Sandbox,
    limits: Limits,
    code: str,
) -> list[GoldFlag]:
    """Return stored flags of the same gold results and code, or find them."""
    folder = dataset_folder(root, dataset)
    version = fingerprint(
        golds=[[gold.key, gold.status, gold.digest] for gold in golds.values()],
        code=code,
        sqlglot=installed("sqlglot"),
    )
    if read_if_there(folder / _FLAG_STATE).get("version") == version:
        return [GoldFlag(**row | {"flag": Flag(row["flag"])}) for row in read_rows(folder / _FLAGS)]
    flags = flag_golds(questions, golds, sandbox, limits)
    write_rows(folder / _FLAGS, map(asdict, flags))
    write_json(folder / _FLAG_STATE, {"version": version})
    return flags
