"""``text2sql answers`` on answers that were really given."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.reporting.answering_place import COUNT, DAY, NEXT, Place, box, place
from tests.support.scripted_server import submits
from text2sql.cli.main import cli
from text2sql.errors import Text2SqlError
from text2sql.reporting.tables.location import URL_VARIABLE

__all__ = ["box", "place"]


def run(place: Place, *arguments: object) -> tuple[int, str]:
    """Run a command on the place's reporting tables; return its exit status and output."""
    url = ["--reporting", f"sqlite:///{place.folder / 'reporting.sqlite'}"]
    result = CliRunner().invoke(cli, ["answers", *map(str, arguments), *url])
    if isinstance(result.exception, Text2SqlError):
        raise result.exception
    return result.exit_code, result.output


def replayed(place: Place, number: int) -> tuple[int, dict]:
    code, output = run(place, "replay", number, "--json")
    return code, json.loads(output)


# -- list and show


def test_answers_are_listed_the_latest_first(place):
    good, unsure = place.question("good", COUNT), place.question("unsure", *"1234")
    for number in range(4):
        place.replies.steps["ask unsure"][number] = submits(f"SELECT {number}")
    place.answer(good, unsure)
    place.answer(good, day=NEXT)
    _, text = run(place, "list")
    lines = text.splitlines()
    assert "2026-03-03 00:00Z" in lines[2] and "same" in lines[2]
    assert "low_agreement" in lines[4] and "1 of 4" in lines[4]
    _, text = run(place, "list", "--day", DAY, "--json")
    found = [json.loads(line) for line in text.splitlines()]
    assert [one["question_id"] for one in found] == ["good", "unsure"]
    assert found[0]["scheduled_at"] == "2026-03-02T00:00:00+00:00"
    _, text = run(place, "list", "--status", "low_agreement", "--json")
    assert [json.loads(line)["question_id"] for line in text.splitlines()] == ["unsure"]
    assert run(place, "list", "--day", "2025-01-01") == (0, "no answers\n")


def test_a_day_is_that_of_the_questions_time_zone(place):
    tokyo = place.question("tokyo", COUNT, timezone="Asia/Tokyo")
    place.answer(tokyo)
    assert "2026-03-01 15:00Z" in run(place, "list", "--day", DAY)[1]
    assert run(place, "list", "--day", "2026-03-01") == (0, "no answers\n")


def test_the_audit_row_has_all_that_a_replay_needs(place):
    question = place.question("q", COUNT, "SELECT 8", COUNT, COUNT, evidence="all of them",
                              verified_sql=COUNT)  # fmt: skip
    [answer] = place.answer(question)
    audit = json.loads(run(place, "show", answer.id, "--json")[1])
    for name in ("question", "evidence", "database", "database_fingerprint", "policy_revision",
                 "prompt_revision", "sampling", "sql", "digest", "dagster_run_id",
                 "prompt_tokens", "completion_tokens", "seconds", "verified_sql"):  # fmt: skip
        assert audit[name], name
    assert (audit["verified"], audit["share"], audit["rows"]) == ("match", 0.75, [{"shops": 3}])
    votes = [(one["sql"], one["voted"], one["chosen"]) for one in audit["candidates"]]
    assert sorted(votes) == [("SELECT 8", True, False)] + [(COUNT, True, True)] * 3
    assert all(one["digest"] for one in audit["candidates"])
    _, text = run(place, "show", answer.id)
    for words in ("equals the verified SQL", "3 of 4 candidates agree", "chosen, ok, 1 row,", COUNT,
                  answer.database_fingerprint, "Dagster run", " top_p 1.0, "):  # fmt: skip
        assert words in text


def test_a_refused_answer_shows_the_reason_and_the_candidates(place):
    [answer] = place.answer(place.question("q", COUNT, verified_sql="SELECT 4"))
    _, text = run(place, "show", answer.id)
    assert "Not answered, the candidates' result is refuted: it differs from the verified" in text
    assert COUNT in text


def test_data_cannot_steer_the_terminal(place):
    place.change("UPDATE shop SET city = char(27) || '[2Jgone' WHERE id = 1")
    [answer] = place.answer(place.question("q", "SELECT city FROM shop WHERE id = 1"))
    _, text = run(place, "show", answer.id)
    assert "\x1b" not in text
    assert "\\x1b[2Jgone" in text


