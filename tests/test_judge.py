"""The judge: BIRD's equality exactly, its unsafe corners closed, verdicts and rewards."""

import hashlib
import json
import math
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from agent_databases import damaged_inside
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from text2sql.cli import main
from text2sql.commands.evaluate import command as evaluate
from text2sql.commands.sql import command as sql_command
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge import (
    REWARD,
    GoldResult,
    Verdict,
    execute_submission,
    run_gold,
    verdict_of,
)
from text2sql.questions import Question
from text2sql.sandbox import Limits, QueryResult, Sandbox, Status
from text2sql.sandbox.results import ResultDigest
from text2sql.scoring import question_id, score_predictions

TABLES = """
CREATE TABLE t (id INT, s TEXT);
INSERT INTO t VALUES (1, '1'), (2, 'b'), (2, 'b'), (3, NULL);
CREATE TABLE bad (x TEXT);
INSERT INTO bad VALUES (CAST(x'e9' AS TEXT));
"""


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(1) as shared:
        yield shared


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
    st.tuples(st.sampled_from([None, 0, 1, 1.0, -0.0, "1", "a", b"a", b"1", 2.0**53, 2**53 + 1])),
    max_size=4,
)


def digests(rows):
    digest = ResultDigest()
    for row in rows:
        digest.add(row)
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
        ("SELECT id FROM t ORDER BY 1 DESC", "SELECT id FROM t", "match", "match", "wrong"),
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


@pytest.mark.parametrize(
    "nothing", [" ", "-- cannot answer", ";", "", 0, None, [], {}, "/* x */;", "```sql\n```"]
)
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
    assert (gold.usable, gold.empty, gold.row_count) == (True, False, 4)
    assert GoldResult.from_dict(json.loads(json.dumps(gold.to_dict()))) == gold
    nothing = run_gold(Question("dev/1", "shop", database, "?", sql="SELECT 1 WHERE 0"), sandbox)
    assert nothing.usable and nothing.empty
    broken = run_gold(Question("dev/1", "shop", database, "?", sql="SELECT nope"), sandbox)
    assert not broken.usable and not broken.empty and "nope" in broken.error


# --- whole files, and the command line


def write_questions(folder, database):
    folder.mkdir(exist_ok=True)
    rows = [
        {
            "question_id": n,
            "db_id": "shop",
            "question": f"q{n}",
            "evidence": "",
            "SQL": sql,
            "difficulty": "simple" if n < 11 else "challenging",
        }
        for n, sql in [(9, "SELECT 1"), (10, "SELECT 2"), (11, "SELECT id FROM t WHERE 0")]
    ]
    (folder / "dev.json").write_text(json.dumps(rows))
    target = folder / "databases" / "shop" / "shop.sqlite"
    target.parent.mkdir(parents=True)
    target.write_bytes(database.read_bytes())
    return ["--questions", str(folder / "dev.json"), "--databases", str(folder / "databases")]


@pytest.mark.parametrize(
    "content",
    [
        '{"10": "SELECT 2\\t----- bird -----\\tshop", "9": "SELECT 3\\t----- bird -----\\tshop"}',
        '{"9": "SELECT 3", "10": "SELECT 2"}',
        '[{"question_id": 10, "sql": "SELECT 2"}, {"question_id": 9, "sql": "SELECT 3"}]',
        '{"question_id": 9, "sql": "SELECT 3"}\n{"question_id": 10, "sql": "SELECT 2"}\n',
    ],
)
def test_evaluate_pairs_by_id_in_every_format(tmp_path, database, content):
    arguments = write_questions(tmp_path, database)
    (tmp_path / "predictions.json").write_text(content)
    out = tmp_path / "out.json"
    arguments += ["--predictions", str(tmp_path / "predictions.json"), "--json", str(out)]
    result = CliRunner().invoke(evaluate, [*arguments, "--jobs", "1"])
    assert result.exit_code == 0, result.output
    found = json.loads(out.read_text())
    assert found["verdicts"] == [
        {"question_id": 9, "verdict": "wrong"},
        {"question_id": 10, "verdict": "match"},
        {"question_id": 11, "verdict": "no_submission"},
    ]
    assert (found["execution_accuracy"], found["count"]) == (1 / 3, 3)
    simple = found["by_difficulty"]["simple"]
    assert (simple["count"], simple["execution_accuracy"]) == (2, 0.5)
    assert simple["interval"] == [pytest.approx(0.0945, abs=1e-4), pytest.approx(0.9055, abs=1e-4)]
    assert found["by_database"]["shop"]["count"] == 3
    digest = hashlib.sha256((tmp_path / "dev.json").read_bytes()).hexdigest()
    assert found["questions_sha256"] == digest
    assert "missing: 1 questions" in result.output


