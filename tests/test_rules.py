"""Rules beside the official one, on a real database."""

import json
import sqlite3

import pytest
from click.testing import CliRunner

from text2sql.cli import cli
from text2sql.questions import Question
from text2sql.rules import DEFINITIONS, orders, score_rules, soft_f1
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


def test_which_queries_order():
    assert orders("SELECT a FROM t ORDER\nBY a")
    assert not orders("SELECT a FROM (SELECT a FROM t ORDER BY a)")
    assert not orders("SELECT 'order by', rank() OVER (ORDER BY a) FROM t -- order by")
    assert orders("SELECT ')' FROM t ORDER BY 1")


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
        found = score_rules(asked, predictions, sandbox)
    shares = {rule: score.value for rule, score in found.items()}
    assert set(shares) == set(DEFINITIONS)
    assert (shares["official"], shares["multiset"], shares["ordered"]) == (0.6, 0.4, 0.2)
    assert all(score.n == 5 for score in found.values())
    assert 0 < shares["soft_f1"] < 1


def test_evaluate_shows_them(shop, tmp_path):
    rows = [
        {"question_id": n, "db_id": "shop", "question": "?", "SQL": gold, "evidence": ""}
        for n, (gold, _) in enumerate(PAIRS)
    ]
    (tmp_path / "dev.json").write_text(json.dumps(rows))
    (tmp_path / "p.json").write_text(json.dumps({n: sql for n, (_, sql) in enumerate(PAIRS)}))
    arguments = ["evaluate", "--questions", "dev.json", "--databases", ".", "--predictions"]
    arguments += ["p.json", "--no-cache", "--all-rules", "--json", "out.json"]
    arguments = [str(tmp_path / a) if a.endswith("json") and a[0] != "-" else a for a in arguments]
    arguments[4] = str(tmp_path)
    found = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    assert "beside it: multiset 40.00%, ordered 20.00%, soft_f1" in found.output
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["rules"]["ordered"] | {"definition": ""} == {
        "value": 0.2,
        "n": 5,
        "definition": "",
    }
