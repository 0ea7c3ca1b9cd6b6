"""Making a training run's policy the champion, by the gate or by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from text2sql.common.json_files import read_if_there
from text2sql.errors import Text2SqlError
from text2sql.evaluation.compare import run_folder
from text2sql.evaluation.promotion.candidate import Candidate, read_candidate, rival_of
from text2sql.evaluation.promotion.champion import ADOPTED_RUN, Seat, read_seat
from text2sql.evaluation.promotion.gate import Finding, GateRules, hold_checks, remembered_back_test
from text2sql.evaluation.promotion.history import (
    ADOPTED,
    BY_HAND,
    enthrone,
    require_reason,
    weights_problem,
    who,
)

BACK_TEST_FILE = "back_test.json"
"""The back-test's verdict, in the folder of a training run's evaluation."""


def promote(
    root: Path,
    seen: Seat,
    candidate: Candidate,
    findings: Sequence[Finding],
    act: str,
    reason: str,
    dagster_run: str = "",
) -> dict[str, Any]:
    """Make a candidate champion where the champion is still the one that was ``seen``.

    Returns the champion's record. Raises Text2SqlError where the candidate's weights are gone or
    others now, and where the champion changed meanwhile.
    """
    record = candidate.to_record()
    if problem := weights_problem(record):
        raise Text2SqlError(
            f"The training run {candidate.training_run} cannot be promoted: {problem}. Put them "
            "back, or materialize grpo_policy for it again."
        )
    about = {"act": act, "reason": reason, "by": who(), "dagster_run": dagster_run}
    checks = {"findings": [finding.to_dict() for finding in findings]}
    return enthrone(root, seen, record | about | checks)


def promote_by_hand(
    root: Path, run: str, reason: str, rules: GateRules, dagster_run: str = ""
) -> dict[str, Any]:
    """Make a training run champion whatever the gate says; what it says is kept with the reason.

    The back-test counts where it was held against the present champion; it is not held here.
    """
    why, seat, candidate = require_reason(reason), read_seat(root), read_candidate(root, run)
    if candidate.revision == seat.record.get("revision"):
        raise Text2SqlError(f"The training run {run} has the champion's own weights already.")
    findings = hold_checks(candidate, rival_of(root, seat.record, candidate), rules)
    findings.append(remembered_back_test(_back_test(root, run), seat.record, candidate))
    return promote(root, seat, candidate, findings, BY_HAND, why, dagster_run)


def adopt(root: Path, policy: str, revision: str, reason: str) -> dict[str, Any]:
    """Make a policy champion that was neither trained nor evaluated here.

    ``policy`` is a server's URL or a model directory, ``revision`` that of its weights. Returns
    the champion's record: its training run is called ``base``, as no run can be. Raises
    Text2SqlError where it is champion already, or the champion changes meanwhile.
    """
    why, seat = require_reason(reason), read_seat(root)
    if revision == seat.record.get("revision"):
        raise Text2SqlError(f"{policy} is the champion already.")
    record = {
        "policy": policy,
        "revision": revision,
        "base_revision": revision,
        "training_run": ADOPTED_RUN,
        "greedy": "not evaluated",
    }
    return enthrone(root, seat, record | {"act": ADOPTED, "reason": why, "by": who()})


def _back_test(root: Path, run: str) -> dict[str, Any]:
    """Return the remembered back-test of a training run; empty where there is none that is one."""
    try:
        return read_if_there(run_folder(root, run) / BACK_TEST_FILE)
    except Text2SqlError:
        return {}
