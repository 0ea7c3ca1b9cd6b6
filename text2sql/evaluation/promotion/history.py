"""Who was champion when and why: a history that only grows, and the ways to change the champion.

``champion.json`` says who is champion; it is replaced whole. ``champion_history.jsonl`` has a line
for every change, the latest last. A change is made under a lock, the champion first: whenever it
is interrupted, the champion is the old or the new one, and the next change adds a line that is
missing.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from text2sql.common.json_files import write_json
from text2sql.common.locking import locked
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import (
    CHAMPION,
    HISTORY,
    Seat,
    named,
    parse_record,
    read_seat,
)
from text2sql.policy.places import is_served, is_there
from text2sql.policy.revision import directory_revision

PROMOTION, BY_HAND, ROLLBACK, ADOPTED = "promotion", "by hand", "rollback", "adopted"
_LOCK = ".champion.lock"
_REASON_CHARS = 1000


def history(root: Path) -> list[dict[str, Any]]:
    """Return the record of every champion, the earliest first; the last one is champion now.

    Raises Text2SqlError where the history or the champion's record cannot be read.
    """
    return _complete(_lines(root), read_seat(root, lost=True).record)


def _lines(root: Path) -> list[dict[str, Any]]:
    """Read the history; a last line that was never finished is about who is champion now."""
    file = root / HISTORY
    if not file.is_file():
        return []
    *lines, tail = file.read_bytes().split(b"\n")
    if _is_whole(tail):
        lines.append(tail)
    return [
        _line(line, f"{file}, line {number},")
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]


def _line(line: bytes, place: str) -> dict[str, Any]:
    record = parse_record(line, place)
    if "number" not in record:
        raise Text2SqlError(f"{place} has no number; mend it. Nothing is overwritten meanwhile.")
    return record


def _is_whole(line: bytes) -> bool:
    """Say whether a last line without its line break is complete: half an object is no JSON."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _complete(lines: list[dict[str, Any]], current: dict[str, Any]) -> list[dict[str, Any]]:
    """Let the history end with who is champion now, as the champion's own file says it."""
    if not current:
        return lines
    if lines and _same(lines[-1], current):
        return [*lines[:-1], current]
    return [*lines, current | {"number": _next_number(lines)}]


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(name) == other.get(name) for name in ("number", "revision", "promoted_at"))


def _next_number(lines: Sequence[Mapping[str, Any]]) -> int:
    return max((line.get("number", 0) for line in lines), default=0) + 1


def enthrone(root: Path, seen: Seat, record: Mapping[str, Any]) -> dict[str, Any]:
    """Make ``record`` the champion's where the champion is still the one that was ``seen``.

    Returns the record with its number and time. Raises Text2SqlError, and changes nothing, where
    the champion changed meanwhile, a file cannot be read, or the disk refuses.
    """
    try:
        with locked(root / _LOCK):
            seat = read_seat(root, lost=True)
            if seat.version != seen.version:
                raise Text2SqlError(_changed(seen.record, seat.record))
            lines = _lines(root)
            past = _complete(lines, seat.record)
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            new = {**record, "number": _next_number(past), "promoted_at": now}
            _append(root / HISTORY, past[len(lines) :])
            write_json(root / CHAMPION, new, lasting=True)
            _remember(root / HISTORY, new)
    except OSError as error:
        raise Text2SqlError(
            f"The champion's files below {root} cannot be written: {error.strerror or error}."
        ) from error
    return new


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    was = named(before) if before else "nobody"
    if not now:
        return f"The champion changed meanwhile: {was} was looked at, and its record is gone."
    act, time = now.get("act", "promotion"), now.get("promoted_at", "just now")
    return (
        f"The champion changed meanwhile: it is {named(now)} now ({act}, {time}), and {was} was "
        "compared with. Nothing was changed; look again and repeat it."
    )


def _append(file: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Add lines; a line that was never finished is replaced, one that fails is taken back."""
    if not records:
        return
    with file.open("a+b") as stream:
        stream.seek(0)
        content = stream.read()
        end = content.rfind(b"\n") + 1
        if not _is_whole(content[end:]):
            stream.truncate(end)
        elif content[end:]:
            end = stream.seek(0, os.SEEK_END)
            stream.write(b"\n")
        try:
            for record in records:
                stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        except OSError:
            os.truncate(file, end)
            raise


def _remember(file: Path, new: Mapping[str, Any]) -> None:
    """Add the line of who is champion now; where that fails, the next change adds it."""
    try:
        _append(file, [new])
    except OSError as error:
        raise Text2SqlError(
            f"The champion is {named(new)} now, but {file} cannot be written ({error.strerror}): "
            "its line is added with the next change."
        ) from error


def roll_back(
    root: Path, reason: str, to: int | None = None, dagster_run: str = ""
) -> dict[str, Any]:
    """Make a former champion champion again: number ``to``, or the one before the present one.

    Repeated, it goes back further and further. Returns the new record. Raises Text2SqlError where
    there is none, its weights are gone or others now, or the champion changes meanwhile.
    """
    why, seat = require_reason(reason), read_seat(root, lost=True)
    past = history(root)
    target = _numbered(past, to) if to is not None else _before(past, seat.record)
    if target["revision"] == seat.record.get("revision"):
        raise Text2SqlError(f"Nothing to go back to: {named(target)} is the champion already.")
    if problem := weights_problem(target):
        raise Text2SqlError(
            f"Champion number {target['number']}, {named(target)}, cannot come back: {problem}. "
            "Choose another with --to (text2sql champion history)."
        )
    origin = target.get("restores") or target["number"]
    act = {"act": ROLLBACK, "restores": origin, "reason": why, "by": who()}
    return enthrone(root, seat, target | act | {"dagster_run": dagster_run})


def _numbered(past: Sequence[dict[str, Any]], number: int) -> dict[str, Any]:
    for record in past:
        if record["number"] == number:
            return record
    raise Text2SqlError(f"There was no champion number {number}: see text2sql champion history.")


def _before(past: Sequence[dict[str, Any]], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return the champion before the present one; where its record is lost, the last one."""
    if not past:
        raise Text2SqlError("There is no champion yet, so there is nothing to go back to.")
    if not current:
        return past[-1]
    first = past[-1].get("restores") or past[-1]["number"]
    for record in reversed(past):
        if record["number"] < first and record["revision"] != current["revision"]:
            return record
    raise Text2SqlError(f"There is no champion before {named(current)} to go back to.")


def weights_problem(record: Mapping[str, Any]) -> str:
    """Say what is wrong with a champion's files; empty where nothing is, or a server has them."""
    policy, revision = str(record["policy"]), record["revision"]
    if not is_there(policy):
        return f"its weights are gone from {policy}"
    if is_served(policy):
        return ""
    try:
        found = directory_revision(policy)
    except Text2SqlError as error:
        return str(error).rstrip(".")
    if found != revision:
        return f"the weights in {policy} are others now ({found} instead of {revision})"
    return ""


def require_reason(reason: str) -> str:
    """Return a reason on one line; raise Text2SqlError where there is none."""
    words = " ".join(reason.split())
    if not words or len(words) > _REASON_CHARS:
        raise Text2SqlError(f"Say why in 1 to {_REASON_CHARS:,} characters: it is kept for others.")
    return words


def who() -> str:
    """Return who changes the champion: the account and the machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