def evaluated(tmp_path, database, content, *options):
    """Run ``text2sql evaluate`` on the three questions and these predictions."""
    arguments = write_questions(tmp_path, database)
    (tmp_path / "predictions.json").write_text(json.dumps(content))
    arguments += ["--predictions", str(tmp_path / "predictions.json"), "--jobs", "1"]
    return CliRunner().invoke(evaluate, [*arguments, *map(str, options)])


def test_evaluate_warns_of_predictions_that_are_no_text(tmp_path, database):
    result = evaluated(tmp_path, database, {"9": 5, "10": None, "11": ["SELECT 1"]})
    assert result.exit_code == 0, result.output
    assert "warning: 2 predictions are neither text nor null" in result.stderr
    assert "the first has the id 9" in result.stderr
    assert "execution accuracy 0.00% of 3" in result.stdout
    assert "neither text" not in evaluated(tmp_path / "b", database, {"9": None}).stderr


def test_evaluate_warns_of_gold_that_says_little(tmp_path, database):
    arguments = write_questions(tmp_path, database)
    text = (tmp_path / "dev.json").read_text()
    (tmp_path / "dev.json").write_text(text.replace("SELECT 1", "SELEC 1"))
    (tmp_path / "p.json").write_text('{"9": "SELECT 1"}')
    result = CliRunner().invoke(evaluate, [*arguments, "--predictions", str(tmp_path / "p.json")])
    assert result.exit_code == 0, result.output
    assert "the gold SQL of 1 questions does not run" in result.stderr
    assert 'dev/9: near "SELEC": syntax error' in result.stderr
    assert "the gold SQL of 1 questions returns no row" in result.stderr


def test_evaluate_counts_what_could_not_be_judged_apart(tmp_path, database):
    arguments = write_questions(tmp_path, database)
    rows = json.loads((tmp_path / "dev.json").read_text())
    rows.append(rows[0] | {"question_id": 12, "db_id": "busy"})
    (tmp_path / "dev.json").write_text(json.dumps(rows))
    busy = tmp_path / "databases" / "busy" / "busy.sqlite"
    busy.parent.mkdir()
    busy.write_bytes(database.read_bytes())
    (tmp_path / "p.json").write_text('{"9": "SELECT 1", "10": "SELECT 1", "12": "SELECT 1"}')
    holder = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    holder += "c.execute('BEGIN EXCLUSIVE'); print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", holder, str(busy)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        out = tmp_path / "out.json"
        arguments += ["--predictions", str(tmp_path / "p.json"), "--json", str(out), "--no-cache"]
        result = CliRunner().invoke(evaluate, arguments)
        other.stdin.close()
    assert result.exception.exit_code == 6
    assert "1 of 4 questions could not be judged" in str(result.exception)
    assert "locked" in str(result.exception)
    assert "execution accuracy 33.33% of 3 judged" in result.stdout
    found = json.loads(out.read_text())
    assert (found["count"], found["judged"]) == (4, 3)
    nothing = {"execution_accuracy": None, "count": 1, "judged": 0, "interval": [0.0, 1.0]}
    assert found["by_database"]["busy"] == nothing


@pytest.mark.parametrize("content", [{"77": "SELECT 1"}, {"dev/1": "SELECT 1", "x": "SELECT 2"}])
def test_evaluate_refuses_the_predictions_of_other_questions(tmp_path, database, content):
    result = evaluated(tmp_path, database, content)
    assert isinstance(result.exception, Text2SqlError) and result.exception.exit_code == 1
    assert "is one of the 3 questions" in str(result.exception)
    assert result.stdout == ""


def test_evaluate_refuses_predictions_nested_beyond_reading(tmp_path, database):
    arguments = write_questions(tmp_path, database)
    (tmp_path / "deep.json").write_text("[" * 100_000)
    result = CliRunner().invoke(
        evaluate, [*arguments, "--predictions", str(tmp_path / "deep.json")]
    )
    assert isinstance(result.exception, Text2SqlError)
    assert "neither JSON nor JSON Lines" in str(result.exception)


def test_nothing_in_evaluates_files_steers_the_terminal(tmp_path, database):
    red = "\x1b[31m"
    arguments = write_questions(tmp_path, database)
    rows = json.loads((tmp_path / "dev.json").read_text())
    (tmp_path / "dev.json").write_text(json.dumps([r | {"difficulty": red} for r in rows]))
    (tmp_path / "p.json").write_text(json.dumps({"9": "SELECT 3", red: 5}))
    result = CliRunner().invoke(evaluate, [*arguments, "--predictions", str(tmp_path / "p.json")])
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output and "\\x1b[31m" in result.stdout


