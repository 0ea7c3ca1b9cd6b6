"""When the project acts by itself, and with what settings it then trains."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
from pydantic import Field

from resources.forms import bounded
from resources.run_config import read_run_config
from text2sql.errors import Text2SqlError
from text2sql.reporting.model.bounds import (
    ANSWERED,
    DAYS,
    DROP,
    LEAST_COMPARED,
    VERIFIED,
    DeclineRule,
)

CONFIG_VARIABLE = "TEXT2SQL_RETRAINING_CONFIG"


ZONE_VARIABLE = "TEXT2SQL_TIME_ZONE"


def project_time_zone() -> str:
    """Return the time zone in which days begin and schedules tick: ``TEXT2SQL_TIME_ZONE``, or UTC.

    Raises Text2SqlError for an unknown name.
    """
    name = os.environ.get(ZONE_VARIABLE) or "UTC"
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError) as error:
        raise Text2SqlError(
            f"{ZONE_VARIABLE} is {name!r}, which is not a time zone; use a name such "
            "as Europe/Berlin"
        ) from error


class AutomationSettings(dg.ConfigurableResource):
    """What counts as a decline of the answers, and the run config of runs that sensors start."""

    retraining_config: str = Field(
        default="",
        description="YAML run config of the runs that sensors start (the policy to start from, "
        f"the trainer); empty: the file that {CONFIG_VARIABLE} names, else the defaults.",
    )
    days: int = bounded(DAYS)
    least: int = bounded(LEAST_COMPARED)
    answered: float = bounded(ANSWERED)
    verified: float = bounded(VERIFIED)
    drop: float = bounded(DROP)

    def decline_rule(self) -> DeclineRule:
        """Return what counts as a decline, as the library takes it."""
        return DeclineRule(self.days, self.least, self.answered, self.verified, self.drop)

    def run_config(self, job: dg.JobDefinition) -> dict[str, Any]:
        """Return the run config of a job: the file's, as far as it is about what the job runs.

        Raises Text2SqlError where the file cannot be read as a mapping.
        """
        named = self.retraining_config or os.environ.get(CONFIG_VARIABLE)
        if not named:
            return {}
        config = read_run_config(Path(named).expanduser())
        names = {node.name for node in job.nodes}
        ops = {name: its for name, its in (config.get("ops") or {}).items() if name in names}
        return config | {"ops": ops}
