"""What ``text2sql evaluate`` says of gold that fails, and of predictions for other databases."""

import json

import pytest
from click.testing import CliRunner

from tests.support.agent_databases import make_database
from text2sql.cli.main import cli

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
GOLDS = ["SELECT id FROM city", ENDLESS, "SELECT nope FROM city"]
SPELLINGS = ["SIMPLE", "simple", "\tSimple\n"]


@pytest.fixture
def score(tmp_path):
    """Score predictions of three questions; returns what the command printed and its JSON."""
    for name in ("shop", "bank"):
        make_database(tmp_path / "dbs" / name / f"{name}.sqlite")
    rows = [
        {"question_id": n, "db_id": "shop", "question": f"{n}?", "SQL": sql, "difficulty": level}
        for n, (sql, level) in enumerate(zip(GOLDS, SPELLINGS, strict=True))
    ]
    (tmp_path / "dev.json").write_text(json.dumps(rows))

    def run(predictions):
        (tmp_path / "p.json").write_text(json.dumps(predictions))
        words = ["--questions", "dev.json", "--databases", "dbs", "--predictions", "p.json"]
        words = [str(tmp_path / word) if word[:2] != "--" else word for word in words]
        words += ["--timeout", "0.2", "--no-cache", "--json", str(tmp_path / "out.json")]
        done = CliRunner().invoke(cli, ["evaluate", *words])
        assert done.exit_code == 0, done.output
        return done, json.loads((tmp_path / "out.json").read_text())

    return run


def test_gold_that_fails_is_named_for_each_question(score):
    done, found = score({str(n): "SELECT id FROM city" for n in range(3)})
    first, second, third = found["verdicts"]
    assert "gold" not in first and first["verdict"] == "match"
    assert (second["gold"], third["gold"]) == ("gold_timeout", "gold_error")
    assert "longer than 0.2 s" in second["gold_error"]
    assert third["gold_error"] == "no such column: nope"
    assert second["verdict"] != "match" and third["verdict"] != "match"
    assert "the gold SQL of 2 questions does not run" in done.stderr
    assert "(dev/1, dev/2)" in done.stderr


def test_a_difficulty_is_one_however_it_is_spelt(score):
    _, found = score({"0": "SELECT id FROM city"})
    assert list(found["by_difficulty"]) == ["simple"]
    assert found["by_difficulty"]["simple"]["count"] == 3


@pytest.mark.parametrize(
    "predictions",
    [
        {"0": "SELECT id FROM city\t----- bird -----\tbank", "1": "SELECT 1"},
        [{"question_id": 0, "sql": "SELECT id FROM city", "db_id": "bank"}],
    ],
)
def test_a_prediction_for_another_database_is_listed(score, predictions):
    done, found = score(predictions)
    assert found["db_mismatch"] == ["dev/0"]
    assert found["verdicts"][0]["verdict"] == "match"
    assert "run on the question's, as in the official evaluator" in done.stderr


def test_a_prediction_that_names_its_own_database_is_not(score):
    _, found = score([{"question_id": 0, "sql": "SELECT id FROM city", "db_id": "shop"}])
    assert found["db_mismatch"] == []
