"""Real predictions, judged as BIRD mini-dev's own scripts judge them."""

import json

from text2sql.datasets.reading.questions import file_key, read_records
from text2sql.evaluation.predictions.reading import read_predictions
from text2sql.judge.equality import alike, same
from text2sql.judge.rules import Values, rule_values
from text2sql.questions import Question
from text2sql.sandbox import Sandbox, cut_suffix


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


def test_a_float_that_differs_by_rounding_is_wrong_in_scoring_and_the_same_in_a_vote(shared_data):
    bird = shared_data / "bird"
    rows = json.loads((bird / "mini_dev_sqlite.json").read_text())
    (at,) = [at for at, row in enumerate(rows) if row["question_id"] == 743]
    published = bird / "predictions_minidev" / "predict_mini_dev_gpt-4_sqlite.json"
    prediction = cut_suffix(json.loads(published.read_text())[str(at)])
    database = bird / "databases" / "superhero" / "superhero.sqlite"
    with Sandbox(1) as sandbox:
        found, gold = sandbox.execute_many([(database, prediction), (database, rows[at]["SQL"])])
    assert not same(found, gold) and alike(found, gold)
