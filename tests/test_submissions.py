"""Predictions as the official evaluators read them, and what one line does to a query."""

import json
import sqlite3
from pathlib import Path

import pytest

from text2sql.datasets.predictions import read_predictions
from text2sql.questions import Question
from text2sql.submissions import NO_ANSWER, bird_submission, one_line, spider_submission

QUESTIONS = [Question(f"dev/{n}", f"db{n}", Path("x"), "?") for n in range(3)]
SQL = {"dev/0": "SELECT 1\n", "dev/2": "SELECT 'a\tb' -- why\nFROM t"}


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
