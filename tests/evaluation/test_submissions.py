"""Predictions as the official evaluators read them, and what one line does to a query."""

import json
import sqlite3
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner

from text2sql.cli.main import cli
from text2sql.evaluation.predictions.reading import read_predictions
from text2sql.evaluation.predictions.writing import (
    NO_ANSWER,
    bird_submission,
    one_line,
    spider_submission,
    submitted_sql,
)
from text2sql.questions import Question
from text2sql.rollouts.store import Rollout

QUESTIONS = [Question(f"dev/{n}", f"db{n}", Path("x"), "?") for n in range(3)]
SQL = {"dev/0": "SELECT 1\n", "dev/2": "SELECT 'a\tb' -- why\nFROM t"}


def test_every_rollout_has_an_entry():
    unknown = {field.name: None for field in fields(Rollout)}
    answered = Rollout(**unknown | {"key": "dev/0", "sql": "SELECT 1"})
    nothing = Rollout(**unknown | {"key": "dev/1"})
    assert submitted_sql([answered, nothing]) == {"dev/0": "SELECT 1", "dev/1": ""}


def test_birds_form_pairs_by_position_and_is_read_back(tmp_path):
    file = tmp_path / "predict_dev.json"
    file.write_text(bird_submission(QUESTIONS, SQL))
    rows = json.loads(file.read_text())
    assert list(rows) == ["0", "1", "2"]
    assert rows["1"] == "\t----- bird -----\tdb1"
    assert rows["2"].split("\t----- bird -----\t") == [SQL["dev/2"], "db2"]
    found = read_predictions(file, QUESTIONS)
    assert (found["dev/0"].strip(), found["dev/1"]) == ("SELECT 1", "")


def test_spiders_form_has_a_line_for_every_question():
    lines = spider_submission(QUESTIONS, SQL).split("\n")
    assert lines == ["SELECT 1", NO_ANSWER, "SELECT ('a'||char(9)||'b') FROM t", ""]
    with pytest.raises(sqlite3.OperationalError):
        sqlite3.connect(":memory:").execute(NO_ANSWER)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 -- one\n + 2",
        "SELECT '--no comment', \"a\"\nFROM (SELECT 1 AS a) /* two\nlines */ WHERE a = 1",
        "SELECT 'a\n''b\r\n' LIKE 'A\n''b\r\n', 'x\ty' COLLATE NOCASE = 'X\tY'",
        "SELECT [a], `a`\tFROM (SELECT 3 AS a)",
    ],
)
def test_one_line_means_the_same(sql):
    connection = sqlite3.connect(":memory:")
    flat = one_line(sql)
    assert not set(flat) & set("\n\r\t")
    assert connection.execute(flat).fetchall() == connection.execute(sql).fetchall()


def evaluate(folder: Path, predictions: str, *more: str) -> dict:
    """Run ``text2sql evaluate`` on the folder's questions; return what it writes as JSON."""
    files = {"--questions": "dev.json", "--databases": "databases", "--predictions": predictions}
    arguments = [part for name, file in files.items() for part in (name, str(folder / file))]
    arguments += ["--jobs", "1", "--no-cache", "--json", str(folder / "out.json"), *more]
    assert CliRunner().invoke(cli, ["evaluate", *arguments]).exit_code == 0
    return json.loads((folder / "out.json").read_text())


def test_evaluate_writes_any_file_as_official_evaluators_read_it(tmp_path):
    """Rows that are not scored have their entry too: the evaluators go by position."""
    place = tmp_path / "databases" / "shop" / "shop.sqlite"
    place.parent.mkdir(parents=True)
    with sqlite3.connect(place) as connection:
        connection.execute("CREATE TABLE t (a)")
    row = {"db_id": "shop", "question": "?", "evidence": "", "SQL": "SELECT 1"}
    rows = [row | {"question_id": n} for n in (7, 9, 9, 12)]
    rows.append(row | {"question_id": 7, "SQL": "SELECT 2"})
    (tmp_path / "dev.json").write_text(json.dumps(rows))
    given = [{"idx": 9, "pred": "SELECT 1 -- one\n"}, {"idx": 7, "pred": "SELECT '\ud83d'"}]
    (tmp_path / "theirs.jsonl").write_text("\n".join(map(json.dumps, given)))
    targets = [tmp_path / "predict_dev.json", tmp_path / "predict_dev.sql"]
    exports = [part for file in targets for part in ("--export", str(file))]
    found = evaluate(tmp_path, "theirs.jsonl", *exports)
    written = json.loads(targets[0].read_text())
    assert [text.split("\t----- bird -----\t") for text in written.values()] == [
        ["SELECT '\ud83d'", "shop"], ["SELECT 1 -- one", "shop"], ["SELECT 1 -- one", "shop"],
        ["", "shop"], ["", "shop"],
    ]  # fmt: skip
    lines = targets[1].read_text().splitlines()
    assert lines == ["SELECT '\\ud83d'", "SELECT 1", "SELECT 1", NO_ANSWER, NO_ANSWER]
    verdicts = [one["verdict"] for one in evaluate(tmp_path, "predict_dev.json")["verdicts"]]
    assert verdicts == [one["verdict"] for one in found["verdicts"]]
    assert verdicts == ["error", "match", "no_submission"]
    refused = CliRunner().invoke(cli, ["evaluate", "--export", "x.csv"])
    assert refused.exit_code == 2 and "must end with .json for BIRD's form" in refused.output