# -- replay


def test_a_replay_on_the_same_data_gives_the_same(place):
    [answer] = place.answer(place.question("q", COUNT))
    code, found = replayed(place, answer.id)
    assert (code, found["reproduced"]) == (0, True)
    assert (found["data_changed"], found["result_changed"], found["sql_changed"]) == (False,) * 3
    assert (found["candidates_run"], found["candidates_changed"], found["votes_now"]) == (4, 0, 4)
    assert "result      the same rows" in run(place, "replay", answer.id)[1]


def test_a_replay_detects_changed_data(place):
    [answer] = place.answer(place.question("q", "SELECT city, id FROM shop WHERE city > ''"))
    place.change("UPDATE shop SET id = 7 WHERE city = 'Bonn'")
    place.change("INSERT INTO shop VALUES (8, 'Rome')")
    code, found = replayed(place, answer.id)
    assert (code, found["data_changed"], found["result_changed"]) == (3, True, True)
    assert found["rows"]["added"] == [{"city": "Rome", "id": 8}]
    was, now = {"city": "Bonn", "id": 2}, {"city": "Bonn", "id": 7}
    assert found["rows"]["changed"] == [{"was": was, "is": now}]
    assert found["candidates_changed"] == 4
    _, text = run(place, "replay", answer.id)
    assert "data        changed since" in text
    assert "result      changed: " in text


def test_a_replay_detects_changed_sql(place):
    question = place.question("q", COUNT)
    [answer] = place.answer(question)
    place.replies.steps["ask q"] = [submits("SELECT max(id) AS shops FROM shop")]
    [later] = place.answer(question, day=NEXT)
    code, found = replayed(place, answer.id)
    assert (code, found["sql_changed"], found["data_changed"]) == (0, True, False)
    assert (found["latest_answer"], found["latest_sql"]) == (later.id, later.sql)
    assert "is now answered by different SQL" in run(place, "replay", answer.id)[1]


def test_a_replay_detects_sql_that_is_not_repeatable(place):
    [answer] = place.answer(place.question("q", COUNT))
    changed = "SELECT random() AS shops"
    with place.store.writing() as connection:
        connection.exec_driver_sql(f"UPDATE answers SET sql = '{changed}'")
    _, text = run(place, "replay", answer.id)
    assert "the data did not change, so it is not repeatable" in text


def test_a_replay_detects_sql_that_no_longer_runs(place):
    [answer] = place.answer(place.question("q", "SELECT count(city) FROM shop"))
    place.change("ALTER TABLE shop RENAME COLUMN city TO town")
    code, text = run(place, "replay", answer.id)
    assert code == 3
    assert "no longer runs: no such column: city" in text


def test_a_replay_compares_with_the_current_verified_sql(place):
    [answer] = place.answer(place.question("q", COUNT))
    assert replayed(place, answer.id)[1]["verified_now"] is None
    place.question("q", COUNT, verified_sql="SELECT count(id) FROM shop")
    code, found = replayed(place, answer.id)
    assert (code, found["verified_now"], found["refuted"]) == (0, "match", False)
    place.question("q", COUNT, verified_sql="SELECT count(city) FROM shop")
    code, text = run(place, "replay", answer.id)
    assert code == 3
    assert "verified    differs from the verified SQL's result now" in text
    assert text.splitlines()[-1].startswith(
        "Everything came out as before, but the verified SQL now refutes what was published"
    )
    assert text.count("(exit status 3)") == 1
    place.question("q", COUNT, verified_sql="SELECT gone FROM shop")
    code, found = replayed(place, answer.id)
    assert (code, found["verified_now"], found["refuted"]) == (0, "error", False)
    place.question("q", COUNT, verified_sql="SELECT count(city) FROM shop")
    place.change("DELETE FROM shop WHERE id = 1")
    _, text = run(place, "replay", answer.id)
    assert "\nSomething came out differently, and the verified SQL now refutes" in text


def test_a_replay_runs_read_only(place):
    [answer] = place.answer(place.question("q", COUNT))
    before = place.database.read_bytes()
    with place.store.writing() as connection:
        connection.exec_driver_sql("UPDATE answers SET sql = 'DELETE FROM shop'")
        connection.exec_driver_sql("UPDATE candidates SET sql = 'DROP TABLE shop'")
    assert run(place, "replay", answer.id)[0] == 3
    assert place.database.read_bytes() == before


