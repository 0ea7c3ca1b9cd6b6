"""Soft-F1 of real predictions, exactly as BIRD mini-dev's own script gives it."""

import json

from text2sql.datasets.reading.questions import file_key, read_records
from text2sql.evaluation.predictions.reading import read_predictions
from text2sql.judge.rules import Values, rule_values
from text2sql.questions import Question
from text2sql.sandbox import Sandbox


def percentages(questions: list[Question], values: Values, rule: str) -> dict[str, float]:
    """Return a rule's means by difficulty and in total, rounded as the official script prints."""
    groups: dict[str, list[float]] = {"simple": [], "moderate": [], "challenging": [], "total": []}
    for question in questions:
        for name in (question.difficulty, "total"):
            groups[name].append(values[question.key][rule])
    return {name: round(100 * sum(group) / len(group), 2) for name, group in groups.items()}


def test_thirteen_published_files_have_their_official_numbers(shared_data):
    bird = shared_data / "bird"
    records = read_records(bird / "mini_dev_sqlite.json", bird / "databases", "dev")
    questions = [record.question for record in records if record.reason is None]
    keys = [file_key(record.question.key, record.reason) for record in records]
    expected = json.loads((bird / "expected_superhero_official.json").read_text())["results"]
    files = [
        read_predictions(bird / "predictions_minidev" / official["file"], questions, keys)
        for official in expected
    ]
    with Sandbox(2) as sandbox:
        found = rule_values(questions, files, sandbox)
    assert len(found) == 13
    for official, values in zip(expected, found, strict=True):
        assert percentages(questions, values, "official") == official["official_ex"]
        assert percentages(questions, values, "soft_f1") == official["official_soft_f1"]
