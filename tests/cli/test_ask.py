"""``text2sql ask`` as a user calls it, against a real server and real files."""

import csv
import io
import json
import os
import pty
import re
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.agent_databases import damaged_inside, make_database
from tests.support.scripted_server import ScriptedServer, calls, fails, says, submits
from text2sql.cli.main import cli
from text2sql.common.artifacts import artifact_root
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import Choice, choose
from text2sql.policy.open import policy_directory
from text2sql.policy.weights import directory_revision

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


CODE = "import sys; from text2sql.cli.main import main; sys.argv[0] = 'text2sql'; main()"


def program(*arguments, **options):
    """Run the program itself."""
    command = [sys.executable, "-c", CODE, "ask", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run(command, text=True, timeout=60, check=False, **pipes)


def on_a_terminal(*arguments):
    """Run the program with a terminal as its standard error; returns its result and the lines."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": "60"}
    done = program(*arguments, stderr=slave, env=environment)
    os.close(slave)
    shown = b""
    while part := _read(master):
        shown += part
    os.close(master)
    return done, shown.decode().replace("\r\n", "\n").splitlines()


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the terminal's other end is closed
        return b""


def test_text_that_is_not_utf8_is_shown_with_replacement(tmp_path):
    database = make_database(tmp_path / "t.db", "CREATE TABLE t AS SELECT CAST(x'5afc' AS TEXT) a")
    result, _ = run([submits("SELECT a FROM t")], database, "What is it?")
    assert result.exit_code == 0
    assert "Z\ufffd" in result.output


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


def test_failed_rollouts_count_in_the_share_and_are_named(shop):
    turns = iter(range(100))

    def script(body):
        return fails(400, "odd") if next(turns) == 0 else submits(QUERY)

    result, _ = run(script, shop, "Which cities?", "--votes", 3)
    assert re.search(r"^Share: 2 of 3 \(67%\); 1 failed: .*odd", result.stdout, re.MULTILINE)
    turns = iter(range(100))
    found = json.loads(run(script, shop, "Which cities?", "--votes", 3, "--json")[0].stdout)
    assert (found["votes"], found["k"], found["failed"]) == (2, 3, 1)


def test_one_answer_among_failures_is_no_consensus(shop):
    turns = iter(range(100))

    def script(body):
        return submits(QUERY) if next(turns) == 0 else fails(400, "odd")

    result, _ = run(script, shop, "Which cities?", "--votes", 3)
    assert result.exit_code == 3
    assert "2 of 3: the policy or the sandbox failed" in result.stdout


def test_a_rollout_that_tried_to_write_has_no_vote(shop):
    script = [calls(("run_sql", {"sql": "DELETE FROM city"})), submits(QUERY)]
    result, _ = run(script, shop, "Which cities?")
    assert result.exit_code == 4
    assert "it tried to write before it submitted a query, so it has no vote" in result.stdout


@pytest.mark.parametrize(
    "script, reason",
    [
        (
            [says("There are some."), says("Many.")],
            "no query was submitted (the reply contained neither a tool call nor SQL: 'Many.')",
        ),
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


def test_without_agreement_every_rollout_is_explained(shop):
    result, _ = run(lambda body: says("no"), shop, "Which?", "--votes", 2)
    assert result.exit_code == 4
    assert "2 of 2: no query was submitted" in result.stdout


def in_turn(*queries):
    """A script whose n-th request submits the n-th query."""
    left = iter(queries)
    return lambda body: submits(next(left))


@pytest.mark.parametrize(
    "queries, code, status",
    [
        (["SELECT 1", "SELECT 2"], 3, "no_consensus"),
        (["SELECT 1", "SELECT 2", "SELECT 3"], 3, "no_consensus"),
        (["SELECT 1", "SELECT nope", "SELECT 1 WHERE 0"], 3, "no_consensus"),
        (["SELECT 1", "SELECT 2", "SELECT 1"], 0, "answered"),
        (["SELECT 1", "SELECT 2", "SELECT 1", "SELECT 2"], 0, "answered"),
        (["SELECT nope", "SELECT 1 WHERE 0"], 4, "no_answer"),
        (["SELECT 1"], 0, "answered"),
    ],
)
def test_no_consensus_differs_from_no_answer(shop, queries, code, status):
    asked = (shop, "Which?", "--votes", len(queries))
    result, _ = run(in_turn(*queries), *asked, "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["status"]) == (code, status)
    assert (found["sql"] is None) == (code != 0)
    assert sorted(one["sql"] for one in found["candidates"]) == sorted(queries)


def test_no_consensus_shows_what_was_submitted(shop):
    result, _ = run(in_turn("SELECT 1", "SELECT 2"), shop, "Which?", "--votes", 2)
    assert result.exit_code == 3
    assert result.stdout.startswith("No consensus: no two of 2 rollouts agree: ")
    assert "SQL: SELECT 1\n  the query returned 1 row" in result.stdout
    result, _ = run(in_turn("SELECT 1", "SELECT 2"), shop, "Which?", "--votes", 2, "--csv")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "No consensus: " in result.stderr


@pytest.mark.parametrize("votes", [1, 2])
def test_the_trace(shop, votes):
    def script(body):
        looked = any(message["role"] == "tool" for message in body["messages"])
        return submits(QUERY) if looked else calls(("run_sql", {"sql": QUERY}), reasoning="Hm.")

    result, _ = run(script, shop, "Which cities?", "--trace", "--json", "--votes", votes)
    assert json.loads(result.stdout)["sql"] == QUERY
    assert result.stderr.count("Which cities?") == 1  # all rollouts begin with the same prompt
    assert f"[{'all ' if votes == 2 else ''}user] Which cities?" in result.stderr
    for number in ["1 ", "2 "] if votes == 2 else [""]:
        assert f"[{number}reasoning] Hm." in result.stderr
        assert f"[{number}end] submit" in result.stderr
    assert result.stderr.count('-> run_sql {"sql": "SELECT name') == votes


def test_the_trace_shows_broken_arguments_as_they_were_written(shop):
    broken = '{"sql": "SELECT name FR'
    result, server = run([calls(("run_sql", broken)), submits(QUERY)], shop, "Which?", "--trace")
    assert result.exit_code == 0
    assert f"-> run_sql {broken}" in result.stderr
    sent = [m for m in server.requests[-1]["messages"] if m.get("tool_calls")]
    assert sent[0]["tool_calls"][0]["function"]["arguments"] == "{}"  # a server takes no other


def test_the_cost_lists_opening_separately(shop):
    result, _ = run([submits(QUERY)], shop, "Which?")
    assert re.search(r"^Cost: 1 turn, .* tokens, [\d.]+ s, after [\d.]+ s to open the policy$",
                     result.stdout, re.MULTILINE)  # fmt: skip
    result, _ = run([submits(QUERY)], shop, "Which?", "--json")
    assert json.loads(result.stdout)["opening_seconds"] >= 0


def test_steps_appear_on_a_terminal_while_it_works(shop):
    long = "SELECT name FROM city WHERE name <> '\x1b[2J' ORDER BY name, id, name"
    script = [calls(("inspect_schema", {})), says("Let me see."), submits(long)]
    with ScriptedServer(script) as server:
        done, lines = on_a_terminal(shop, "Which?", "--policy", server.url, "--csv")
    assert lines[0] == f"opening {server.url} ..."
    assert (done.returncode, done.stdout) == (0, "name\nBern\nOslo\nRome\n")
    steps = [line.split(" s  ", 1)[1] for line in lines[2:]]
    assert [step.split()[0] for step in steps] == ["inspect_schema", "says", "submit"]
    assert steps[2].startswith("submit          SELECT name FROM city")
    assert all(len(line) < 60 for line in lines[2:])
    assert "\x1b" not in "".join(lines)


def test_steps_of_several_rollouts_name_the_rollout(shop):
    with ScriptedServer(lambda body: submits(QUERY)) as server:
        _, lines = on_a_terminal(shop, "Which?", "--policy", server.url, "--votes", 2)
    numbers = sorted(line.split(" s  ", 1)[1].split()[0] for line in lines[2:])
    assert numbers == ["1", "2"]


def test_a_rollouts_steps_appear_before_its_end(shop):
    """The second request is answered only once the first one's step has been shown."""
    master, slave = pty.openpty()
    seen = threading.Event()
    turns = iter(range(9))

    def script(body):
        if next(turns) == 0:
            return calls(("run_sql", {"sql": QUERY}))
        assert seen.wait(30)
        return submits(QUERY)

    def watch():
        shown = b""
        while b"run_sql" not in shown and (part := _read(master)):
            shown += part
        seen.set()

    threading.Thread(target=watch, daemon=True).start()
    with ScriptedServer(script) as server:
        done = program(shop, "Which?", "--policy", server.url, stderr=slave)
    os.close(slave)
    os.close(master)
    assert done.returncode == 0 and seen.is_set()


def test_without_a_terminal_there_are_no_steps(shop):
    with ScriptedServer([submits(QUERY)]) as server:
        done = program(shop, "Which?", "--policy", server.url)
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["policy:"]


def test_single_turn(shop):
    result, server = run([says(f"```sql\n{QUERY}\n```")], shop, "Which?", "--single-turn")
    assert result.exit_code == 0 and f"SQL: {QUERY}" in result.stdout
    (request,) = server.requests
    assert "tools" not in request
    assert "city(id INTEGER PK" in request["messages"][1]["content"]


def test_csv(shop):
    sql = "SELECT 'a,\"b\"' AS t, x'00ff' AS b, NULL AS n, 9e999 AS i, 'x' || char(10) || 'y' AS t"
    result, _ = run([submits(sql)], shop, "Odd?", "--csv")
    header, row = csv.reader(io.StringIO(result.stdout))
    assert header == ["t", "b", "n", "i", "t"]
    assert row == ['a,"b"', "00ff", "", "Infinity", "x\ny"]
    colours = "SELECT char(27) || '[31mred' AS t"
    assert run([submits(colours)], shop, "Odd?", "--csv")[0].stdout == "t\n\x1b[31mred\n"


def test_values_that_json_and_terminals_do_not_have(shop):
    sql = "SELECT x'00ff' AS b, 9e999 AS i, NULL AS n, 'a' || char(27) || '[2J' AS e, 2 AS b"
    found = json.loads(run([submits(sql)], shop, "Odd?", "--json")[0].stdout)
    assert found["rows"][0][:3] == [{"blob": "00ff"}, "Infinity", None]
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
    assert (found["row_count"], len(found["rows"])) == (5000, 5000)
    many = sql.replace("5000", "100001")
    result, _ = run([submits(many)], shop, "Many?", "--csv")
    assert len(result.stdout.splitlines()) == 100_001
    assert "note: the first 100000 of 100001 rows" in result.stderr


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
    (tmp_path / "schema.db").write_bytes(data)
    damaged_inside(tmp_path / "rows.db")
    damaged_inside(tmp_path / "cut.db")
    os.truncate(tmp_path / "cut.db", 8192)
    with ScriptedServer(lambda body: calls(("inspect_schema", {}))) as server:
        for name in ("schema.db", "rows.db", "cut.db"):
            result = program(tmp_path / name, "Which?", "--policy", server.url)
            assert result.returncode == 1
            assert result.stderr.startswith(f"error: {tmp_path / name}: the database is damaged")
            assert len(result.stderr.splitlines()) == 1
        assert server.requests == []


def test_violated_constraints_are_not_damage(tmp_path):
    script = """
    CREATE TABLE t (a INT); INSERT INTO t VALUES (NULL), (7);
    PRAGMA writable_schema = 1;
    UPDATE sqlite_master SET sql = 'CREATE TABLE t (a INT NOT NULL CHECK (a < 5))';
    """
    database = make_database(tmp_path / "loose.db", script)
    result, _ = run([submits("SELECT a FROM t")], database, "Which?")
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["  "], "Error: The question is empty; ask something."),
        (["Which?", "--json", "--csv"], "Choose one of --json and --csv."),
        (["Which?", "--policy", "pocket", "--model", "m"], "--model names a model of a server"),
        (["Which?", "--votes", "0"], "it must be at least 1 and at most 64, not 0."),
    ],
)
def test_wrong_usage(shop, arguments, words):
    result = program(shop, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr


def test_a_missing_policy(shop, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    result = program(shop, "Which?", "--policy", tmp_path)
    assert (result.returncode, len(result.stderr.splitlines())) == (1, 1)
    assert "it has no weights (*.safetensors)" in result.stderr
    result = program(shop, "Which?", "--policy", "/no/such/policy")
    assert (result.returncode, result.stdout) == (1, "")
    assert "There is no policy '/no/such/policy'" in result.stderr


def test_a_server_that_is_down(shop):
    result = program(shop, "Which?", "--policy", "http://127.0.0.1:9/v1")
    assert result.returncode == 5
    assert result.stderr.startswith("error: No policy server answers at http://127.0.0.1:9/v1")


def test_a_server_that_fails_while_it_answers(shop):
    result, _ = run(lambda body: fails(400, "odd"), shop, "Which?")
    assert "odd" in str(result.exception)
    assert result.exception.exit_code == 5


def test_a_model_that_the_server_does_not_have(shop):
    result, _ = run([], shop, "Which?", "--model", "other")
    assert "no model 'other'; it has: scripted" in str(result.exception)
    assert result.exception.exit_code == 1


class _Greeting(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")


def test_a_model_whose_name_would_steer_the_terminal(shop):
    with ScriptedServer([submits(QUERY)], models=["a\x1b[31m\nb"]) as server:
        result = CliRunner().invoke(cli, ["ask", str(shop), "q", "--policy", server.url])
    assert result.stderr.startswith("policy: a\\x1b[31m\\nb (")


def test_a_server_that_speaks_another_protocol(shop):
    with socketserver.TCPServer(("127.0.0.1", 0), _Greeting) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        result = program(shop, "Which?", "--policy", url)
        server.shutdown()
    assert result.returncode == 5
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"error: No policy server answers at {url}: ")


def test_an_output_that_takes_nothing(shop):
    with ScriptedServer([submits(QUERY)]) as server, open("/dev/full", "w") as full:
        result = program(shop, "Which?", "--policy", server.url, "--json", stdout=full)
    assert result.returncode == 1
    assert "error: Cannot write the output: No space left on device." in result.stderr


def champion(root: Path, **changes):
    """Write a champion's record as the promotion does; its weights are not there."""
    record = {
        "policy": str(root / "policy"),
        "revision": "0123456789abcdef",
        "training_run": "first",
        "base_revision": "b",
        "greedy": "56.5 [51.5, 61.4] n=384",
    }
    root.mkdir(exist_ok=True)
    (root / "champion.json").write_text(json.dumps(record | changes))


def test_who_answers_without_a_policy(tmp_path, monkeypatch):
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path))
    assert choose(None) == choose("pocket")
    assert "not for real questions" in choose(None).use
    assert choose("http://somewhere") == Choice("http://somewhere")
    champion(tmp_path)
    with pytest.raises(Text2SqlError, match=r"weights are not at .*champion\.json"):
        choose(None)
    (tmp_path / "policy").mkdir()
    found = choose(None)
    assert (found.spec, found.revision) == (str(tmp_path / "policy"), "0123456789abcdef")
    assert "training run first" in found.title and "56.5 [51.5" in found.use
    assert "pocket" not in found.use
    champion(tmp_path, base_revision=directory_revision(policy_directory("pocket")))
    assert "trained from the pocket policy" in choose(None).use
    (tmp_path / "champion.json").write_text('{"policy": 3}')
    with pytest.raises(Text2SqlError, match="lacks policy, revision"):
        choose(None)


def test_where_a_project_keeps_its_champion(tmp_path, monkeypatch):
    monkeypatch.delenv("TEXT2SQL_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    assert artifact_root() == Path(__file__).resolve().parents[2] / "artifacts"
    (tmp_path / "artifacts").mkdir()
    assert artifact_root() == tmp_path / "artifacts"
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "other"))
    assert artifact_root() == tmp_path / "other"


def test_the_pocket_policy_answers_without_a_server(shop, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("TEXT2SQL_ROOT", str(shop.parent))
    result = CliRunner().invoke(cli, ["ask", str(shop), "How many cities are there?", "--json"])
    assert result.exit_code in (0, 4), result.stderr
    assert json.loads(result.stdout)["policy"] == "pocket"
    assert result.stderr.startswith("policy: the pocket policy (")


def test_the_champion_answers(shop, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    champion(tmp_path / "root", policy=str(policy_directory("pocket")))
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "root"))
    result = CliRunner().invoke(cli, ["ask", str(shop), "How many cities are there?", "--csv"])
    assert result.exit_code in (0, 4), result.stderr
    assert result.stderr.startswith(f"policy: the champion of {tmp_path / 'root'}, training run")
    assert "warning: the weights differ from the promoted ones (0123456789abcdef)" in result.stderr
