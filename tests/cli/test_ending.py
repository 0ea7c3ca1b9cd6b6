"""How the program ends, seen from outside: statuses, messages, pipes, interrupts, ``--verbose``."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.privileges import without_privileges
from tests.support.scripted_server import ScriptedServer, fails, says, submits

COMMAND = [sys.executable, "-m", "text2sql"]
QUERY = "SELECT a FROM t WHERE a < 3"


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A database, in an empty folder with a root and cache of its own."""
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TEXT2SQL_REPORTING_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("shop.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE t (a)")
        connection.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(100)])
    return tmp_path


def text2sql(*words: str, **options) -> subprocess.CompletedProcess[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run([*COMMAND, *words], text=True, timeout=60, check=False, **pipes)


# -- statuses


def statuses_of_sql() -> dict[str, int]:
    return {
        QUERY: 0,
        "DELETE FROM t": 3,
        "SELECT nope FROM t": 4,
        "/* nothing */": 4,
        "SELECT hex(zeroblob(9000000)) FROM t a, t b, t c": 5,
    }


def test_the_statuses_of_sql(shop):
    found = {sql: text2sql("sql", "shop.sqlite", sql).returncode for sql in statuses_of_sql()}
    assert found == statuses_of_sql()
    (shop / "text.sqlite").write_text("no database " * 100)
    assert text2sql("sql", "text.sqlite", QUERY).returncode == 1
    with closing(sqlite3.connect("shop.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert text2sql("sql", "shop.sqlite", QUERY).returncode == 6


@pytest.mark.parametrize(
    ("script", "votes", "status"),
    [
        ([submits(QUERY)], 1, 0),
        ([submits("SELECT 1"), submits("SELECT 2")], 2, 3),
        ([says("No."), says("No.")], 1, 4),
        ([fails(401)], 1, 1),
    ],
)
def test_the_statuses_of_ask(shop, script, votes, status):
    with ScriptedServer(script) as server:
        words = ("--policy", server.url, "--votes", str(votes))
        done = text2sql("ask", "shop.sqlite", "Which?", *words)
    assert done.returncode == status, done.stderr


def test_an_unreachable_server_has_a_status_of_its_own(shop):
    done = text2sql("ask", "shop.sqlite", "Which?", "--policy", "http://127.0.0.1:9/v1")
    assert done.returncode == 5
    assert done.stderr.startswith("error: No policy server answers at http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["sql", "nowhere.sqlite", "SELECT 1"], 1, "error: There is no database"),
        (
            ["sql", "postgresql://u@h/x", "SELECT 1"],
            1,
            "error: A database must be the path of a SQLite file",
        ),
        (["bogus"], 2, "No such command 'bogus'"),
        (["anwsers", "list"], 2, "No such command 'anwsers'. Did you mean 'answers'?"),
        (["qwxyz"], 2, "No such command 'qwxyz'."),
        (["sql"], 2, "Missing argument"),
        (["ask", "shop.sqlite", " "], 2, "Error: The question is empty"),
        (["answers", "list"], 1, "error: There are no scheduled questions yet"),
        (["reporting", "status", "--reporting", "postgresql://u@127.0.0.1:9/x"], 6, "error: "),
        (["compare", "a", "b"], 1, "error: "),
        (["report", "nobody"], 1, "error: "),
    ],
)
def test_a_failure_is_one_sentence_on_standard_error(shop, words, status, sentence):
    done = text2sql(*words)
    assert (done.returncode, done.stdout) == (status, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.lower().startswith("error: ")]
    assert len(errors) == 1


def test_the_statuses_of_reporting(shop):
    add = ("questions", "add", "q", "--question", "?", "--database", "shop.sqlite")
    assert text2sql(*add).returncode == 0
    assert text2sql("reporting", "status").returncode == 0
    with closing(sqlite3.connect("root/reporting.sqlite")) as connection, connection:
        connection.execute("UPDATE reporting_version SET version_num = '0001'")
    assert text2sql("reporting", "status").returncode == 3


def test_a_bug_is_reported_as_one(shop):
    broken = "import text2sql.sandbox.files as f; f.check_database = lambda path: 1 / 0; "
    broken += "import text2sql.sandbox as s; s.check_database = f.check_database; "
    run = f"import sys; {broken} from text2sql.cli.main import main; main()"
    command = [sys.executable, "-c", run, "sql", "shop.sqlite", QUERY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 70
    assert done.stderr.startswith("error: unexpected ZeroDivisionError: division by zero.")
    assert "a bug in text2sql" in done.stderr
    assert "Traceback" not in done.stderr


# -- pipes and interrupts


@pytest.mark.parametrize("words", [("sql", "shop.sqlite", "SELECT * FROM t"), ("--help",)])
def test_a_closed_pipe_ends_it_quietly(shop, words):
    reading, writing = os.pipe()
    os.close(reading)
    done = text2sql(*words, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-", "> /dev/full"])
@pytest.mark.parametrize("words", [f'sql shop.sqlite "{QUERY}"', "--help"])
def test_an_output_that_cannot_be_written_is_an_error(shop, closed, words):
    script = f'"$0" -m text2sql {words} {closed}'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert len(lines) == ("2>&-" not in closed)
    assert all(line.startswith("error: Cannot write the output: ") for line in lines)


@pytest.mark.skipif(sys.platform != "linux", reason="drops privileges as Linux does")
@pytest.mark.parametrize(
    "words",
    [
        ("sql", "secret", QUERY),
        ("ask", "secret", "Which?"),
        ("questions", "import", "secret"),
        ("compare", "secret", "secret"),
        ("evaluate", "--questions", "secret", "--databases", ".", "--predictions", "secret"),
        ("train", "new", "--config", "secret"),
        ("train", "new", "--config", "nowhere"),
    ],
)
def test_an_unreadable_file_is_an_error_that_names_it(shop, words):
    (shop / "secret").write_text("x: [")
    (shop / "secret").chmod(0)
    done = text2sql(*words, preexec_fn=without_privileges)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ") and "Traceback" not in done.stderr
    assert "secret" in done.stderr or "nowhere" in done.stderr


def test_a_result_file_is_written_even_if_the_output_pipe_is_closed(shop):
    question = {"question_id": 0, "db_id": "shop", "question": "?", "SQL": QUERY}
    (shop / "dev.json").write_text(json.dumps([question]))
    (shop / "predicted.json").write_text(json.dumps({"0": QUERY}))
    reading, writing = os.pipe()
    os.close(reading)
    files = ("--questions", "dev.json", "--databases", ".", "--predictions", "predicted.json")
    done = text2sql("evaluate", *files, "--json", "scores.json", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")
    assert json.loads((shop / "scores.json").read_text())["execution_accuracy"] == 1.0


def test_a_closed_pipe_after_an_answer(shop):
    reading, writing = os.pipe()
    os.close(reading)
    with ScriptedServer([submits(QUERY)]) as server:
        done = text2sql("ask", "shop.sqlite", "Which?", "--policy", server.url, stdout=writing)
    os.close(writing)
    assert done.returncode == 141
    assert [line[:8] for line in done.stderr.splitlines()] == ["policy: "]


def test_ctrl_c_ends_it_quietly(shop):
    slow = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
    with subprocess.Popen(
        [*COMMAND, "sql", "shop.sqlite", slow], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        _await_worker(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")


def test_ctrl_c_while_it_loads_ends_it_quietly(tmp_path):
    (tmp_path / "click.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)")
    named = os.environ | {"PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(
        [*COMMAND, "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=named
    ) as process:
        assert process.stdout.readline() == b"loading\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (-signal.SIGINT, b"", b"")


def _await_worker(pid: int) -> None:
    """Wait until the program has a worker process that uses processor time."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        for child in " ".join(task.read_text() for task in tasks).split():
            stat = Path(f"/proc/{child}/stat").read_text()
            if int(stat.rpartition(")")[2].split()[11]) > 20:
                return
        time.sleep(0.05)
    raise AssertionError("no worker ran")


# -- what else is written


def test_verbose_shows_every_attempt_and_the_traceback(shop):
    with ScriptedServer([fails(503), submits(QUERY)]) as server:
        done = text2sql(
            "--verbose", "ask", "shop.sqlite", "Which?", "--policy", server.url, "--json"
        )
    assert done.returncode == 0
    assert json.loads(done.stdout)["row_count"] == 3
    assert f"asking {server.url}/models" in done.stderr
    assert "try 1: " in done.stderr
    done = text2sql("--verbose", "sql", "nowhere.sqlite", QUERY)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: There is no database")


def test_without_verbose_only_the_result_is_written(shop):
    done = text2sql("sql", "shop.sqlite", QUERY)
    assert (done.stdout, done.stderr) == ("a\n0\n1\n2\n(3 rows)\n", "")


def test_piped_output_has_no_control_characters(shop):
    environment = os.environ | {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    for words in (("--help",), ("sql", "shop.sqlite", "SELECT char(27) || '[31m'"), ("doctor",)):
        done = text2sql(*words, env=environment)
        assert "\x1b" not in done.stdout + done.stderr
