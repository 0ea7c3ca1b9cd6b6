"""What the tables of prime-rl's configuration have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FileMonitor(Section):
    """A monitor that appends JSON lines; the path is relative to the run's directory."""

    path: str


class Monitors(Section):
    """``monitors`` of the trainer or the orchestrator."""

    file: FileMonitor
