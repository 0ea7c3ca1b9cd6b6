"""The reference of Dagster's definitions: assets, their checks, jobs, schedules and sensors."""

from __future__ import annotations

from typing import Any

import dagster as dg

from pipelines.definitions import defs


def page() -> str:
    """Return the page, with a section for each asset in the order of the graph."""
    graph = defs.resolve_asset_graph()
    parts = ["# Assets, checks and jobs", "What `pipelines.definitions` defines."]
    for key in graph.toposorted_asset_keys:
        node = graph.get(key)
        parts += [f"## {key.to_user_string()}", node.description or "", _facts(graph, node)]
    parts += ["## Jobs, schedules and sensors", _automation()]
    return "\n\n".join(parts) + "\n"


def _facts(graph: Any, node: Any) -> str:
    """List an asset's parents, partitions, and checks."""
    parents = sorted(parent.to_user_string() for parent in node.parent_keys)
    lines = [f"- group: {node.group_name}"]
    lines += [f"- made from: {', '.join(f'`{name}`' for name in parents)}"] if parents else []
    if node.partitions_def is not None:
        kind = type(node.partitions_def).__name__.removesuffix("PartitionsDefinition")
        lines.append(f"- partitions: {getattr(node.partitions_def, 'name', None) or kind}")
    for check in sorted(graph.get_check_keys_for_assets({node.key}), key=str):
        spec = graph.get_check_spec(check)
        blocking = " (stops the run)" if spec.blocking else ""
        lines.append(f"- check `{check.name}`{blocking}: {spec.description or ''}".rstrip(": "))
    return "\n".join(lines)


def _automation() -> str:
    lines = ["| | kind | what |", "|---|---|---|"]
    repository = defs.get_repository_def()
    for job in sorted(repository.get_all_jobs(), key=lambda job: job.name):
        if not job.name.startswith("__"):
            lines.append(f"| `{job.name}` | job | {job.description or ''} |")
    for schedule in repository.schedule_defs:
        times = f"{schedule.cron_schedule} {schedule.execution_timezone or 'UTC'}"
        lines.append(f"| `{schedule.name}` | schedule | {times}: {schedule.description or ''} |")
    for sensor in repository.sensor_defs:
        if isinstance(sensor, dg.SensorDefinition):
            lines.append(f"| `{sensor.name}` | sensor | {sensor.description or ''} |")
    return "\n".join(lines)
