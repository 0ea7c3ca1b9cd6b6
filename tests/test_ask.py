"""``text2sql ask`` as a user calls it, against a real server and real files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from agent_databases import make_database
from click.testing import CliRunner
from scripted_server import ScriptedServer, calls, fails, says, submits

from text2sql.cli import cli
from text2sql.errors import Text2SqlError

QUERY = "SELECT name FROM city ORDER BY name"


@pytest.fixture
def shop(tmp_path):
    return make_database(tmp_path / "shop.db")


def run(script, *arguments):
    """Call ``ask``; returns the result and the server. Errors are raised as the library does."""
    with ScriptedServer(script) as server:
        words = [str(word) for word in arguments]
        result = CliRunner().invoke(cli, ["ask", *words, "--policy", server.url])
    return result, server


def program(*arguments):
    """Run the program itself."""
    code = "import sys; from text2sql.cli import main; sys.argv[0] = 'text2sql'; main()"
    command = [sys.executable, "-c", code, "ask", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_rows_sql_and_share(shop):
    script = [calls(("inspect_schema", {})), submits(QUERY)]
    result, server = run(script, shop, "Which cities?", "--evidence", "all of them")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.strip() for line in lines[:6]] == [
        "name",
        "----",
        "Bern",
        "Oslo",
        "Rome",
        "(3 rows)",
    ]
    assert f"SQL: {QUERY}" in lines
    assert "Share: 1 of 1 (100%)" in lines
    assert result.stderr.startswith("policy: scripted (")
    assert server.requests[0]["temperature"] == 0
    assert "Evidence: all of them" in server.requests[0]["messages"][1]["content"]


def test_votes(shop):
    turns = iter(range(100))

    def by_turn(body):
        return submits("SELECT 1") if next(turns) == 0 else submits(QUERY)

    result, server = run(by_turn, shop, "Which cities?", "--votes", 3, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (found["sql"], found["votes"], found["k"]) == (QUERY, 2, 3)
    assert found["rows"] == [["Bern"], ["Oslo"], ["Rome"]]
    assert found["columns"] == ["name"]
    assert found["status"] == "answered"
    assert len(server.requests) == 3
    assert server.requests[0]["temperature"] == 1.0


def test_failed_rollouts_do_not_vote_and_do_not_count(shop):
    turns = iter(range(100))

    def script(body):
        return fails(400, "odd") if next(turns) == 0 else submits(QUERY)

    result, _ = run(script, shop, "Which cities?", "--votes", 3)
    assert "Share: 2 of 2 (100%)" in result.stdout


@pytest.mark.parametrize(
    "script, reason",
    [
        ([says("There are some."), says("Many.")], "no query was submitted (no_action)"),
        ([submits("SELECT nope FROM city")], "the submitted query failed: no such column: nope"),
        ([submits("DROP TABLE city")], "the submitted query failed"),
        ([submits("SELECT * FROM city WHERE 0")], "the query returned no rows"),
    ],
)
def test_no_answer(shop, script, reason):
    result, _ = run(script, shop, "Which cities?")
    assert result.exit_code == 4
    assert result.stdout.startswith("No answer: ")
    assert reason in result.stdout
    result, _ = run(script, shop, "Which cities?", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["status"] == "no_answer"


def test_no_agreement_says_what_became_of_all(shop):
    result, _ = run(lambda body: says("no"), shop, "Which?", "--votes", 2)
    assert result.exit_code == 4
    assert "2 of 2: no query was submitted" in result.stdout


def test_the_transcript(shop):
    script = [calls(("run_sql", {"sql": QUERY})), submits(QUERY)]
    result, _ = run(script, shop, "Which cities?", "--transcript", "--json")
    assert json.loads(result.stdout)["sql"] == QUERY
    assert "[user] Which cities?" in result.stderr
    assert '-> run_sql {"sql": "SELECT name' in result.stderr
    assert "[end] submit" in result.stderr


def test_values_that_json_and_terminals_do_not_have(shop):
    sql = "SELECT x'00ff' AS b, 9e999 AS i, NULL AS n, 'a' || char(27) || '[2J' AS e, 2 AS b"
    found = json.loads(run([submits(sql)], shop, "Odd?", "--json")[0].stdout)
    assert found["rows"][0][:3] == ["X'00FF'", "inf", None]
    assert found["columns"] == ["b", "i", "n", "e", "b"]
    result, _ = run([submits(sql)], shop, "Odd?")
    assert "\x1b" not in result.stdout
    assert "<blob 2 bytes>" in result.stdout


def test_long_results_are_cut_and_say_so(shop):
    sql = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<5000) SELECT i FROM n"
    )
    result, _ = run([submits(sql)], shop, "Many?")
    assert "(50 of 5000 rows shown)" in result.stdout
    found = json.loads(run([submits(sql)], shop, "Many?", "--json")[0].stdout)
    assert (found["row_count"], len(found["rows"])) == (5000, 1000)


@pytest.mark.parametrize("kind", ["missing", "empty", "garbage", "folder"])
def test_an_unusable_database_costs_no_call(tmp_path, kind):
    database = tmp_path / "bad.db"
    if kind == "folder":
        database.mkdir()
    elif kind != "missing":
        database.write_bytes(b"" if kind == "empty" else b"not a database at all")
    with ScriptedServer([]) as server:
        result = program(database, "Which?", "--policy", server.url)
        assert server.requests == []
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_a_database_that_is_corrupt_inside_is_one_sentence(tmp_path, shop):
    data = bytearray(shop.read_bytes())
    data[100:4000] = b"\xff" * 3900
    (tmp_path / "corrupt.db").write_bytes(data)
    with ScriptedServer(lambda body: calls(("inspect_schema", {}))) as server:
        result = program(tmp_path / "corrupt.db", "Which?", "--policy", server.url)
    assert result.returncode == 1
    assert len([line for line in result.stderr.splitlines() if line.startswith("error: ")]) == 1
    assert "Traceback" not in result.stderr
    assert server.requests == []


def test_an_empty_question_and_a_policy_that_is_not_there(shop):
    result, server = run([], shop, "  ")
    assert isinstance(result.exception, Text2SqlError)
    assert server.requests == []
    result = program(shop, "Which?", "--policy", "/no/such/policy")
    assert (result.returncode, result.stdout) == (1, "")
    assert "There is no policy '/no/such/policy'" in result.stderr


def test_a_server_that_is_down(shop):
    result = program(shop, "Which?", "--policy", "http://127.0.0.1:9/v1")
    assert result.returncode == 6
    assert result.stderr.startswith("error: No policy server answers at http://127.0.0.1:9/v1")


def test_a_server_that_fails_while_it_answers(shop):
    result, _ = run(lambda body: fails(400, "odd"), shop, "Which?")
    assert "odd" in str(result.exception)
    assert result.exception.exit_code == 6


def test_a_model_that_the_server_does_not_have(shop):
    result, _ = run([], shop, "Which?", "--model", "other")
    assert "no model 'other'; it has: scripted" in str(result.exception)


def test_the_pocket_policy_answers_without_a_server(shop):
    weights = Path(__file__).parent.parent / "text2sql" / "datasets" / "pocket" / "policy"
    if not list(weights.glob("*.safetensors")):
        pytest.skip("the pocket policy's weights are not there")
    pytest.importorskip("torch")
    result = program(shop, "How many cities are there?", "--json")
    assert result.returncode in (0, 4), result.stderr
    assert json.loads(result.stdout)["policy"]