def test_the_candidates_of_a_refused_answer_are_replayed(place):
    [answer] = place.answer(place.question("q", "SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4"))
    code, found = replayed(place, answer.id)
    assert (code, found["candidates_run"], found["result_changed"]) == (0, 4, False)
    assert "result      none was published" in run(place, "replay", answer.id)[1]


def test_a_replay_without_answer_or_database_is_refused(place):
    [answer] = place.answer(place.question("q", COUNT))
    for number in (99, 0, 2**80):
        with pytest.raises(Text2SqlError, match=f"No answer {number} "):
            run(place, "replay", number)
    place.database.unlink()
    with pytest.raises(Text2SqlError, match="There is no database"):
        run(place, "replay", answer.id)


NONSENSE = [
    ("answers", "share = 'half'", "answer 1 (q) is invalid: share is 'half'"),
    ("answers", "row_count = 'x'", "answer 1 (q) is invalid: row_count is 'x'"),
    ("answers", "sql = x'ff'", "answer 1 (q) is invalid: sql is b'\\xff'"),
    ("answer_rows", "cells = '{}'", "a row of answer 1 (q) is invalid: cells has no shops"),
    ("answer_rows", "cells = '[1]'", "a row of answer 1 (q) is invalid: cells and marks must"),
    ("answer_rows", "cells = 'x'", "a row of answer 1 (q) is invalid: Expecting value"),
    ("answer_rows", """cells = '{"shops": [1]}'""", "is invalid: the cell shops must be text"),
    ("answer_rows", """marks = '{"shops": "blob"}'""", "a row of answer 1 (q) is invalid"),
    ("candidates", "row_count = 'x'", "a candidate of answer 1 (q) is invalid: row_count is"),
    ("answers", "share = 9e999", "answer 1 (q) is invalid: share is inf"),
    ("answers", "question_id = x'71'", "answer 1 (b'q') is invalid: question_id is b'q'"),
    ("answers", "question_id = '/../q'", "is invalid: question_id is '/../q'"),
    ("answers", """columns = '[{"name": 1, "label": 1, "type": 1}]'""", "a column is {'name': 1"),
]


@pytest.mark.parametrize(("table", "change", "message"), NONSENSE)
def test_invalid_rows_are_named(place, table, change, message):
    place.answer(place.question("q", COUNT))
    with closing(sqlite3.connect(place.folder / "reporting.sqlite")) as connection, connection:
        connection.execute(f"UPDATE {table} SET {change}")
    with pytest.raises(Text2SqlError, match=re.escape(message)):
        run(place, "show", 1)


def test_a_replay_names_invalid_verified_sql(place):
    place.answer(place.question("q", COUNT))
    with closing(sqlite3.connect(place.folder / "reporting.sqlite")) as connection, connection:
        connection.execute("UPDATE questions SET verified_sql = x'ff'")
    with pytest.raises(Text2SqlError, match="Question 'q': verified_sql must be text"):
        run(place, "replay", 1)


# -- export

HOSTILE = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "=cmd|'/C calc'!A0"]


def cells(place: Place) -> str:
    texts = " UNION ALL ".join(
        f"SELECT {i} AS n, {-i}.5 AS x, cast(x'{text.encode().hex()}' AS TEXT) AS t"
        for i, text in enumerate([*HOSTILE, "a;=b", 'say "hi"', "fine"])
    )
    return f"{texts} UNION ALL SELECT 99, NULL, NULL"


def test_csv_is_safe_in_a_spreadsheet_and_numbers_stay_numbers(place, tmp_path):
    place.answer(place.question("q", cells(place)))
    _, text = run(place, "export", "--day", DAY, "--to", tmp_path / "out")
    files = [Path(line) for line in text.splitlines()]
    assert [file.name for file in files] == ["answers.csv", "answer_q.csv"]
    raw = files[1].read_bytes().decode()
    assert '1,-1.5,"\'+1"' in raw
    rows = list(csv.DictReader(files[1].open(newline="")))
    shown = [row["t"] for row in rows]
    assert shown == [f"'{text}" for text in HOSTILE] + ["a;=b", 'say "hi"', "fine", ""]
    assert '"a;=b"' in raw  # quoted: a spreadsheet that divides at ; keeps it whole


