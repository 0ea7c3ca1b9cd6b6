"""The reward that a rollout earns in training, by its verdict."""

from __future__ import annotations

from text2sql.judge.verdicts import Verdict

REWARD: dict[Verdict, float | None] = {
    Verdict.MATCH: 1.0,
    Verdict.WRONG: 0.1,
    Verdict.ERROR: 0.0,
    Verdict.WRITE: -1.0,
    Verdict.NO_SUBMISSION: 0.0,
    Verdict.TIMEOUT: 0.0,
    Verdict.TOO_LARGE: 0.0,
    Verdict.TRUNCATED: 0.0,
    Verdict.INFRASTRUCTURE: None,
}
"""The reward of each verdict; None marks a rollout that must not be trained on."""
