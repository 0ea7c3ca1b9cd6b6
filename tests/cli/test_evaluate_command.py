"""``text2sql evaluate``: predictions paired with questions, what is reported, and the JSON."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.agent_databases import make_database
from text2sql.cli.commands.evaluate import command as evaluate
from text2sql.errors import Text2SqlError


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    return make_database(folder / "shop.sqlite", "CREATE TABLE t (id INT)")


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
    assert "missing: 1 question has no" in result.output


def evaluated(tmp_path, database, content, *options):
    """Run ``text2sql evaluate`` on the three questions and these predictions."""
    arguments = write_questions(tmp_path, database)
    (tmp_path / "predictions.json").write_text(json.dumps(content))
    arguments += ["--predictions", str(tmp_path / "predictions.json"), "--jobs", "1"]
    return CliRunner().invoke(evaluate, [*arguments, *map(str, options)])


def test_evaluate_warns_of_predictions_that_are_not_text(tmp_path, database):
    result = evaluated(tmp_path, database, {"9": 5, "10": None, "11": ["SELECT 1"]})
    assert result.exit_code == 0, result.output
    assert "warning: 2 predictions are neither text nor null" in result.stderr
    assert "the first is id 9" in result.stderr
    assert "execution accuracy 0.00% of 3" in result.stdout
    assert "neither text" not in evaluated(tmp_path / "b", database, {"9": None}).stderr


def test_evaluate_warns_of_failing_and_empty_gold(tmp_path, database):
    arguments = write_questions(tmp_path, database)
    text = (tmp_path / "dev.json").read_text()
    (tmp_path / "dev.json").write_text(text.replace("SELECT 1", "SELEC 1"))
    (tmp_path / "p.json").write_text('{"9": "SELECT 1"}')
    result = CliRunner().invoke(evaluate, [*arguments, "--predictions", str(tmp_path / "p.json")])
    assert result.exit_code == 0, result.output
    assert "the gold SQL of 1 question does not run" in result.stderr
    assert 'dev/9: near "SELEC": syntax error' in result.stderr
    assert "the gold SQL of 1 question returns no row" in result.stderr


def test_questions_that_could_not_be_judged_are_counted_separately(tmp_path, database):
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
    assert "leaves out 1 of 4 questions that could not be judged" in str(result.exception)
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
    assert "the 3 questions with 'dev/9'; give predictions for these" in str(result.exception)
    assert result.stdout == ""


def test_evaluate_refuses_predictions_nested_beyond_reading(tmp_path, database):
    arguments = write_questions(tmp_path, database)
    (tmp_path / "deep.json").write_text("[" * 100_000)
    result = CliRunner().invoke(
        evaluate, [*arguments, "--predictions", str(tmp_path / "deep.json")]
    )
    assert isinstance(result.exception, Text2SqlError)
    assert "neither JSON nor JSON Lines" in str(result.exception)


def test_control_characters_of_files_are_escaped(tmp_path, database):
    red = "\x1b[31m"
    arguments = write_questions(tmp_path, database)
    rows = json.loads((tmp_path / "dev.json").read_text())
    (tmp_path / "dev.json").write_text(json.dumps([r | {"difficulty": red} for r in rows]))
    (tmp_path / "p.json").write_text(json.dumps({"9": "SELECT 3", red: 5}))
    result = CliRunner().invoke(evaluate, [*arguments, "--predictions", str(tmp_path / "p.json")])
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output and "\\x1b[31m" in result.stdout


def test_evaluate_suggests_the_folder_of_the_databases(tmp_path, database):
    files = write_questions(tmp_path, database)
    files[3] = str(tmp_path)
    found = CliRunner().invoke(evaluate, [*files, "--predictions", str(tmp_path / "p.json")])
    assert f"the file names shop, and {tmp_path / 'databases'} has shop: give that" in str(
        found.exception
    )
    (tmp_path / "dev.json").write_text("[]")
    found = CliRunner().invoke(evaluate, [*files, "--predictions", str(tmp_path / "p.json")])
    assert "dev.json has no questions." in str(found.exception) and found.exit_code == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--json", "predictions.json"),
        ("--json", "dev.json"),
        ("--export", "predictions.json"),
        ("--json", "databases/shop/shop.sqlite"),
        ("--export", "new.json", "--json", "new.json"),
    ],
)
def test_evaluate_never_replaces_what_it_reads(tmp_path, database, options):
    places = [one if one.startswith("--") else tmp_path / one for one in options]
    result = evaluated(tmp_path, database, {"9": "SELECT 1"}, *places)
    assert result.exit_code == 1
    assert re.search(r"would be (replaced; write to another|written twice)", str(result.exception))
    assert json.loads((tmp_path / "predictions.json").read_text()) == {"9": "SELECT 1"}
    assert (tmp_path / "databases" / "shop" / "shop.sqlite").read_bytes() == database.read_bytes()
    assert not (tmp_path / "new.json").exists()


def test_evaluate_checks_its_outputs_before_the_work(tmp_path, database):
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
