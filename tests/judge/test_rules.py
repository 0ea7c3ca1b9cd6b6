"""Rules beside the official one, on a real database."""

import hashlib
import json
import sqlite3

import pytest
from click.testing import CliRunner

from text2sql.cli.main import cli
from text2sql.evaluation.rule_scores import score_rules
from text2sql.evaluation.statistics import wilson
from text2sql.judge.equality import sorts
from text2sql.judge.rules import (
    DEFINITIONS,
    efficiency_values,
    r_ves,
    rule_values,
    soft_f1,
    time_ratios,
)
from text2sql.questions import Question
from text2sql.sandbox import Sandbox


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        ([], [], 1.0),
        ([(1,)], [], 0.0),
        ([], [(1,)], 0.0),
        ([(1, 2)], [(1, 2)], 1.0),
        ([(2, 1)], [(1, 2)], 1.0),
        ([(1, 1), (1, 1)], [(1, 1)], 1.0),
        ([("Apple", 325), ("Orange",), ("Banana", 119)], [("Apple", 325), ("Orange", 191)], 2 / 3),
        ([(1, 2, 3)], [(1, 2)], 2 * 1 / (2 + 0.5)),
    ],
)
def test_soft_f1(predicted, gold, expected):
    assert soft_f1(predicted, gold) == pytest.approx(expected)


def test_which_queries_sort():
    assert sorts("SELECT a FROM t ORDER\nBY a")
    assert sorts("SELECT a FROM t UNION SELECT b FROM t order /* so */ by 1")
    assert not sorts("SELECT a FROM (SELECT a FROM t ORDER BY a)")
    assert not sorts("SELECT 'order by', rank() OVER (ORDER BY a) FROM t -- order by")
    assert sorts("SELECT ')' FROM t ORDER BY 1")


def test_the_ordered_rule_has_one_meaning(shop, tmp_path):
    """``--rule ordered`` gives the number that ``--all-rules`` prints as ordered."""
    golds, predictions = zip(*PAIRS, strict=True)
    found, beside = [
        evaluate(shop, tmp_path, golds, predictions, *more)[1]
        for more in (("--rule", "ordered"), ("--all-rules",))
    ]
    assert found["execution_accuracy"] == beside["rules"]["ordered"]["value"] == 0.2
    unsorted = evaluate(shop, tmp_path, ["SELECT a FROM t"], [PAIRS[2][1]], "--rule", "ordered")[1]
    assert unsorted["execution_accuracy"] == 1.0


@pytest.fixture
def shop(tmp_path):
    """A database with a table of repeated values."""
    path = tmp_path / "shop" / "shop.sqlite"
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'x'), (2, 'x'), (2, 'x'), (3, 'y')"
        )
    return path


PAIRS = [
    ("SELECT a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a DESC"),
    ("SELECT b FROM t", "SELECT DISTINCT b FROM t"),
    ("SELECT a FROM t", "SELECT a FROM t ORDER BY a DESC"),
    ("SELECT a FROM t", "SELECT price FROM nowhere"),
    ("SELECT a, b FROM t", "SELECT a FROM t"),
]


def test_rules_side_by_side(shop):
    asked = [Question(f"dev/{n}", "shop", shop, "?", "", gold) for n, (gold, _) in enumerate(PAIRS)]
    predictions = {f"dev/{n}": sql for n, (_, sql) in enumerate(PAIRS)}
    with Sandbox(1) as sandbox:
        values, twice = rule_values(asked, [predictions, predictions], sandbox)
    assert values == twice
    found = score_rules(values)
    shares = {rule: score.value for rule, score in found.items()}
    assert set(shares) == set(DEFINITIONS)
    assert (shares["official"], shares["multiset"], shares["ordered"]) == (0.6, 0.4, 0.2)
    assert all(score.n == 5 for score in found.values())
    assert 0 < shares["soft_f1"] < 1


SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)"


@pytest.mark.parametrize(
    ("ratio", "squared"),
    [(9.0, 1.25), (2.0, 1.25), (1.99, 1.0), (1.0, 1.0), (0.99, 0.75), (0.5, 0.75), (0.49, 0.5),
     (0.25, 0.5), (0.2, 0.25)],
)  # fmt: skip
def test_steps_of_r_ves(ratio, squared):
    assert r_ves(ratio) ** 2 == pytest.approx(squared)


def test_a_slower_query_earns_less_and_golds_own_text_is_not_timed(shop):
    slow = f"{SLOW} SELECT a FROM t WHERE (SELECT count(*) FROM n) > 0"
    pairs = [(shop, slow, "SELECT a FROM t"), (shop, "SELECT a FROM t", slow)]
    fast_one, slow_one, same, gone = time_ratios(
        [*pairs, (shop, slow, slow), (shop, "SELECT a FROM t", "SELECT a FROM nowhere")], 2
    )
    assert fast_one > 2 and slow_one < 0.25 and same == 1.0 and gone is None


def test_efficiency_counts_every_question(shop):
    asked = [Question(f"dev/{n}", "shop", shop, "?", "", "SELECT a FROM t") for n in range(3)]
    sql = {"dev/0": "SELECT a FROM t", "dev/1": "SELECT 5", "dev/2": "SELECT a FROM nowhere"}
    found = efficiency_values(asked, sql, {"dev/0", "dev/2"}, 1)
    assert found == {"dev/0": {"r_ves": 1.0, "ves": 1.0}, "dev/1": {"r_ves": 0.0, "ves": 0.0}}


