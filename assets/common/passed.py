"""What a check said last, for those who rely on it in a later run."""

from __future__ import annotations

import dagster as dg

from text2sql.errors import Text2SqlError


def require_passed(context: dg.AssetExecutionContext, asset: str, check: str) -> None:
    """Refuse to go on when an asset's check failed last.

    A blocking check stops what follows in its own run; a later run that starts downstream is
    stopped here. A check that never ran stops nothing: the asset came from its own run then.
    """
    key = dg.AssetCheckKey(dg.AssetKey(asset), check)
    storage = context.instance.event_log_storage
    record = storage.get_latest_asset_check_execution_by_key([key]).get(key)
    evaluation = record.evaluation if record else None
    if evaluation is not None and not evaluation.passed:
        raise Text2SqlError(
            f"The check {check} of {asset} failed: {evaluation.description or 'see its metadata'} "
            f"Mend it and materialize {asset} again."
        )