def test_evaluate_finds_an_unwritable_output_before_the_work(tmp_path, database):
    taken = tmp_path / "file"
    taken.write_text("kept")
    places = (tmp_path, tmp_path / "no" / "out.json", taken / "out.json", Path("/dev/null"))
    for number, out in enumerate(places):
        result = evaluated(tmp_path / str(number), database, {"9": "SELECT 1"}, "--json", out)
        assert f"Cannot write {out}: " in str(result.exception)
        assert result.stdout == ""
    assert taken.read_text() == "kept"
    result = evaluated(tmp_path / "last", database, {"9": "SELECT 1"}, "--json", taken)
    assert json.loads(taken.read_text())["count"] == 3
    assert not list(tmp_path.glob(".file*"))


@pytest.mark.parametrize(
    ("statement", "code", "words"),
    [
        ("SELECT id FROM t", 0, "4 rows"),
        ("DROP TABLE t", 3, "refused: DROP would change the database"),
        ("SELECT nope FROM t", 4, "error: no such column: nope"),
        ("", 4, "error: there is no SQL statement to run"),
        ("SELECT :id", 4, "error: the statement has a parameter"),
        ("SELECT 1; SELECT 2", 4, "one statement"),
        ("SELECT zeroblob(2000000000)", 5, "error"),
    ],
)
def test_sql_command_says_how_it_ended(database, statement, code, words):
    shown = CliRunner().invoke(sql_command, [str(database), statement])
    assert (shown.exit_code, words in shown.output) == (code, True), shown.output
    plain = CliRunner().invoke(sql_command, [str(database), statement, "--json"])
    assert plain.exit_code == code
    found = json.loads(plain.output)
    assert (found["status"] == "ok") == (code == 0)
    assert bool(found["error"]) == (code != 0)


def test_sql_command_counts_the_same_rows_in_both_forms(database):
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)"
    statement = f"{numbers} SELECT hex(zeroblob(50000)) FROM n"  # 60 MB; run_sql reads 20
    shown = CliRunner().invoke(sql_command, [str(database), statement]).stdout
    plain = json.loads(CliRunner().invoke(sql_command, [str(database), statement, "--json"]).stdout)
    assert f"of more than {plain['row_count']} rows shown" in shown
    assert not plain["complete"]


def test_sql_command_writes_valid_json_for_every_value(database):
    sql = "SELECT 9e999, -9e999, 1e308, x'00ff', NULL, 9e999 - 9e999, 'é'"
    shown = CliRunner().invoke(sql_command, [str(database), sql, "--json"])
    (row,) = json.loads(shown.stdout, parse_constant=pytest.fail)["rows"]
    assert row == ["Infinity", "-Infinity", 1e308, {"blob": "00ff"}, None, None, "é"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_sql_command_tells_damage_in_one_sentence(tmp_path, options):
    database = damaged_inside(tmp_path / "shop.db")
    shown = CliRunner().invoke(sql_command, [str(database), "SELECT sum(a) FROM t", *options])
    assert isinstance(shown.exception, InfrastructureError)
    assert str(shown.exception) == (
        f"{database}: the database is damaged; get a fresh copy (database disk image is malformed)."
    )


def test_sql_command_writes_what_the_terminal_cannot_show_as_escapes(database):
    command = [sys.executable, "-m", "text2sql", "sql", str(database), "SELECT 'é日'"]
    latin = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, env=latin, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "é\\u65e5".encode("latin-1") in done.stdout


def test_the_command_line_writes_no_escape_sequence_of_a_database(tmp_path, monkeypatch, capsys):
    database = tmp_path / "hostile.db"
    with sqlite3.connect(database) as connection:
        connection.executescript(
            "CREATE TABLE t (a); PRAGMA writable_schema = 1; INSERT INTO sqlite_master VALUES "
            "('table', '\x1b]0;x\x07\x9b2J', 't', 9, 'CREATE TABLE x (');"
        )
    connection.close()
    monkeypatch.setattr("sys.argv", ["text2sql", "sql", str(database), "SELECT 1"])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: {database}: the database is damaged")
    assert "\\x1b]0;x\\x07\\x9b2J" in shown and shown.strip().isprintable()


@pytest.mark.parametrize(
    ("key", "identity"),
    [("dev/0", 0), ("17", 17), ("dev/007", "007"), ("dev/²", "²"), ("9" * 5000, "9" * 5000)],
)
def test_question_id_is_a_number_only_where_it_is_written_like_one(key, identity):
    assert question_id(Question(key, "shop", Path("shop.sqlite"), "?")) == identity


def test_sql_command_lists_its_exit_statuses():
    shown = CliRunner().invoke(sql_command, ["--help"]).stdout
    assert [line.split()[0] for line in shown.splitlines() if line[4:5].isdigit()] == list(
        "0123456"
    )


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
