"""Running a job from the command line as a real Dagster run, and following it stage by stage."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from dagster import DagsterEventType as Event

from assets.common.partitions import PARTITION_TAG
from pipelines.runs.config_errors import refused_config
from pipelines.runs.orphans import OWNER_TAG, free_pools, owner
from pipelines.runs.pool_waits import stage_of, waited_pool
from text2sql.common.checkout import CHECKOUT
from text2sql.common.processes import GuardedProcess, last_lines
from text2sql.errors import Text2SqlError

LAUNCH_TAG = "text2sql/launch"
POLL_SECONDS = 0.5
_PLANS = (Event.ASSET_MATERIALIZATION_PLANNED, Event.ASSET_CHECK_EVALUATION_PLANNED)
"""Events of a run's start that name a step which has not begun."""

_BEGUN = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED)
_DISK_FULL = re.compile("no space left on device|(?:database or )?disk (?:is full|I/O error)", re.I)


@dataclass
class Stage:
    """An asset on its way: when it began, when it was there, and the metadata it came with."""

    name: str
    began: float
    ended: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    latest: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long the stage took, or has taken so far."""
        return (self.ended or time.time()) - self.began


@dataclass(frozen=True)
class FailedCheck:
    """A check that did not pass, what it says, and the step that held it."""

    asset: str
    name: str
    description: str
    step: str

    def __str__(self) -> str:
        """Return a sentence."""
        return f"{self.asset}: {self.name}: {self.description}".rstrip(".") + "."


@dataclass
class Progress:
    """What is known of a run: its stages in order, what went wrong, and its waits.

    ``waits`` has a stage and a pool for each time that a step was told to wait.
    """

    run_id: str = ""
    stages: dict[str, Stage] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    failed_checks: list[FailedCheck] = field(default_factory=list)
    cancelling: bool = False
    waits: list[tuple[str, str]] = field(default_factory=list)

    def take(self, entry: dg.EventLogEntry) -> Stage | None:
        """Learn from one event; return the stage that it completed, if any."""
        event = entry.dagster_event
        if event is not None and event.event_type is Event.PIPELINE_CANCELING:
            self.cancelling = True
        if event is None or event.step_key is None or event.event_type in _PLANS:
            return None
        if pool := waited_pool(event):
            self.waits.append((stage_of(event), pool))
            return None
        stage = self._stage(event, entry.timestamp)
        if event.event_type is Event.ASSET_MATERIALIZATION:
            stage.ended = entry.timestamp
            stage.metadata = _values(event.materialization.metadata)
            return stage
        if event.event_type is Event.ASSET_OBSERVATION:
            stage.latest = _values(event.asset_observation_data.asset_observation.metadata)
        elif event.event_type is Event.ASSET_CHECK_EVALUATION:
            self._take_check(event.asset_check_evaluation_data, str(event.step_key))
        elif event.event_type is Event.STEP_FAILURE and event.step_failure_data.error:
            self.failures.setdefault(stage.name, _sentence(event.step_failure_data.error))
        return None

    def _stage(self, event: dg.DagsterEvent, timestamp: float) -> Stage:
        name = stage_of(event)
        if event.asset_key is not None:
            name = event.asset_key.to_user_string()
        return self.stages.setdefault(name, Stage(name, timestamp))

    def _take_check(self, check: Any, step: str) -> None:
        if not check.passed and check.severity is dg.AssetCheckSeverity.ERROR:
            asset = check.asset_key.to_user_string()
            failed = FailedCheck(asset, check.check_name, check.description or "", step)
            self.failed_checks.append(failed)

    def reason(self) -> str:
        """Return why the run failed, in a sentence: the check that stopped it, or the error."""
        for check in self.failed_checks:
            if {check.asset, check.step.partition(".")[0]} & set(self.failures):
                return f"A check failed. {check}"
        for stage, sentence in self.failures.items():
            return f"{stage} failed: {sentence}"
        return "The run failed."


def _values(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: getattr(value, "value", None) for name, value in metadata.items()}


def _sentence(error: Any) -> str:
    """Return the message of what the step's code raised, without its class.

    Of several lines (the end of a child's log) the first and the last.
    """
    while error.cause and (error.cls_name or "").startswith("Dagster"):
        error = error.cause
    name, _, message = error.message.strip().partition(": ")
    lines = (message if message and " " not in name else error.message.strip()).splitlines()
    sentence = lines[0] if len(lines) == 1 else f"{lines[0].rstrip(':')}: {lines[-1].strip()}"
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def run_job(
    instance: dg.DagsterInstance,
    job: str,
    partition: str,
    config: Path,
    log: Path,
    on_stage: Callable[[Stage], None] = lambda stage: None,
    on_tick: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Execute a job for a partition to its end; Dagster's own words go to ``log``.

    Everything runs below this process and ends with it. ``on_stage`` gets each finished asset,
    ``on_tick`` all that is known, about twice a second. Raises Text2SqlError with the reason
    when the run fails or somebody cancels it in the UI. A KeyboardInterrupt and an OSError of
    ``on_stage`` or ``on_tick`` cancel it as well: a run that merely failed may be repeated.
    """
    launch = uuid.uuid4().hex
    tags = {PARTITION_TAG: partition, LAUNCH_TAG: launch, OWNER_TAG: owner()}
    command = [sys.executable, "-m", "dagster", "job", "execute", "-m", "pipelines.definitions"]
    command += ["-j", job, "-c", str(config), "--tags", json.dumps(tags), "-d", str(CHECKOUT)]
    progress, cursor = Progress(), None
    with GuardedProcess(command, log, os.environ) as process:
        status = None
        try:
            while status is None and not progress.cancelling:
                status = process.wait(POLL_SECONDS)
                cursor = _follow(instance, launch, progress, cursor, on_stage)
                on_tick(progress)
        except (KeyboardInterrupt, OSError):  # or nobody takes what is printed any more
            _cancel(instance, launch, process)
            raise
        if status is None:
            _cancel(instance, launch, process)
            raise Text2SqlError("The run was cancelled in Dagster: start it again to go on.")
    _raise_if_failed(instance, progress, status, log)
    return progress


def _follow(
    instance: dg.DagsterInstance,
    launch: str,
    progress: Progress,
    cursor: str | None,
    on_stage: Callable[[Stage], None],
) -> str | None:
    """Take the events that came since ``cursor``; return the new one."""
    if not progress.run_id:
        runs = _launched(instance, launch)
        progress.run_id = runs[0].run_id if runs else ""
    while progress.run_id:
        page = instance.get_records_for_run(progress.run_id, cursor=cursor, limit=1000)
        cursor = page.cursor
        for record in page.records:
            if stage := progress.take(record.event_log_entry):
                on_stage(stage)
        if not page.has_more:
            break
    return cursor


def _cancel(instance: dg.DagsterInstance, launch: str, process: GuardedProcess) -> None:
    """End a run's process, and have Dagster note that somebody wanted it so."""
    for run in _launched(instance, launch):
        if run.status in _BEGUN:
            instance.report_run_canceling(run)
    process.stop()
    for run in _launched(instance, launch):
        if not run.is_finished:
            instance.report_run_canceled(run)
    free_pools(instance)


def _launched(instance: dg.DagsterInstance, launch: str) -> Sequence[dg.DagsterRun]:
    return instance.get_runs(dg.RunsFilter(tags={LAUNCH_TAG: launch}))


def _raise_if_failed(
    instance: dg.DagsterInstance, progress: Progress, status: int, log: Path
) -> None:
    run = instance.get_run_by_id(progress.run_id) if progress.run_id else None
    if run is not None and run.status is dg.DagsterRunStatus.SUCCESS:
        return
    reason = _why_not_begun(log, status) if run is None else progress.reason()
    if full := disk_full(reason, log):
        reason = f"{reason} {full}"
    raise Text2SqlError(f"{reason} Dagster's log is {log}.")


def disk_full(reason: str, place: Path) -> str:
    """Return a sentence about the disk that holds ``place`` where ``reason`` says it was full."""
    if not _DISK_FULL.search(reason):
        return ""
    free = shutil.disk_usage(place.parent).free / 1e6
    return (
        f"The disk that holds {place.parent} has {free:,.0f} MB left: make room and run it again."
    )


def _why_not_begun(log: Path, status: int) -> str:
    """Find in Dagster's log why a run did not begin."""
    text = last_lines(log, 50_000)
    if mistake := re.search(r"Error 1: (.+)$", text, re.MULTILINE):
        return f"The run config is wrong: {refused_config(mistake[1])}."
    if full := _DISK_FULL.search(text):
        return f"Dagster could not begin the run: {full[0]}."
    said = re.findall(r"^(?:error|[\w.]+(?:Error|Exception)): .+$", text, re.MULTILINE)
    last = said[-1][:300] if said else text[-300:] or "silently"
    return f"Dagster ended with status {status} before the run began: {last}"
