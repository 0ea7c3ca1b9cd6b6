"""What Dagster loads, as a text that is read in review; and that loading needs no network."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from pipelines.definitions import defs
from tests.support.golden_files import is_golden

REPO = Path(__file__).resolve().parents[2]

_WITHOUT_NETWORK = """
import socket

def refused(self, address):
    if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1"):
        raise AssertionError(f"something connects to {address}")
    return connect(self, address)

def unknown(host, *rest, **more):
    if host not in ("127.0.0.1", "::1", "localhost"):
        raise AssertionError(f"something looks up {host}")
    return look_up(host, *rest, **more)

connect, look_up = socket.socket.connect, socket.getaddrinfo
socket.socket.connect = socket.socket.connect_ex = refused
socket.getaddrinfo = unknown
from pipelines.definitions import defs
defs.get_repository_def().load_all_definitions()
print("loaded")
"""


def test_definitions_load_without_a_network():
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_NETWORK],
        cwd=REPO,
        env=os.environ | {"DAGSTER_HOME": ""},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "loaded\n", done.stderr


def test_definitions_are_those_of_the_snapshot():
    text = "\n".join([*assets(), *jobs(), *schedules(), *sensors()]) + "\n"
    is_golden("definitions.txt", text)


def assets() -> Iterator[str]:
    """Describe the assets and their checks."""
    graph = defs.resolve_asset_graph()
    for key in sorted(graph.get_all_asset_keys()):
        node = graph.get(key)
        yield f"asset {key.to_user_string()}"
        yield from listed("after", (parent.to_user_string() for parent in node.parent_keys))
        yield f"  group {node.group_name}"
        yield from listed("partitions", [partitions(node.partitions_def)])
        yield from listed("pool", node.pools or ())
        yield from listed("kinds", node.kinds)
        yield from listed("owners", node.owners)
        yield from listed("automation", [label(node.automation_condition)])
        yield from listed("freshness", ["yes" if node.freshness_policy else ""])
        for check in sorted(graph.get_check_keys_for_assets({key})):
            blocks = " (blocking)" if graph.get(check).blocking else ""
            yield f"  check {check.name}{blocks}"


def partitions(definition: dg.PartitionsDefinition | None) -> str:
    """Name a partitions definition."""
    if isinstance(definition, dg.DynamicPartitionsDefinition):
        return str(definition.name)
    return type(definition).__name__ if definition else ""


def label(condition: dg.AutomationCondition | None) -> str:
    """Name an automation condition."""
    return (condition.get_label() or type(condition).__name__) if condition else ""


def jobs() -> Iterator[str]:
    """Describe the jobs: what they select, and the tags of their runs."""
    for job in sorted(defs.resolve_all_job_defs(), key=lambda one: one.name):
        if job.name.startswith("__"):
            continue
        yield f"job {job.name}"
        selected = job.asset_layer.executable_asset_keys
        yield from listed("assets", (key.to_user_string() for key in selected))
        yield from listed("partitions", [partitions(job.partitions_def)])
        yield from listed("tags", (f"{name}={value}" for name, value in job.run_tags.items()))
        yield from listed("hooks", (hook.name for hook in job.hook_defs))


def schedules() -> Iterator[str]:
    """Describe the schedules."""
    for schedule in sorted(defs.get_repository_def().schedule_defs, key=lambda one: one.name):
        yield f"schedule {schedule.name}"
        yield f"  job {schedule.job_name}"
        yield f"  cron {schedule.cron_schedule} {schedule.execution_timezone}"
        yield f"  default {schedule.default_status.value.lower()}"


def sensors() -> Iterator[str]:
    """Describe the sensors."""
    for sensor in sorted(defs.get_repository_def().sensor_defs, key=lambda one: one.name):
        yield f"sensor {sensor.name} ({sensor.sensor_type.value.lower()})"
        yield from listed("jobs", (target.job_name for target in sensor.targets))
        yield f"  default {sensor.default_status.value.lower()}"


def listed(name: str, values: object) -> Iterator[str]:
    """Yield one line with what there is, nothing where there is nothing."""
    found = sorted(value for value in values if value)  # type: ignore[attr-defined]
    if found:
        yield f"  {name} {', '.join(found)}"
