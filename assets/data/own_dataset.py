"""Which dataset a run works on: the one that its own ``bird_archive`` found.

Two runs may ingest different datasets into one artifact root at once. ``archive.json`` names the
one that was found last, by whichever run: a run that has found its own continues with that.
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from text2sql.datasets.stored import Dataset, load_current, load_dataset, load_latest
from text2sql.errors import Text2SqlError

Context = dg.AssetExecutionContext | dg.OpExecutionContext


def own_dataset(context: Context, root: Path, passed: bool = False) -> Dataset:
    """Return the dataset that this run has found, else the last found (``passed``: accepted)."""
    if found := _found(context):
        return load_dataset(root, found)
    return load_current(root) if passed else load_latest(root)


def own_current(context: Context, root: Path) -> Dataset:
    """Return the current dataset; raise Text2SqlError if this run works on another."""
    current, found = load_current(root), _found(context)
    if found not in ("", current.fingerprint):
        raise Text2SqlError(
            f"Another run has ingested {current.folder} into {root} while this one worked on the "
            f"dataset {found}: run them one after the other, or give each its own TEXT2SQL_ROOT."
        )
    return current


def _found(context: Context) -> str:
    """Return the fingerprint that this run, or the one that it re-executes, has found; or empty."""
    run = context.run
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    for run_id in filter(None, (run.run_id, run.parent_run_id, run.root_run_id)):
        for entry in reversed(context.instance.all_logs(run_id, of_type=kind)):
            made = entry.asset_materialization
            if made is not None and made.asset_key == dg.AssetKey("bird_archive"):
                return str(made.metadata["fingerprint"].value)
    return ""
