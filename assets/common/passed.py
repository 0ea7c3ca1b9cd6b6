"""Blocking checks across runs."""

from __future__ import annotations

import dagster as dg

from text2sql.errors import Text2SqlError


def require_passed(context: dg.AssetExecutionContext, asset: str, check: str) -> None:
    """Raise Text2SqlError if an asset's check failed last.

    A blocking check stops the rest of its own run; a later run that starts downstream is
    stopped here. A check that never ran stops nothing: the asset came from its own run then.
    """
    key = dg.AssetCheckKey(dg.AssetKey(asset), check)
    storage = context.instance.event_log_storage
    record = storage.get_latest_asset_check_execution_by_key([key]).get(key)
    evaluation = record.evaluation if record else None
    if evaluation is not None and not evaluation.passed:
        raise Text2SqlError(
            f"The check {check} of {asset} failed: {evaluation.description or 'see its metadata'} "
            f"Fix it and materialize {asset} again."
        )
