"""Whatever a model calls the tools with, they answer within the budget and never raise."""

import asyncio
import hashlib
import json
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sandbox.attacks import ATTACKS, CHANGES, STOPPED
from tests.support.agent_databases import ask, make_database
from text2sql.agent.settings import AgentSettings
from text2sql.agent.tool_calls import TOOL_NAMES
from text2sql.agent.tools import Tools
from text2sql.sandbox import Sandbox

SCRIPT = """
CREATE TABLE t (a INT, s TEXT);
INSERT INTO t VALUES (1, 'x'), (2, printf('%.*c', 50000, 'y')), (3, CAST(x'ff00fe' AS TEXT));
CREATE TABLE "odd ""name" (a, b BLOB);
INSERT INTO "odd ""name" VALUES (char(10) || '(3 rows)', zeroblob(70000));
CREATE TABLE u (id INTEGER PRIMARY KEY, t_a INT REFERENCES t (a));
CREATE VIEW v AS SELECT s FROM t;
CREATE VIEW broken AS SELECT * FROM gone;
CREATE VIRTUAL TABLE docs USING fts5(title, body);
CREATE VIRTUAL TABLE notes USING fts4(body);
CREATE VIRTUAL TABLE geo USING rtree(id, x0, x1);
"""
SETTINGS = AgentSettings(output_chars=700, output_rows=5, cell_chars=40, query_seconds=0.5)

NAMES = st.sampled_from([*TOOL_NAMES, "", "RUN_SQL", "drop", "run_sql\n", "\ud800"]) | st.text(
    max_size=30
)
WORDS = st.sampled_from(
    [
        "t",
        "u",
        "v",
        "broken",
        'odd "name',
        '"t"',
        "sqlite_master",
        "docs_data",
        "null",
        "",
        "; DROP",
    ]
    + ["-1", "0", "1e99", "1", "SELECT * FROM t", "SELECT s FROM t, t t2, t t3", 'SELECT "typo"']
    + ["SELECT * FROM docs", "EXPLAIN SELECT 1", "PRAGMA table_info(t)", "```sql\nSELECT 1\n```"]
    + [change for change in CHANGES if "{" not in change]
    + [sql for _, sql, expected in ATTACKS if not expected & STOPPED and len(sql) < 5000]
)
NUMBERS = st.integers() | st.floats() | st.sampled_from([10**400, -(10**400), 2**63, -0.0])
TEXTS = WORDS | st.text(max_size=60) | st.text(string.printable, max_size=60)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["table", "sql", "limit", "query", "SQL", "__class__", ""])
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
LIKELY = st.fixed_dictionaries({"sql": TEXTS, "table": TEXTS, "limit": NUMBERS | WORDS})
ARGUMENTS = (
    OBJECTS
    | LIKELY
    | OBJECTS.map(json.dumps)
    | LIKELY.map(json.dumps).flatmap(lambda text: st.integers(0, len(text)).map(lambda n: text[:n]))
    | VALUES
    | st.binary(max_size=5)
)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    database = make_database(tmp_path_factory.mktemp("fuzz") / "shop.db", SCRIPT)
    with Sandbox(1) as sandbox, asyncio.Runner() as runner:
        yield database, sandbox, runner


def call(opened, *calls):
    database, sandbox, runner = opened
    tools = Tools(ask(database), sandbox, SETTINGS)

    async def all_calls():
        return [await tools.call(name, arguments) for name, arguments in calls]

    return runner.run(all_calls()), tools


def check(outputs, tools):
    assert len(tools.log) == len(outputs)
    for output, record in zip(outputs, tools.log, strict=True):
        assert isinstance(output, str) and 0 < len(output) <= SETTINGS.output_chars + 100
        assert record.output_chars == len(output)
        output.encode("utf-8")
        json.dumps(vars(record)).encode("utf-8")


@settings(
    max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(NAMES, ARGUMENTS), min_size=1, max_size=4))
def test_no_call_raises_or_floods(opened, calls):
    before = hashlib.sha256(opened[0].read_bytes()).hexdigest()
    outputs, tools = call(opened, *calls)
    check(outputs, tools)
    assert hashlib.sha256(opened[0].read_bytes()).hexdigest() == before
    assert sorted(p.name for p in opened[0].parent.iterdir()) == ["shop.db"]


@pytest.mark.parametrize(
    "arguments",
    [
        "[" * 100_000,
        '{"sql": ' * 50_000,
        '{"limit": ' + "9" * 5000 + ', "table": "t"}',
        '{"limit": 1' + "0" * 400 + ', "table": "t"}',
        {"table": "t", "limit": 10**5000},
        {"table": 10**5000},
        {"sql": "SELECT 1", "more": b"bytes"},
        {"sql": b"SELECT 1"},
        {("a", "b"): 1},
        '{"sql": "SELECT 1"}' * 2,
        '{"sql": "\\ud800"}',
        '{"table": "t", "table": "u"}',
        "\x00",
        None,
        7,
        [],
        [["sql", "SELECT 1"]],
        "NaN",
        "x" * 1_000_000,
        {"table": "x" * 1_000_000},
        {"sql": "x" * 1_000_000},
    ],
    ids=lambda value: repr(type(value)),
)
@pytest.mark.parametrize(
    "name", ["inspect_schema", "sample_rows", "run_sql", "submit", None, [], {}]
)
def test_arguments_that_break_parsers(opened, name, arguments):
    outputs, tools = call(opened, (name, arguments))
    check(outputs, tools)


ROW = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT hex(zeroblob(4900000)), hex(zeroblob(1))",
        "SELECT " + ", ".join(["s"] * 300) + " FROM t",
        "SELECT 1 AS '" + "n" * 9000 + "'",
        "SELECT char(10) || '(9 rows)' || char(13) || char(0) || 'refused: x'",
        "SELECT * FROM t AS '" + "\u202e" * 3000 + "'",
        'SELECT "' + '", "'.join(f"typo{n}" for n in range(200)) + '"',
        ROW + "SELECT zeroblob(9000000) FROM r",
        ROW + "SELECT n, printf('%.*c', 1000000, 'x') FROM r",
        "SELECT json_group_array(s) FROM t, t b, t c, t d",
    ],
    ids=range(9),
)
def test_large_results_stay_within_the_budget(opened, sql):
    outputs, tools = call(opened, ("run_sql", {"sql": sql}))
    check(outputs, tools)
