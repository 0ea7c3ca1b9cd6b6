"""The progress of a run, learned from its events: stages, failed checks, why it failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from dagster import DagsterEventType as Event

_PLANS = (Event.ASSET_MATERIALIZATION_PLANNED, Event.ASSET_CHECK_EVALUATION_PLANNED)
"""Events of a run's start that name a step which has not begun."""


@dataclass
class Stage:
    """An asset in the making: when it began and ended, and the metadata it came with."""

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
    """A check that failed, its description, and the step that ran it."""

    asset: str
    name: str
    description: str
    step: str

    def __str__(self) -> str:
        """Return a sentence."""
        return f"{self.asset}: {self.name}: {self.description}".rstrip(".") + "."


@dataclass
class RunProgress:
    """What the events of a run have said so far; ``pool`` is one that a stage waits for."""

    run_id: str
    stages: dict[str, Stage] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    failed_checks: list[FailedCheck] = field(default_factory=list)
    pools: dict[str, str] = field(default_factory=dict)
    _cursor: str | None = None

    def read(
        self, instance: dg.DagsterInstance, on_stage: Callable[[Stage], None] = lambda stage: None
    ) -> None:
        """Take the events since the last call; ``on_stage`` gets each stage that they finish."""
        more = True
        while more:
            page = instance.get_records_for_run(self.run_id, cursor=self._cursor, limit=1000)
            self._cursor, more = page.cursor, page.has_more
            for record in page.records:
                if stage := self.take(record.event_log_entry):
                    on_stage(stage)

    def take(self, entry: dg.EventLogEntry) -> Stage | None:
        """Learn from one event; return the stage that it finishes, if any."""
        event = entry.dagster_event
        if event is None or event.step_key is None or event.event_type in _PLANS:
            return None
        name = event.step_key.partition(".")[0]  # the rest is the shard
        if event.event_type is Event.ENGINE_EVENT:
            pool = event.engine_event_data.metadata.get("pool")
            if isinstance(pool, dg.PoolMetadataValue):  # it has no room for the step
                self.pools[name] = str(pool.value)
                return None
        self.pools.pop(name, None)
        if event.asset_key is not None:
            name = event.asset_key.to_user_string()
        stage = self.stages.setdefault(name, Stage(name, entry.timestamp))
        if event.event_type is Event.ASSET_MATERIALIZATION:
            stage.ended = entry.timestamp
            stage.metadata = _values(event.materialization.metadata)
            return stage
        if event.event_type is Event.ASSET_OBSERVATION:
            stage.latest = _values(event.asset_observation_data.asset_observation.metadata)
        elif event.event_type is Event.ASSET_CHECK_EVALUATION:
            self._take_check(event.asset_check_evaluation_data, event.step_key)
        elif event.event_type is Event.STEP_FAILURE and event.step_failure_data.error:
            self.failures.setdefault(stage.name, _sentence(event.step_failure_data.error))
        return None

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
        return "The run failed: its process ended unexpectedly."


def _values(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: getattr(value, "value", None) for name, value in metadata.items()}


def _sentence(error: Any) -> str:
    """Return the message of the error that a step's code raised, without its class.

    Of several lines (the end of a child's log), the first and the last.
    """
    while error.cause and (error.cls_name or "").startswith("Dagster"):
        error = error.cause
    name, _, message = error.message.strip().partition(": ")
    lines = (message if message and " " not in name else error.message.strip()).splitlines()
    sentence = lines[0] if len(lines) == 1 else f"{lines[0].rstrip(':')}: {lines[-1].strip()}"
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
