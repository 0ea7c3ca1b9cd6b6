"""The judge: BIRD's equality exactly, its unsafe corners closed, verdicts and rewards."""

import hashlib
import json
import math
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text2sql.evaluation.predictions.score import question_id, score_predictions
from text2sql.judge.reward import REWARD
from text2sql.judge.verdicts import GoldResult, Verdict, execute_submission, run_gold, verdict_of
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Status
from text2sql.sandbox.results import ResultDigest

TABLES = """
CREATE TABLE t (id INT, s TEXT);
INSERT INTO t VALUES (1, '1'), (2, 'b'), (2, 'b'), (3, NULL);
CREATE TABLE bad (x TEXT);
INSERT INTO bad VALUES (CAST(x'e9' AS TEXT));
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("judge") / "shop.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(TABLES)
    connection.close()
    return path


LIMITS = Limits(seconds=10)


def judge(sandbox, database, prediction, gold, rule="official", limits=LIMITS):
    question = Question("dev/1", "shop", database, "?", sql=gold)
    result = execute_submission(prediction, database, sandbox, limits)
    return verdict_of(result, run_gold(question, sandbox, limits), rule)


# --- digests have the equality classes of Python's tuples

VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0, 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 0.0, -0.0, 1.0, 2.0**53]),
    st.sampled_from([2.0**63, -(2.0**63), 1e300, math.inf, -math.inf, 0.1, 1.5]),
    st.floats(allow_nan=False),
    st.sampled_from(
        ["", "1", "1.0", "None", "a", "é", "e\u0301", "'", "b'a'", "\x00", "\U0001f600"]
    ),
    st.text(max_size=3),
    st.sampled_from([b"", b"1", b"a"]),
    st.binary(max_size=3),
)
ROW = st.tuples(VALUES, VALUES) | st.tuples(VALUES)
RESULT = st.lists(ROW, max_size=5)
SIMILAR = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1, True, 1.0, -0.0, "1", "a", b"a", b"1", 2.0**53, 2**53 + 1])
    ),
    max_size=4,
)


def digests(rows):
    digest = ResultDigest()
    digest.add(rows)
    return digest.digests()


@given(RESULT | SIMILAR, RESULT | SIMILAR)
def test_digests_are_equal_exactly_when_python_says_so(one, two):
    first, second = digests(one), digests(two)
    assert (first[0] == second[0]) == (set(one) == set(two))
    assert (first[1] == second[1]) == (Counter(one) == Counter(two))
    assert (first[2] == second[2]) == (one == two)


@given(RESULT, st.randoms(use_true_random=False))
def test_order_and_duplicates_matter_only_where_they_should(rows, chance):
    shuffled = list(rows)
    chance.shuffle(shuffled)
    assert digests(shuffled)[:2] == digests(rows)[:2]
    assert digests(rows + rows)[0] == digests(rows)[0]


@given(VALUES, VALUES)
def test_values_through_sqlite_keep_their_equality(a, b):
    connection = sqlite3.connect(":memory:")
    one = connection.execute("SELECT ?", (a,)).fetchall()
    two = connection.execute("SELECT ?", (b,)).fetchall()
    connection.close()
    assert (digests(one)[0] == digests(two)[0]) == (set(one) == set(two))


# --- the official rule


@pytest.mark.parametrize(
    ("prediction", "gold", "verdict"),
    [
        ("SELECT 1", "SELECT 1.0", "match"),
        ("SELECT -0.0", "SELECT 0", "match"),
        ("SELECT '1'", "SELECT 1", "wrong"),
        ("SELECT x'61'", "SELECT 'a'", "wrong"),
        ("SELECT NULL", "SELECT NULL", "match"),
        ("SELECT NULL", "SELECT 0", "wrong"),
        ("SELECT 'A'", "SELECT 'a'", "wrong"),
        ("SELECT 'a '", "SELECT 'a'", "wrong"),
        ("SELECT 0.1 + 0.2", "SELECT 0.3", "wrong"),
        ("SELECT 9007199254740993", "SELECT 9007199254740992.0", "wrong"),
        ("SELECT id, s FROM t", "SELECT s, id FROM t", "wrong"),
        ("SELECT id, s FROM t", "SELECT id FROM t", "wrong"),
        ("SELECT id FROM t ORDER BY id DESC", "SELECT DISTINCT id FROM t", "match"),
        ("SELECT id AS x FROM t", "SELECT id FROM t", "match"),
        ("SELECT 1 WHERE 0", "SELECT id, s FROM t WHERE 0", "match"),
        ("SELECT id FROM t WHERE 0", "SELECT id FROM t", "wrong"),
        ("SELECT id FROM t;", "SELECT id FROM t", "match"),
        ("SELECT id FROM t -- all", "SELECT id FROM t", "match"),
        ("SELECT nope FROM t", "SELECT id FROM t", "error"),
        ("SELECT 1; SELECT 1", "SELECT 1", "error"),
        ("SELECT id FROM t", "SELECT nope FROM t", "wrong"),
        ("SELECT x FROM bad", "SELECT x FROM bad", "error"),
        ("SELECT 1", "SELECT x FROM bad", "wrong"),
        ('SELECT "nope" FROM t', "SELECT 'nope'", "match"),
        ("SELECT value FROM json_each('[1,2]')", "VALUES (1), (2)", "match"),
    ],
)
def test_official_rule(sandbox, database, prediction, gold, verdict):
    assert judge(sandbox, database, prediction, gold) == verdict


@pytest.mark.parametrize(
    ("prediction", "gold", "official", "multiset", "ordered"),
    [
        ("SELECT id FROM t", "SELECT id FROM t", "match", "match", "match"),
        ("SELECT id FROM t ORDER BY 1 DESC", "SELECT id FROM t", "match", "match", "match"),
        ("SELECT id FROM t", "SELECT id FROM t ORDER BY 1 DESC", "match", "match", "wrong"),
        ("SELECT DISTINCT id FROM t", "SELECT id FROM t", "match", "wrong", "wrong"),
        ("SELECT 1", "SELECT 2", "wrong", "wrong", "wrong"),
    ],
)
def test_the_other_rules(sandbox, database, prediction, gold, official, multiset, ordered):
    found = [judge(sandbox, database, prediction, gold, r) for r in ("official", "multiset")]
    found.append(judge(sandbox, database, prediction, gold, "ordered"))
    assert found == [official, multiset, ordered]


# --- where the official evaluator is unsafe, we differ


@pytest.mark.parametrize(
    "prediction",
    [
        "DELETE FROM t",
        "UPDATE t SET id = 7",
        "WITH x AS (SELECT 1) DELETE FROM t",
        "DROP TABLE t",
        "SELECT 1; DELETE FROM t",
        "CREATE TEMP TABLE t (id)",
        "SELECT 1\x00; DROP TABLE t",
    ],
)
def test_a_write_never_matches_an_emptied_gold(sandbox, database, prediction):
    before = hashlib.sha256(database.read_bytes()).hexdigest()
    assert judge(sandbox, database, prediction, "SELECT id FROM t") is Verdict.WRITE
    assert hashlib.sha256(database.read_bytes()).hexdigest() == before
    assert judge(sandbox, database, "SELECT id FROM t", "SELECT id FROM t") is Verdict.MATCH


@pytest.mark.parametrize("nothing", [" ", "-- cannot answer", ";", "", None, "/* x */;"])
def test_a_missing_prediction_never_matches_an_empty_gold(sandbox, database, nothing):
    gold = "SELECT id FROM t WHERE 0"
    assert judge(sandbox, database, nothing, gold) is Verdict.NO_SUBMISSION


def test_limits_of_the_prediction(sandbox, database):
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
    limits = Limits(seconds=0.3, max_rows=100)
    late = judge(sandbox, database, endless + "SELECT count(*) FROM r", "SELECT 1", limits=limits)
    assert late is Verdict.TIMEOUT
    large = judge(sandbox, database, endless + "SELECT n FROM r", "SELECT 1", limits=limits)
    assert large is Verdict.TOO_LARGE


def test_infrastructure_is_never_a_verdict_on_the_prediction(sandbox, database):
    question = Question("dev/1", "shop", database, "?", sql="SELECT 1")
    gold = run_gold(question, sandbox)
    good = execute_submission("SELECT 1", database, sandbox)
    lost = QueryResult(Status.INFRASTRUCTURE, error="locked")
    assert verdict_of(lost, gold) is Verdict.INFRASTRUCTURE
    assert verdict_of(good, replace(gold, status=Status.INFRASTRUCTURE)) is Verdict.INFRASTRUCTURE


def test_rewards():
    assert set(REWARD) == set(Verdict)
    assert REWARD[Verdict.MATCH] == 1.0
    assert REWARD[Verdict.WRONG] == 0.1
    assert REWARD[Verdict.WRITE] == -1.0
    assert REWARD[Verdict.INFRASTRUCTURE] is None
    zero = {v for v, reward in REWARD.items() if reward == 0.0}
    assert zero == {"error", "no_submission", "timeout", "too_large", "truncated"}


def test_gold_result_survives_json(sandbox, database):
    gold = run_gold(Question("dev/1", "shop", database, "?", sql="SELECT id FROM t"), sandbox)
    assert (gold.row_count, gold.sorts) == (4, False)
    assert GoldResult.from_dict(json.loads(json.dumps(gold.to_dict()))) == gold


@pytest.mark.parametrize(
    ("sql", "status", "worth"),
    [
        ("SELECT id FROM t ORDER BY id", "ok", "ran usable"),
        ("SELECT 1 WHERE 0", "ok", "ran empty"),
        ("SELECT nope", "error", "failing"),
        ("SELECT 1", "infrastructure", "lost"),
    ],
)
def test_what_gold_is_worth(sandbox, database, sql, status, worth):
    gold = run_gold(Question("dev/1", "shop", database, "?", sql=sql), sandbox)
    if status == "infrastructure":
        gold = replace(gold, status=Status.INFRASTRUCTURE)
    assert gold.status == status
    assert gold.sorts == ("ORDER" in sql)
    names = ("ran", "lost", "failing", "empty", "usable")
    assert [name for name in names if getattr(gold, name)] == worth.split()


# --- whole files


@pytest.mark.parametrize(
    ("key", "identity"),
    [("dev/0", 0), ("17", 17), ("dev/007", "007"), ("dev/²", "²"), ("9" * 5000, "9" * 5000)],
)
def test_question_id_is_a_number_only_where_it_is_written_like_one(key, identity):
    assert question_id(Question(key, "shop", Path("shop.sqlite"), "?")) == identity


def test_published_predictions_score_as_the_official_scripts_say(sandbox, shared_data: Path):
    bird = shared_data / "bird"
    expected = json.loads((bird / "expected_superhero_official.json").read_text())
    rows = json.loads((bird / "mini_dev_sqlite.json").read_text())
    database = bird / "databases" / "superhero" / "superhero.sqlite"
    questions = {
        str(position): Question(
            str(position), "superhero", database, row["question"], "", row["SQL"], row["difficulty"]
        )
        for position, row in enumerate(rows)
        if row["db_id"] == "superhero"
    }
    assert len(questions) == expected["n"]
    for entry in expected["results"]:
        sql = json.loads((bird / "predictions_minidev" / entry["file"]).read_text())
        scores = score_predictions(list(questions.values()), sql, sandbox).to_dict()
        parts = scores["by_difficulty"] | {"total": scores}
        for name, share in entry["official_ex"].items():
            found = round(100 * parts[name]["execution_accuracy"], 2)
            assert found == share, (entry["file"], name)
