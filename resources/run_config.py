"""Run config in files, as the launchpad takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from text2sql.errors import Text2SqlError


def read_run_config(file: Path) -> dict[str, Any]:
    """Return the run config that a YAML file holds, empty for an empty file.

    Raises Text2SqlError where it cannot be read, or is no mapping whose ``ops`` is one.
    """
    import yaml

    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except UnicodeDecodeError as error:
        raise Text2SqlError(f"The run config {file} is not UTF-8; save it so.") from error
    except OSError as error:
        raise Text2SqlError(f"The run config {file} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        mark, fault = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        reason = f"line {mark.line + 1} is not YAML, " if mark else ""
        reason += fault or " ".join(str(error).split())
        raise Text2SqlError(f"The run config {file} cannot be read: {reason}.") from error
    if not isinstance(config, dict) or not isinstance(config.get("ops") or {}, dict):
        raise Text2SqlError(f"The run config {file} must be a mapping, and its ops as well.")
    return config


def part_of(config: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the part of a run config below some names, made where it is missing or empty.

    Raises Text2SqlError where something else than a mapping is there.
    """
    part = config
    for depth, name in enumerate(names, start=1):
        part[name] = {} if part.get(name) is None else part[name]
        part = part[name]
        if not isinstance(part, dict):
            place = ".".join(names[:depth])
            raise Text2SqlError(f"The run config is wrong: {place} must be a mapping.")
    return part
