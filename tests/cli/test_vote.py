"""``text2sql vote``: several predictions of each question vote, with and without gold."""

import json
import sqlite3
from contextlib import closing
from math import comb

import pytest
from click.testing import CliRunner

from tests.support.agent_databases import make_database
from text2sql.cli.main import cli
from text2sql.evaluation.vote_curve import ballots, vote_shares

RIGHT, WRONG, EMPTY, BROKEN = (
    "SELECT count(*) FROM city", "SELECT 7", "SELECT id FROM city WHERE 0", "SELECT nope FROM city"
)  # fmt: skip
SAMPLES = {
    "0": [RIGHT, "SELECT 3.0", RIGHT, WRONG],
    "1": [WRONG, WRONG, RIGHT, BROKEN],
    "2": [EMPTY, BROKEN, EMPTY, ""],
}


@pytest.fixture
def place(tmp_path):
    make_database(tmp_path / "dbs" / "shop" / "shop.sqlite")
    (tmp_path / "samples").mkdir()
    for n in range(4):
        sample = {key: texts[n] for key, texts in SAMPLES.items()}
        (tmp_path / "samples" / f"{n}.json").write_text(json.dumps(sample))
    (tmp_path / "lists.json").write_text(json.dumps(SAMPLES))
    write_questions(tmp_path, {"SQL": RIGHT})
    return tmp_path


def write_questions(place, gold):
    rows = [{"question_id": n, "db_id": "shop", "question": f"{n}?"} | gold for n in range(3)]
    (place / "dev.json").write_text(json.dumps(rows))


def vote(place, *words):
    files = ["--questions", place / "dev.json", "--databases", place / "dbs", "--predictions"]
    return CliRunner().invoke(cli, ["vote", *map(str, files), *map(str, words)])


def test_predictions_that_could_not_run_are_counted_and_the_status_is_6(place, monkeypatch):
    monkeypatch.setenv("TEXT2SQL_LOCK_SECONDS", "0.1")
    with closing(sqlite3.connect(place / "dbs" / "shop" / "shop.sqlite")) as other:
        other.execute("BEGIN EXCLUSIVE")
        done = vote(place, place / "samples", "--json", place / "o.json")
    assert done.exception.exit_code == 6 and "had no vote: 11; gold queries: 3" in str(
        done.exception
    )
    assert json.loads((place / "o.json").read_text())["predictions"]["infrastructure"] == 11


def test_a_byte_order_mark_does_not_hide_lists(place):
    (place / "lists.json").write_text(json.dumps(SAMPLES), encoding="utf-8-sig")
    assert "among 4 predictions" in vote(place, place / "lists.json").stdout


@pytest.mark.parametrize("sql", ["SELECT random()", "SELECT CAST(x'C328' AS TEXT)"])
def test_votes_are_judged_as_evaluate_judges(place, sql):
    """Chance matches nothing, not even its own text, and text that is not UTF-8 is an error."""
    write_questions(place, {"SQL": sql})
    for n in range(4):
        (place / "samples" / f"{n}.json").write_text(json.dumps(dict.fromkeys("012", sql)))
    done = vote(place, place / "samples", "--json", place / "o.json")
    assert done.exit_code == 0, done.output
    assert json.loads((place / "o.json").read_text())["accuracy"] == 0


@pytest.mark.parametrize("given", ["samples", "lists.json"])
def test_the_winners_are_written_and_scored(place, given):
    done = vote(place, place / given, "--out", place / "new" / "w.json", "--json", place / "o.json")
    assert done.exit_code == 0, done.output
    winners = json.loads((place / "new" / "w.json").read_text())
    assert [sql.partition("\t")[0] for sql in winners.values()] == [RIGHT, WRONG, ""]
    found = json.loads((place / "o.json").read_text())
    first, second, third = found["votes"]
    assert (first["votes"], first["share"], first["right"]) == (3, 0.75, True)
    assert (second["votes"], second["right"], third["sql"], third["right"]) == (
        2,
        False,
        None,
        False,
    )
    assert found["predictions"] == {"ok": 7, "error": 2, "empty": 2, "no_statement": 1}
    assert (found["k"], found["with_winner"], found["accuracy"]) == (4, 2, pytest.approx(1 / 3))
    passes = [point["ceiling"] for point in found["curve"]]
    expected = [(2 - comb(1, k) / comb(4, k) - comb(3, k) / comb(4, k)) / 3 for k in (1, 2, 3, 4)]
    assert passes == pytest.approx(expected)
    assert found["curve"][3]["vote"] == pytest.approx(1 / 3)
    assert "2 of 3 questions have a winner among 4 predictions" in done.stdout
    assert "k = 4" in done.stdout


def test_without_gold_it_only_votes(place):
    write_questions(place, {})
    done = vote(place, place / "samples", "--json", "-")
    found = json.loads(done.stdout)
    assert "curve" not in found and "right" not in found["votes"][0]
    assert found["votes"][0]["sql"] == RIGHT


def test_what_cannot_vote_is_named(place):
    one = vote(place, place / "samples" / "0.json")
    assert "at least two predictions a question" in str(one.exception)
    uneven = place / "uneven.json"
    uneven.write_text(json.dumps({"0": [RIGHT], "1": [RIGHT, WRONG], "2": [RIGHT]}))
    assert "1 to 2 predictions a question" in str(vote(place, uneven).exception)
    uneven.write_text(json.dumps({"0": [RIGHT, WRONG], "1": RIGHT}))
    assert "a single one for others" in str(vote(place, uneven).exception)
    uneven.write_text(json.dumps({"x": [RIGHT, WRONG]}))
    refused = str(vote(place, uneven).exception)
    assert str(uneven) in refused and "/0.json" not in refused


def test_what_cannot_be_paired_is_said(place):
    (place / "samples" / "3.json").write_text(json.dumps({"0": RIGHT, "99": WRONG}))
    done = vote(place, place / "samples")
    assert "missing: 2 questions have no prediction (" in done.stderr
    assert "unknown: 1 prediction matches no question (" in done.stderr


def test_a_group_that_matches_in_part_is_right_in_part():
    """Two results that differ by rounding are one group, of which scoring accepts one."""
    counted = ballots([("x~na~db", True), ("y~na~dc", False), ("z", False)])
    assert (counted.right, counted.wrong, counted.shares) == ((2,), (1,), (0.5,))
    shares = vote_shares(counted.right, counted.wrong, counted.silent, counted.shares)
    assert shares == pytest.approx((1 / 3, 1 / 3, 1 / 2))
