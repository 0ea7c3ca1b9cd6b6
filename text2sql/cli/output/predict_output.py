"""What ``text2sql predict`` prints and writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from text2sql.cli.output.evaluate_output import note
from text2sql.common.counting import counted
from text2sql.common.files import file_digest
from text2sql.common.progress import OnProgress
from text2sql.common.render import neutral
from text2sql.evaluation.predictions.predict import Drawing, Predicted
from text2sql.evaluation.predictions.score import question_id
from text2sql.policy.base import PolicyInfo

_NAMED = 5


def as_object(
    found: Sequence[Predicted], policy: PolicyInfo, drawing: Drawing, questions: Path, store: Path
) -> dict[str, Any]:
    """Return what ``--json`` writes: the policy, the settings, each question's SQL and vote."""
    rollouts = [rollout for one in found for rollout in one.rollouts]
    return {
        "questions_sha256": file_digest(questions),
        "policy": policy.name,
        "policy_revision": policy.revision,
        "policy_weights_known": policy.weights_known,
        "prompt_revision": rollouts[0].prompt_revision,
        "mode": drawing.settings.mode,
        "sampling": asdict(drawing.sampling),
        "votes": drawing.votes,
        "rollouts": str(store),
        "answered": sum(bool(one.sql) for one in found),
        "count": len(found),
        "missing": sum(one.missing > 0 for one in found),
        "write_attempts": sum(rollout.write_attempts > 0 for rollout in rollouts),
        "prompt_tokens": sum(rollout.prompt_tokens for rollout in rollouts),
        "completion_tokens": sum(rollout.completion_tokens for rollout in rollouts),
        "predictions": [_row(one) for one in found],
    }


def _row(one: Predicted) -> dict[str, Any]:
    statuses = Counter(rollout.status or rollout.stop_reason for rollout in one.rollouts)
    row = {"question_id": question_id(one.question), "sql": one.sql or None, "rollouts": statuses}
    if one.missing:
        row |= {"missing": one.missing, "error": one.error}
    if one.vote is None:
        return row
    return row | {"votes": one.vote.votes, "share": one.vote.share, "tie": one.vote.tie}


def as_text(found: Sequence[Predicted], result: dict[str, Any]) -> str:
    """Return a few lines: how many questions were answered, how, and how far votes agree."""
    how = "one greedy rollout" if result["votes"] == 1 else f"a vote of {result['votes']} rollouts"
    answered = f"{result['answered']} of {counted(result['count'], 'question')}"
    lines = [f"{answered} answered by {how} each"]
    if votes := [one.vote for one in found if one.vote is not None]:
        ties = sum(vote.tie for vote in votes)
        share = fmean(vote.share for vote in votes)
        lines.append(f"share of the votes: {share:.0%} on average; {counted(ties, 'tie')}")
    return "\n".join([*lines, f"rollouts: {neutral(result['rollouts'])}"])


def announcing_stored(progress: OnProgress, policy: PolicyInfo) -> OnProgress:
    """Return a progress that first prints how many rollouts earlier runs have stored.

    It warns where a server may have been given other weights in between.
    """
    begun = False

    def report(done: int, total: int) -> None:
        nonlocal begun
        if done and not begun:
            stored = counted(done, "rollout")
            click.echo(f"resuming: {stored} of {total:,} already stored", err=True)
            if not policy.weights_known:
                click.echo(
                    f"warning: the server does not say which weights it serves as {policy.name}: "
                    "if they have changed since then, draw anew with --again",
                    err=True,
                )
        begun = True
        progress(done, total)

    return report


def missing_in(found: Sequence[Predicted]) -> str:
    """Name the questions that were not asked in full, and say what to do; empty if all were."""
    short = [one for one in found if one.missing]
    if not short:
        return ""
    names = ", ".join(neutral(one.question.key) for one in short[:_NAMED])
    more = f" and {len(short) - _NAMED:,} more" if len(short) > _NAMED else ""
    return (
        f"{counted(sum(one.missing for one in short), 'rollout')} of "
        f"{counted(len(short), 'question')} could not be asked ({names}{more}): "
        f"{short[0].error.rstrip('.')}. The other answers are written; run the same command again "
        "to ask only for what is missing."
    )


def warn(found: Sequence[Predicted]) -> None:
    """Print on standard error what the accuracy of these predictions will not show."""
    if silent := [one for one in found if not one.sql and not one.missing]:
        ends: Counter[str] = Counter()
        for rollout in silent[0].rollouts:
            # A rollout whose query returned nothing has no vote, although its status is ok.
            no_rows = rollout.status == "ok" and not rollout.row_count
            ends["without rows" if no_rows else rollout.status or rollout.stop_reason] += 1
        shown = ", ".join(f"{count} {end}" for end, count in ends.most_common())
        many = counted(len(silent), "question has", "questions have")
        first = f"{silent[0].question.key} (rollouts: {shown})"
        note("warning", f"{many} no SQL and will not match", first)
    # Rollouts that attempted a write have no vote, so only single ones can give the SQL.
    writers = [
        one for one in found if one.sql and one.vote is None and one.rollouts[0].write_attempts > 0
    ]
    if writers:
        click.echo(
            f"warning: {counted(len(writers), 'greedy rollout')} attempted a write before the SQL, "
            f"the first for {neutral(writers[0].question.key)}; evaluate scores only the SQL, "
            "whereas the evaluation of a training run counts them as not matched",
            err=True,
        )
