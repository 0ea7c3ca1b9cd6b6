"""Changing the champion, and the history of all changes.

``champion.json`` says who is champion and is replaced atomically; ``champion_history.jsonl`` gets
a line for every change, the latest last. A change happens under a lock, and the champion's file is
written first: whenever it is interrupted, the champion is the old or the new one, and the next
change adds the line that is missing.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from text2sql.common.artifacts import back_test_file, champion_file, champion_history, champion_lock
from text2sql.common.json_files import read_if_there, write_json
from text2sql.common.locking import locked
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.candidate import Candidate, read_candidate, rival_of
from text2sql.evaluation.promotion.champion import (
    ADOPTED_RUN,
    Incumbent,
    named,
    parse_record,
    read_incumbent,
)
from text2sql.evaluation.promotion.gate import Finding, GateRules, recorded_back_test, run_checks
from text2sql.policy.places import is_served, is_there
from text2sql.policy.weights import directory_revision

PROMOTION, BY_HAND, ROLLBACK, ADOPTED = "promotion", "by hand", "rollback", "adopted"
_REASON_CHARS = 1000


def history(root: Path) -> list[dict[str, Any]]:
    """Return the record of every champion, the earliest first; the last one is champion now.

    Raises Text2SqlError where the history or the champion's record cannot be read.
    """
    return _complete(_read_history(root), read_incumbent(root, allow_lost=True).record)


def promote(
    root: Path,
    seen: Incumbent,
    candidate: Candidate,
    findings: Sequence[Finding],
    act: str,
    reason: str,
    dagster_run: str = "",
) -> dict[str, Any]:
    """Make a candidate champion, provided that the champion is still the one that was ``seen``.

    Returns the champion's record. Raises Text2SqlError where the candidate's weights are gone or
    were changed, or the champion has changed in the meantime.
    """
    record = candidate.to_record()
    if problem := weights_problem(record):
        raise Text2SqlError(
            f"The training run {candidate.training_run} cannot be promoted: {problem}. Put them "
            "back, or materialize grpo_policy for it again."
        )
    about = {"act": act, "reason": reason, "by": _user(), "dagster_run": dagster_run}
    checks = {"findings": [asdict(finding) for finding in findings]}
    return _replace_champion(root, seen, record | about | checks)


def promote_by_hand(
    root: Path, run: str, reason: str, rules: GateRules, dagster_run: str = ""
) -> dict[str, Any]:
    """Make a training run champion whatever the gate says, and record its findings.

    The back-test is not run here: its result counts if it was run against the present champion.
    """
    why, seen, candidate = _require_reason(reason), read_incumbent(root), read_candidate(root, run)
    if candidate.revision == seen.record.get("revision"):
        raise Text2SqlError(f"The training run {run} has the champion's own weights already.")
    findings = run_checks(candidate, rival_of(root, seen.record, candidate), rules)
    try:
        back_test = read_if_there(back_test_file(root, run))
    except Text2SqlError:
        back_test = {}  # a damaged result counts as a test that was not run
    findings.append(recorded_back_test(back_test, seen.record, candidate))
    return promote(root, seen, candidate, findings, BY_HAND, why, dagster_run)


def adopt(root: Path, policy: str, revision: str, reason: str) -> dict[str, Any]:
    """Make a policy champion that was neither trained nor evaluated here; return its record.

    ``policy`` is a server's URL or a model directory, ``revision`` that of its weights. Raises
    Text2SqlError where it is champion already, or the champion has changed in the meantime.
    """
    why, seen = _require_reason(reason), read_incumbent(root)
    if revision == seen.record.get("revision"):
        raise Text2SqlError(f"{policy} is the champion already.")
    record = {
        "policy": policy,
        "revision": revision,
        "base_revision": revision,
        "training_run": ADOPTED_RUN,
        "greedy": "not evaluated",
    }
    return _replace_champion(root, seen, record | {"act": ADOPTED, "reason": why, "by": _user()})


def roll_back(
    root: Path, reason: str, to: int | None = None, dagster_run: str = ""
) -> dict[str, Any]:
    """Make a former champion champion again: number ``to``, or the one before the present one.

    Repeated, it goes back further each time. Returns the new record. Raises Text2SqlError where
    that champion never was, its weights are gone or were changed, or the champion has changed in
    the meantime.
    """
    why, seen = _require_reason(reason), read_incumbent(root, allow_lost=True)
    past = history(root)
    if to is None:
        target = _previous(past, seen.record)
    elif not (target := next((one for one in past if one["number"] == to), {})):
        raise Text2SqlError(f"There was no champion number {to}: see text2sql champion history.")
    if target["revision"] == seen.record.get("revision"):
        raise Text2SqlError(f"Nothing to go back to: {named(target)} is the champion already.")
    if problem := weights_problem(target):
        raise Text2SqlError(
            f"Champion number {target['number']}, {named(target)}, cannot come back: {problem}. "
            "Choose another with --to (text2sql champion history)."
        )
    origin = target.get("restores") or target["number"]
    act = {"act": ROLLBACK, "restores": origin, "reason": why, "by": _user()}
    return _replace_champion(root, seen, target | act | {"dagster_run": dagster_run})


def weights_problem(record: Mapping[str, Any]) -> str:
    """Say what is wrong with a champion's weights; empty where nothing is, or a server has them."""
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
        return f"the weights in {policy} have changed ({found} instead of {revision})"
    return ""


