"""What a vLLM log says of a failure: its first error, which the last lines often hide."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from text2sql.common.processes import end_of, without_colors

_READ_BYTES = 500_000
_END_CHARS = 1500
_LEAST_FREE_MB = 5.0
_NO_SPACE = "No space left on device"
_CAUSE = re.compile(
    r"^(?:\([^)]*\) )?(?:ERROR \S+ \S+ \[[^\]]*\] )?"
    r"((?:\w+\.)*\w*(?:Error|Exception): .{1,300})",
    re.M,
)


def size(log: Path) -> int:
    """Return how many bytes a log has; 0 where there is none."""
    return log.stat().st_size if log.is_file() else 0


def failure(log: Path, start: int = 0) -> str:
    """Return what a log says of a failure, from the byte ``start`` on: first error, last lines."""
    text = _read(log, start)
    if full := _disk_full(log, text):
        return full
    cause = _CAUSE.search(text)
    first = f"The first error is: {cause[1].rstrip('.')}. " if cause else ""
    last = end_of(text, _END_CHARS) or "(it wrote nothing)"
    return f"{first}Its log is {log} and ends with:\n{last}"


def _disk_full(log: Path, text: str) -> str:
    """Say that a disk is full, where the log says it or could not even be written for it."""
    free = shutil.disk_usage(log.parent).free / 1e6 if log.parent.is_dir() else 0.0
    if _NO_SPACE not in text and free >= _LEAST_FREE_MB:
        return ""
    told = "vLLM found a disk full" if _NO_SPACE in text else "The disk of its log is full"
    return f"{told} ({free:,.0f} MB free at {log.parent}): make room and start it again."


def _read(log: Path, start: int) -> str:
    if not log.is_file():
        return ""
    with log.open("rb") as file:
        file.seek(max(start, size(log) - _READ_BYTES))
        return without_colors(file.read().decode("utf-8", errors="replace"))
