"""Classes of failures: real messages of SQLite, and queries beside their gold."""

import json
import sqlite3

import pytest

from text2sql.evaluation.failures.classes import classes_of, count_classes, differences, error_class
from text2sql.evaluation.failures.effort import effort, tool_use
from text2sql.evaluation.failures.examples import choose, transcript
from text2sql.rollouts.located import read_located, whole_rows
from text2sql.rollouts.store import Rollout, RolloutStore

SAME_PARTS, UNREADABLE = "the same parts, put together differently", "cannot be compared"
GOLD = "SELECT T1.name FROM shop AS T1 JOIN city AS T2 ON T1.city_id = T2.id WHERE T2.name = 'Rome'"


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT price FROM t", "no such column"),
        ("SELECT * FROM nowhere", "no such table"),
        ("SELECT median(a) FROM t", "no such function"),
        ("SELECT a FROM t JOIN t AS u", "ambiguous column"),
        ("SELECT a FROM t WHERE count(*) > 1", "wrong use of an aggregate"),
        ("SELECT a FROM t WHERE a = (SELECT 1, 2)", "columns do not fit"),
        ("SELECT 1 UNION SELECT 1, 2", "columns do not fit"),
        ("SELECT FROM t", "syntax error"),
        ("SELECT (1", "syntax error"),
        ("SELECT abs(-9223372036854775808)", "another error"),
    ],
)
def test_classes_of_sqlites_messages(sql, name):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a, b)")
    with pytest.raises(sqlite3.Error) as error:
        connection.execute(sql).fetchall()
    assert error_class(str(error.value)) == name


@pytest.mark.parametrize(
    ("predicted", "found"),
    [
        (GOLD, [SAME_PARTS]),
        (GOLD.replace("T1", "x").replace("name", "NAME").replace("T2", '"y"'), [SAME_PARTS]),
        ("SELECT name FROM shop WHERE name = 'Rome'", ["missing join"]),
        (GOLD.replace("city AS", "town AS"), ["wrong tables"]),
        (GOLD + " AND T1.id IN (SELECT shop_id FROM sale)", ["extra tables"]),
        (GOLD.replace("'Rome'", "'rome'"), ["wrong filter value"]),
        (GOLD.replace("T2.name =", "T2.land ="), ["wrong filter"]),
        (GOLD.replace("T2.name =", "T2.name >"), ["wrong filter"]),
        (GOLD.replace("T1.name FROM", "T1.name, T1.id FROM"), ["extra columns"]),
        (GOLD.replace("T1.name FROM", "T1.street FROM"), ["wrong columns"]),
        (GOLD.replace("SELECT", "SELECT DISTINCT"), ["duplicates"]),
        (GOLD + " ORDER BY T1.name LIMIT 1", ["order or limit"]),
        (GOLD + " GROUP BY T1.name", ["wrong grouping"]),
        ("SELECT max(T1.name" + ")" + GOLD.removeprefix("SELECT T1.name"), ["wrong aggregate"]),
        ("SELECT FROM WHERE", [UNREADABLE]),
        ("DROP TABLE shop", [UNREADABLE]),
    ],
)
def test_differences_from_gold(predicted, found):
    assert differences(predicted, GOLD) == found


def test_an_aggregate_and_its_columns():
    gold = "SELECT avg(price), city FROM sale GROUP BY city"
    assert differences("SELECT sum(price), city FROM sale GROUP BY city", gold) == [
        "wrong aggregate"
    ]
    assert differences("SELECT avg(price) FROM sale", gold) == ["missing columns", "wrong grouping"]
    assert differences("WITH s AS (SELECT * FROM sale) SELECT avg(price), city FROM s", gold)[
        0
    ] != ("wrong tables")


def rollout(key: str, verdict: str, **fields) -> Rollout:
    """Make a rollout with a verdict."""
    values = dict.fromkeys(("policy", "prompt_revision", "mode", "digest"), "")
    values |= {"key": key, "sample": 0, "policy_revision": "1", "sampling": {}, "messages": []}
    values |= {"calls": [], "sql": GOLD, "status": "ok", "verdict": verdict, "row_count": 1}
    values |= {"reward": 0.1, "write_attempts": 0, "turns": 2, "prompt_tokens": 10}
    values |= {"completion_tokens": 4, "seconds": 0.5, "stop_reason": "submit"}
    return Rollout(**(values | fields))


def test_classes_of_rollouts_and_their_counts():
    found = {
        "a": classes_of(rollout("a", "match"), GOLD),
        "b": classes_of(rollout("b", "error", error="no such column: x"), GOLD),
        "c": classes_of(rollout("c", "wrong", sql=GOLD.replace("Rome", "Oslo"), row_count=0), GOLD),
        "d": classes_of(rollout("d", "no_submission"), GOLD),
        "e": classes_of(rollout("e", "error", error="no such column: y"), GOLD),
    }
    assert found["a"] == []
    assert found["c"] == ["wrong filter value", "no rows returned"]
    verdicts = {"a": "match", "b": "error", "c": "wrong", "d": "none", "e": "error"}
    counts = count_classes(found, verdicts)
    first = {"verdict": "error", "name": "no such column", "count": 2, "keys": ["b", "e"]}
    assert counts[0] == first
    assert choose({key: names for key, names in found.items() if names}, ["e"]) == list("ecdb")


def test_effort_and_tool_use():
    found = effort([rollout("a", "match"), rollout("b", "truncated", turns=4, seconds=1.5)])
    assert (found["turns"], found["truncated"], found["mean_turns"]) == ({2: 1, 4: 1}, 0.5, 3)
    assert effort([]) == {}
    calls = [{"name": "run_sql", "seconds": s, "status": "ok"} for s in (0.1, 0.3)]
    (used,) = tool_use([{"calls": calls}])
    assert used == {"tool": "run_sql", "calls": 2, "mean_seconds": 0.2, "ended": {"ok": 2}}


def test_transcript_shows_calls_and_cuts_long_texts():
    call = {"function": {"name": "submit", "arguments": json.dumps({"sql": "SELECT 1"})}}
    broken = {"function": {"name": "submit", "arguments": "{"}}
    messages = [
        {"role": "user", "content": "x" * 5000},
        {"role": "assistant", "content": None, "tool_calls": [call, broken]},
    ]
    shown = transcript(messages)
    assert shown[0]["text"].endswith("[5,000 characters]")
    assert [one["text"] for one in shown[1:]] == ["submit\nsql: SELECT 1", "submit\n{"]


def test_places_point_to_the_lines_that_count(tmp_path):
    spoilt = rollout("a", "infrastructure")
    for name, rows in {"1": [spoilt, rollout("b", "wrong")], "2": [rollout("a", "match")]}.items():
        store = RolloutStore(tmp_path / f"{name}.jsonl")
        for row in rows:
            store.append(row)
        store.close()
    found = read_located(tmp_path.glob("*.jsonl"), ["a", "b"], 1)
    places = {one.rollout.key: one.place.below(tmp_path) for one in found}
    assert places == {"a": "2.jsonl:1", "b": "1.jsonl:2"}
    rows = dict(whole_rows([one.place for one in found]))
    assert sorted(row["verdict"] for row in rows.values()) == ["match", "wrong"]
