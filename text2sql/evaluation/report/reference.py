"""What others published about the same questions; a column beside ours, never part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from text2sql.evaluation.scores import BASE, TRAINED
from text2sql.questions import Question

SOURCE = (
    "BIRD dev, 1,534 questions: the figures of the published 9B model that the README names as "
    "the one to reproduce, as its authors report them; none of them was measured here"
)
BIRD_DEV = {
    "california_schools",
    "card_games",
    "codebase_community",
    "debit_card_specializing",
    "european_football_2",
    "financial",
    "formula_1",
    "student_club",
    "superhero",
    "thrombosis_prediction",
    "toxicology",
}
BIRD_DEV_QUESTIONS = 1534


@dataclass(frozen=True)
class Published:
    """One published share of right answers."""

    policy: str
    setting: str
    value: float


PUBLISHED = (
    Published(BASE, "greedy", 0.497),
    Published(TRAINED, "single-turn", 0.582),
    Published(TRAINED, "greedy", 0.634),
    Published(TRAINED, "vote@8", 0.670),
    Published(TRAINED, "vote@32", 0.674),
)


def is_bird_dev(questions: Sequence[Question]) -> bool:
    """Whether these are BIRD's dev questions, all of them: by their number and databases."""
    databases = {question.db_id for question in questions}
    return len(questions) == BIRD_DEV_QUESTIONS and databases == BIRD_DEV


def published(policy: str, setting: str) -> float | None:
    """Return the published share for a policy and setting, None where there is none."""
    wanted = (policy, setting)
    return next((one.value for one in PUBLISHED if (one.policy, one.setting) == wanted), None)