def test_the_overview_lists_refused_answers(place, tmp_path):
    bad = place.question("bad", "SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4",
                         question="=HYPERLINK(1)")  # fmt: skip
    place.answer(place.question("q", COUNT), bad)
    run(place, "export", "--day", DAY, "--to", tmp_path)
    rows = list(csv.DictReader((tmp_path / "answers.csv").open(newline="")))
    assert [(row["question_id"], row["status"], row["share"]) for row in rows] == [
        ("bad", "low_agreement", "0.25"),
        ("q", "answered", "1.0"),
    ]
    assert rows[0]["question"] == "'=HYPERLINK(1)"
    assert not (tmp_path / "answer_bad.csv").exists()


def test_an_export_says_which_rows_are_missing(place, tmp_path):
    place.answerer = replace(place.answerer, keep_rows=2)
    place.answer(place.question("q", "SELECT id FROM shop"), place.question("one", COUNT))
    _, text = run(place, "export", "--day", DAY, "--to", tmp_path)
    assert "note: q: only the first 2 of 3 rows are stored" in text
    assert "note: one" not in text
    rows = list(csv.DictReader((tmp_path / "answers.csv").open(newline="")))
    kept = [(row["question_id"], row["row_count"], row["rows_kept"]) for row in rows]
    assert kept == [("one", "1", "1"), ("q", "3", "2")]


def test_parquet_keeps_types_and_text_as_they_are(place, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    big = 2**62
    place.answer(
        place.question("q", f"SELECT {big} AS n, 1.5 AS x, '=1' AS t, x'00ff' AS b, NULL AS e"
                            " UNION ALL SELECT 1, 2, 'b', NULL, NULL ORDER BY n DESC")
    )  # fmt: skip
    run(place, "export", "--day", DAY, "--to", tmp_path, "--format", "parquet")
    table = parquet.read_table(tmp_path / "answer_q.parquet")
    assert table.to_pylist()[0] == {"n": big, "x": 1.5, "t": "=1", "b": b"\x00\xff", "e": None}
    assert [str(field.type) for field in table.schema] == [
        "int64", "double", "string", "binary", "string"
    ]  # fmt: skip
    assert parquet.read_table(tmp_path / "answers.parquet").num_rows == 1


def test_parquet_without_pyarrow_is_one_sentence(place, tmp_path, monkeypatch):
    place.answer(place.question("q", COUNT))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(Text2SqlError, match=r"Parquet needs pyarrow.*\[pipelines\], or use CSV"):
        run(place, "export", "--day", DAY, "--to", tmp_path / "out", "--format", "parquet")
    assert not (tmp_path / "out").exists()


def test_a_day_without_answers_and_a_place_that_cannot_be_written_are_named(place, tmp_path):
    with pytest.raises(Text2SqlError, match="No answers for 2026-03-02"):
        run(place, "export", "--day", DAY, "--to", tmp_path)
    place.answer(place.question("q", COUNT))
    (tmp_path / "file").write_text("")
    with pytest.raises(Text2SqlError, match=r"Cannot write .*answers"):
        run(place, "export", "--day", DAY, "--to", tmp_path / "file" / "below")


# -- the command itself


def test_without_tables_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv(URL_VARIABLE, f"sqlite:///{tmp_path / 'none.sqlite'}")
    result = CliRunner().invoke(cli, ["answers", "list"])
    assert "no scheduled questions yet" in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_help_imports_no_tables():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "from text2sql.cli.main import main; main()",
         "answers", "--help"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "replay" in done.stdout
    assert "sqlalchemy" not in done.stderr


def test_the_commands_of_the_documentation_work(place, monkeypatch):
    monkeypatch.chdir(place.folder)
    place.answer(place.question("q", COUNT))
    text = (Path(__file__).parents[2] / "docs" / "trust.md").read_text()
    commands = [line.split()[2:] for line in text.splitlines() if line.startswith("text2sql ")]
    assert len(commands) == 4
    for command in commands:
        code, output = run(place, *command)
        assert (code, bool(output.strip())) == (0, True), command
    assert (place.folder / "exported" / "answer_q.csv").is_file()
