"""Telling people what went wrong, on the channels that the reports go to."""

from __future__ import annotations

import logging

import dagster as dg

from assets.common.partitions import PARTITION_TAG
from pipelines.runs.launch import Progress
from resources.delivery import DeliveryResource
from text2sql.errors import Text2SqlError
from text2sql.reporting.delivery.channels import Notice


def notice_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Notice:
    """Return the notice about a run that failed: what it was, and why in a sentence."""
    name, reason = run_name(run), reason_of(instance, run)
    facts = {"event": "run failed", "job": run.job_name, "dagster_run": run.run_id}
    partition = run.tags.get(PARTITION_TAG, "")
    text = f"{reason}\nDagster run {run.run_id}: open it in the UI under Runs."
    return Notice(
        f"Run failed: {name}", text, run.run_id, facts | {"partition": partition, "reason": reason}
    )


def is_ours(repository: dg.RepositoryDefinition, run: dg.DagsterRun) -> bool:
    """Say whether a run is of this project's jobs or assets, wherever it was started."""
    if run.asset_selection:
        return run.asset_selection <= repository.asset_graph.get_all_asset_keys()
    return repository.has_job(run.job_name)


def run_name(run: dg.DagsterRun) -> str:
    """Return what a run is called: its job, or its assets, and its partition."""
    name = run.job_name
    if run.asset_selection:
        name = ", ".join(sorted(key.to_user_string() for key in run.asset_selection))
    partition = run.tags.get(PARTITION_TAG)
    return f"{name} ({partition})" if partition else name


def reason_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Return why a run failed, from its events."""
    progress, cursor, more = Progress(run.run_id), None, True
    while more:
        page = instance.get_records_for_run(run.run_id, cursor=cursor, limit=1000)
        for record in page.records:
            progress.take(record.event_log_entry)
        cursor, more = page.cursor, page.has_more
    return progress.reason()


def tell(delivery: DeliveryResource, notice: Notice, log: logging.Logger) -> tuple[bool, str]:
    """Send a notice on every channel; return whether all took it, and what became of it.

    It never raises: a channel that does not take it is logged, and keeps no other from it.
    """
    try:
        channels = delivery.channels()
    except Text2SqlError as error:
        log.error(f"Nobody was told: {error}.")
        return False, f"Nobody was told: {error}."
    if not channels:
        return False, "Nobody is told: neither a webhook nor mail is set up."
    words, fine = [], True
    for channel in channels:
        try:
            problem = channel.tell(notice)
        except Exception as error:  # the run has failed, whatever happens here
            problem = str(error) or type(error).__name__
            log.exception(f"{channel.kind}: the notice was not delivered")
        words.append(f"{channel.kind}: {problem or 'sent'}")
        fine = fine and not problem
    return fine, "; ".join(words)
