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


def renewed(
    golds: Mapping[str, GoldResult],
    questions: Sequence[Question],
    sandbox: Sandbox,
    limits: Limits = Limits(),
) -> dict[str, GoldResult]:
    """Return gold results with those of the questions anew whose query asks the clock or chance."""
    changing = [q for q in questions if q.key in golds and asks_outside(q.sql)]
    return {**golds, **run_golds(changing, sandbox, limits)}


def current_golds(
    root: Path,
    dataset: Dataset,
    questions: Sequence[Question],
    sandbox: Sandbox,
    limits: Limits,
    code: str,
    say: Callable[[str], None],
) -> tuple[dict[str, GoldResult], list[GoldFlag], str]:
    """Return gold results, their flags, and a version of all that the results depend on.

    Those of this version and ``code``'s are read if they are stored; only queries that ask the
    clock or chance are run again in any case.
    """
    version = fingerprint(
        data=dataset.fingerprint,
        queries=[[question.key, question.sql] for question in questions],
        seconds=limits.seconds,
        code=code,
        sqlite=sqlite3.sqlite_version,
    )

    def report(ended: int, of: int) -> None:
        if ended == of or ended % _PROGRESS_EVERY == 0:
            say(f"{ended:,} of {of:,} gold queries have run.")

    golds = load_all_golds(root, dataset, version)
    if golds is None:
        golds = run_golds(questions, sandbox, limits, report)
    else:
        changing = sum(asks_outside(question.sql) for question in questions)
        say(
            "Reused the gold results of an earlier run: nothing has changed. Run again because "
            f"they ask the clock or chance: {counted(changing, 'query', 'queries')}."
        )
        golds = renewed(golds, questions, sandbox, limits)

    folder = dataset_folder(root, dataset)
    flag_version = fingerprint(
        golds=[[gold.key, gold.status, gold.digest] for gold in golds.values()],
        code=code,
        sqlglot=installed("sqlglot"),
    )
    if read_if_there(folder / _FLAG_STATE).get("version") == flag_version:
        rows = read_rows(folder / _FLAGS)
        return golds, [GoldFlag(**row | {"flag": Flag(row["flag"])}) for row in rows], version
    flags = flag_golds(questions, golds, sandbox, limits)
    write_rows(folder / _FLAGS, map(asdict, flags))
    write_json(folder / _FLAG_STATE, {"version": flag_version})
    return golds, flags, version
