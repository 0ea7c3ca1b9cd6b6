"""Which dataset a run works on: the one that its own ``bird_archive`` looked at.

Two runs may ingest different datasets into one artifact root at once. ``archive.json`` names the
one that was looked at last, whoever did: a run that has looked itself goes on with what it saw.
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from assets.data.stored import Archive, load_archive, load_current, load_dataset
from text2sql.errors import Text2SqlError

Context = dg.AssetExecutionContext | dg.OpExecutionContext
_ASSET = dg.AssetKey("bird_archive")


def own_archive(context: Context, root: Path, passed: bool = False) -> Archive:
    """Return the archive that this run looked at.

    Where it did not, that is the last that any run looked at, or that ``passed`` its checks.
    """
    if seen := _seen(context):
        return load_dataset(root, seen)
    return load_current(root) if passed else load_archive(root)


def own_current(context: Context, root: Path) -> Archive:
    """Return the current dataset; raise Text2SqlError where it is not the one of this run."""
    current, seen = load_current(root), _seen(context)
    if seen not in ("", current.fingerprint):
        raise Text2SqlError(
            f"Another run has ingested {current.folder} into {root} while this one worked on the "
            f"dataset {seen}: run them one after the other, or give each its own TEXT2SQL_ROOT."
        )
    return current


def _seen(context: Context) -> str:
    """Return the fingerprint that this run, or the one it goes on with, has seen; may be empty."""
    run = context.run
    for run_id in (run.run_id, run.parent_run_id, run.root_run_id):
        for entry in _materializations(context, run_id) if run_id else []:
            if entry.asset_key == _ASSET:
                return str(entry.metadata["fingerprint"].value)
    return ""


def _materializations(context: Context, run_id: str) -> list[dg.AssetMaterialization]:
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    entries = context.instance.all_logs(run_id, of_type=kind)
    found = (entry.asset_materialization for entry in reversed(entries))
    return [one for one in found if one is not None]