def evaluate(shop, tmp_path, golds, predictions, *more, difficulties=""):
    """Run the command on questions with these gold queries; return its output and its JSON."""
    rows = [
        {"question_id": n, "db_id": "shop", "question": "?", "SQL": gold, "evidence": ""}
        | ({"difficulty": difficulties[n]} if difficulties else {})
        for n, gold in enumerate(golds)
    ]
    files = [tmp_path / name for name in ("dev.json", "p.json", "out.json")]
    files[0].write_text(json.dumps(rows))
    files[1].write_text(json.dumps(dict(enumerate(predictions))))
    arguments = ["evaluate", "--questions", files[0], "--databases", tmp_path, "--predictions"]
    arguments += [files[1], "--no-cache", "--json", files[2], *more]
    found = CliRunner().invoke(cli, [str(one) for one in arguments], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output, json.loads(files[2].read_text())


def part(right: int, count: int) -> dict:
    """Return what the JSON says of some questions."""
    interval = list(wilson(right, count))
    return {"execution_accuracy": right / count, "count": count, "interval": interval}


def test_evaluate_shows_empty_gold_corrections_and_times(shop, tmp_path):
    empty = "SELECT a FROM t WHERE a > 9"
    golds = ["SELECT a FROM t", empty, "SELECT b FROM t"]
    issue = {"id": 2, "reason": "wrong column", "source": "us", "corrected": "SELECT a FROM t"}
    evaluate(shop, tmp_path, golds, golds)
    digest = hashlib.sha256((tmp_path / "dev.json").read_bytes()).hexdigest()
    listed = {"datasets": [{"questions_sha256": digest, "issues": [issue]}]}
    (tmp_path / "issues.json").write_text(json.dumps(listed))
    more = ("--efficiency", 1, "--known-issues", tmp_path / "issues.json")
    shown, written = evaluate(shop, tmp_path, golds, [golds[0], "SELECT 1", golds[2]], *more)
    assert "execution accuracy 66.67% of 3" in shown and "gold without rows" in shown
    assert "known issues: 1 corrected\n" in shown
    listing = hashlib.sha256((tmp_path / "issues.json").read_bytes()).hexdigest()
    assert written["known_issues"] == {"sha256": listing, "corrected": 1, "not used": 0}
    content = hashlib.sha256((tmp_path / "shop" / "shop.sqlite").read_bytes()).hexdigest()
    assert written["databases_sha256"] == {"shop": content}
    assert written["sqlite_version"] == sqlite3.sqlite_version
    assert written["timeout_seconds"] == 30
    assert written["by_gold"] == {"gold with rows": part(2, 2), "gold without rows": part(0, 1)}
    assert written["corrected"] == part(1, 3)
    assert "corrected                 33.33% of 3 [6.15%, 79.23%] (known issues)" in shown
    assert written["rules"]["r_ves"]["value"] == pytest.approx(2 / 3)
    assert written["timed_runs"] == 1 and "R-VES of BIRD" in written["rules"]["r_ves"]["definition"]


def test_questions_with_failing_gold_are_shown_separately(shop, tmp_path):
    golds = ["SELECT a FROM t", "SELECT b FROM `Order Details`"]
    shown, written = evaluate(shop, tmp_path, golds, golds)
    assert "execution accuracy 50.00% of 2" in shown
    assert written["by_gold"] == {"gold with rows": part(1, 1), "gold that fails": part(0, 1)}


def test_chance_matches_nothing_by_any_rule(shop, tmp_path):
    chance = ["SELECT random()"]
    _, written = evaluate(shop, tmp_path, chance, chance, "--all-rules")
    (verdict,) = written["verdicts"]
    assert verdict["verdict"] == "wrong" and verdict["rules"]["official"] == 0


def test_evaluate_shows_them(shop, tmp_path):
    golds, predictions = zip(*PAIRS, strict=True)
    shown, written = evaluate(shop, tmp_path, golds, predictions, "--all-rules")
    assert "by multiset               40.00% of 5 [11.76%, 76.93%]" in shown
    assert "by soft_f1" in shown and "by_gold" not in written and "unknown" not in shown
    assert written["rules"]["ordered"] == {
        "value": 0.2,
        "interval": list(wilson(1, 5)),
        "n": 5,
        "definition": DEFINITIONS["ordered"],
    }
    low, high = written["rules"]["soft_f1"]["interval"]
    assert 0 <= low < written["rules"]["soft_f1"]["value"] < high <= 1


def test_rules_are_shown_by_difficulty_where_the_file_has_some(shop, tmp_path):
    golds, predictions = zip(*PAIRS, strict=True)
    more = ("--all-rules", "--efficiency", 1)
    shown, written = evaluate(shop, tmp_path, golds, predictions, *more, difficulties="aabbb")
    of = written["rules"]["multiset"]["by_difficulty"]
    assert of == {
        "a": {"value": 0.5, "interval": list(wilson(1, 2)), "n": 2},
        "b": {"value": 1 / 3, "interval": list(wilson(1, 3)), "n": 3},
    }
    assert "    b                       33.33% of 3 " in shown
    assert written["rules"]["r_ves"]["by_difficulty"]["b"]["n"] == 3