def _previous(past: Sequence[dict[str, Any]], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return the champion before the present one; if its record is lost, the last one."""
    if not past:
        raise Text2SqlError("There is no champion yet, so there is nothing to go back to.")
    if not current:
        return past[-1]
    # After a rollback the present champion counts as the one it restored, so that a second
    # rollback goes back further instead of undoing the first.
    first = past[-1].get("restores") or past[-1]["number"]
    for record in reversed(past):
        if record["number"] < first and record["revision"] != current["revision"]:
            return record
    raise Text2SqlError(f"There is no champion before {named(current)} to go back to.")


def _require_reason(reason: str) -> str:
    """Return a reason on one line; raise Text2SqlError where it is empty or too long."""
    words = " ".join(reason.split())
    if not words or len(words) > _REASON_CHARS:
        raise Text2SqlError(
            f"Give a reason of 1 to {_REASON_CHARS:,} characters: it is stored in the history."
        )
    return words


def _user() -> str:
    """Return the account and the machine that change the champion."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def _replace_champion(root: Path, seen: Incumbent, record: Mapping[str, Any]) -> dict[str, Any]:
    """Write ``record`` as the champion's, provided that nobody has replaced the one ``seen``.

    Returns the record with its number and time. Raises Text2SqlError, and changes nothing, where
    the champion has changed in the meantime, a file cannot be read, or the disk refuses.
    """
    file = champion_history(root)
    try:
        with locked(champion_lock(root)):
            incumbent = read_incumbent(root, allow_lost=True)
            if incumbent.version != seen.version:
                raise Text2SqlError(_changed(seen.record, incumbent.record))
            lines = _read_history(root)
            past = _complete(lines, incumbent.record)
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            new = {**record, "number": _next_number(past), "promoted_at": now}
            _append(file, past[len(lines) :])
            write_json(champion_file(root), new, durable=True)
            try:
                _append(file, [new])
            except OSError as error:
                raise Text2SqlError(
                    f"{named(new)[0].upper()}{named(new)[1:]} is champion now, but {file} cannot "
                    f"be written ({error.strerror}): the next change adds the missing line."
                ) from error
    except OSError as error:
        raise Text2SqlError(
            f"The champion's files below {root} cannot be written: {error.strerror or error}."
        ) from error
    return new


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    was = named(before) if before else "no champion"
    if not now:
        return f"The champion changed in the meantime: the record of {was} is gone."
    act, time = now.get("act", "promotion"), now.get("promoted_at", "just now")
    return (
        f"The champion changed in the meantime: it is now {named(now)} ({act}, {time}); this was "
        f"compared with {was}. Nothing was changed; check again and repeat it."
    )


def _read_history(root: Path) -> list[dict[str, Any]]:
    """Read the history's lines; an unfinished last line is left out.

    That line is about the present champion, whose own file has the whole record.
    """
    file = champion_history(root)
    if not file.is_file():
        return []
    *lines, tail = file.read_bytes().split(b"\n")
    if _is_json(tail):
        lines.append(tail)
    records = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            place = f"{file}, line {number},"
            record = parse_record(line, place)
            if "number" not in record:
                raise Text2SqlError(f"{place} has no number; fix it. It will not be overwritten.")
            records.append(record)
    return records


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _complete(lines: list[dict[str, Any]], current: dict[str, Any]) -> list[dict[str, Any]]:
    """End the history with the present champion, as its own file describes it."""
    if not current:
        return lines
    names = ("number", "revision", "promoted_at")
    if lines and all(lines[-1].get(name) == current.get(name) for name in names):
        return [*lines[:-1], current]
    return [*lines, current | {"number": _next_number(lines)}]


def _next_number(lines: Sequence[Mapping[str, Any]]) -> int:
    return max((line.get("number", 0) for line in lines), default=0) + 1


def _append(file: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Add lines; an unfinished last line is replaced, and a failed write is undone."""
    if not records:
        return
    with file.open("a+b") as stream:
        stream.seek(0)
        content = stream.read()
        end = content.rfind(b"\n") + 1
        if not _is_json(content[end:]):
            stream.truncate(end)
        elif content[end:]:  # an editor left out the last line break
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
