"""Telling people about the answers of a day: what a failure to do so looks like in Dagster."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from assets.common.plots import records
from resources.delivery import DeliveryResource
from text2sql.errors import Text2SqlError
from text2sql.reporting.delivery.delivery import Delivery, State, build_message, deliver
from text2sql.reporting.delivery.entries import Entry
from text2sql.reporting.tables.store import ReportingStore

CHECK = "delivered"
BACKFILL_TAG = "dagster/backfill"


def deliver_day(
    run: dg.DagsterRun,
    resource: DeliveryResource,
    store: ReportingStore,
    day: str,
    shown: Sequence[Entry],
) -> dg.AssetCheckResult:
    """Send a day's answers to whom it was asked for; the check says what became of that.

    It never raises for a message that was not taken: the answers are there, and the next run
    for the day tries again what failed. A backfill, which may be of a whole year, tells nobody.
    """
    try:
        channels = resource.channels()
        if not channels:
            return _check("Nobody is told: neither a webhook nor mail is set up.")
        if BACKFILL_TAG in run.tags:
            return _check("This run belongs to a backfill: nobody is told.")
        message = build_message(day, shown, resource.send)
        if message is None:
            return _check("Nothing is new, changed, doubtful or unanswered: nothing was sent.")
        return _result(deliver(store, message, channels))
    except Text2SqlError as error:
        return _check(str(error), passed=False)


def _result(found: Sequence[Delivery]) -> dg.AssetCheckResult:
    words = [f"{one.channel}: {one.state}{f' ({one.error})' if one.error else ''}" for one in found]
    table = [
        {"channel": one.channel, "state": one.state.value, "error": one.error} for one in found
    ]
    fine = all(one.state is not State.FAILED and not one.error for one in found)
    return _check("; ".join(words), fine, {"deliveries": records(table)})


def _check(
    description: str, passed: bool = True, metadata: dict[str, dg.MetadataValue] | None = None
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=CHECK,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=description,
        metadata=metadata or {},
    )
