"""Predictions as people have them: without ids, beside gold, from pandas, of another file."""

import gzip
import json
import re
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from text2sql.cli.commands.evaluate import command
from text2sql.datasets.reading.questions import Reason
from text2sql.errors import Text2SqlError

GOLD = ["SELECT COUNT(*) FROM t", "SELECT s FROM t WHERE id = 1", "SELECT id FROM t", "SELECT 4"]
RIGHT = [f"{sql} " for sql in GOLD[:3]] + ["SELECT 5"]
"""Three of these are right, none is the text of gold."""
LEFT_OUT = [{"db_id": "nowhere"}, {"question": ""}, {"question": "cut \ud83d"}]
"""What makes a row unusable by itself: beside these there are two ways to repeat a row."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four questions, 10 to 13, on one database."""
    (tmp_path / "dbs" / "s").mkdir(parents=True)
    with sqlite3.connect(tmp_path / "dbs" / "s" / "s.sqlite") as connection:
        connection.executescript("CREATE TABLE t (id, s); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    questions(tmp_path, 10)
    return tmp_path


def questions(folder: Path, first: int) -> None:
    rows = [
        {"question_id": n, "db_id": "s", "question": "?", "evidence": "", "SQL": sql}
        for n, sql in enumerate(GOLD, first)
    ]
    (folder / "dev.json").write_text(json.dumps(rows))


def evaluate(folder: Path, content: object, name: str = "p.json") -> Result:
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    form = "utf-16" if name.startswith("utf-16") else "utf-8"
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode(form))
    files = {"questions": "dev.json", "databases": "dbs", "predictions": name, "json": "out.json"}
    options = [text for key, file in files.items() for text in (f"--{key}", str(folder / file))]
    return CliRunner().invoke(command, [*options, "--jobs", "1", "--no-cache"])


def verdicts(folder: Path) -> list[str]:
    return [row["verdict"] for row in json.loads((folder / "out.json").read_text())["verdicts"]]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (RIGHT, "p.json"),
        ("\n".join(RIGHT) + "\n", "p.sql"),
        ("".join(f"{sql}\ts\r\n" for sql in RIGHT), "p.txt"),
        ("\n".join(RIGHT) + "\n\n \n", "p.sql"),
        ("\n".join(sql.replace(" ", "\t") + "\ts" for sql in RIGHT), "p.sql"),
        ("\n".join(sql.replace(" ", "\t") for sql in RIGHT), "p.sql"),
        ("\n".join(f"{sql}\t----- bird -----\ts" for sql in RIGHT), "p.sql"),
        ([{"question_id": float(n), "sql": sql} for n, sql in enumerate(RIGHT, 10)], "p.json"),
        ({n: {"sql": sql} for n, sql in enumerate(RIGHT, 10)}, "p.json"),
        ([{"id": n, "sql": sql} for n, sql in enumerate(RIGHT, 10) for _ in "ab"], "p.json"),
        ({f"{n:03}.0": sql for n, sql in enumerate(RIGHT, 10)}, "p.json"),
        (dict(enumerate(RIGHT, 10)), "utf-16.json"),
        (
            {"votes": 8, "rows": [{"id": n, "sql": sql} for n, sql in enumerate(RIGHT, 10)]},
            "p.json",
        ),
    ],
    ids=[
        *("texts", "Spider's", "databases", "blank lines", "tabs and databases", "tabs", "BIRD's"),
        *("pandas", "objects", "twice", "keys", "PowerShell", "within"),
    ],
)
def test_common_forms_of_prediction_files(folder, content, name):
    result = evaluate(folder, content, name)
    assert result.exit_code == 0, result.output
    assert verdicts(folder) == ["match", "match", "match", "wrong"]
    assert result.stderr == ""


def test_gold_in_the_same_row_is_never_the_prediction(folder):
    rows = [
        {"question_id": n, "SQL": gold, "predicted_sql": sql}
        for n, (gold, sql) in enumerate(
            zip(GOLD, ["SELECT 0", None, "", "SELECT 5"], strict=True), 10
        )
    ]
    evaluate(folder, rows)
    assert verdicts(folder) == ["wrong", "no_submission", "no_submission", "wrong"]
    rows = [{"question_id": n, "SQL": sql, "answer": "SELECT 0"} for n, sql in enumerate(GOLD, 10)]
    assert "every prediction is the text of its gold query" in evaluate(folder, rows).stderr


def test_list_items_that_are_not_text_are_no_predictions(folder):
    result = evaluate(folder, [RIGHT[0], None, 0, {}])
    assert verdicts(folder) == ["match", "no_submission", "no_submission", "no_submission"]
    assert "2 predictions are neither text nor null" in result.stderr


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (RIGHT[:3], "p.json", "3 predictions without ids, the questions file 4 rows"),
        ("\n".join([*RIGHT, "SELECT 6"]), "p.sql", "5 predictions without ids"),
        ("", "p.sql", "holds no predictions"),
        (f'{{"10": {"9" * 5000}}}', "p.json", "value has 5000 digits."),
        ('{"10": "SELECT 1", "10": "SELECT 2"}', "p.json", "two predictions for dev/10"),
    ],
)
def test_files_that_cannot_be_paired_are_refused(folder, content, name, words):
    result = evaluate(folder, content, name)
    assert isinstance(result.exception, Text2SqlError) and words in str(result.exception)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([0, 1, 3], "Only 1 of 3 ids of"),
        ([0, 1, 3], "(0 to 3; missing: 2)"),
        ([0, 1, 2, 3, 4], "(0 to 3; extra: 4)"),
    ],
)
def test_incomplete_positions_are_not_taken_for_ids(folder, ids, words):
    rows = json.loads((folder / "dev.json").read_text())
    rows[3]["question_id"] = 1  # as in BIRD mini-dev, where some positions are other rows' ids
    (folder / "dev.json").write_text(json.dumps(rows))
    result = evaluate(folder, dict.fromkeys(ids, "SELECT 1"))
    assert result.exit_code == 1 and words in str(result.exception)
    result = evaluate(folder, dict.fromkeys(ids, "SELECT 1\t----- bird -----\tother"))
    assert "match no question" in result.stderr


def test_an_incomplete_entry_is_described(folder):
    found = evaluate(folder, [{"question_id": 10, "answer": "SELECT 1"}]).exception
    assert "its SQL as predicted_sql; it has question_id, answer." in str(found)
    assert "; it is null." in str(evaluate(folder, [{"id": 10, "sql": "SELECT 1"}, None]).exception)


def test_a_compressed_file_is_recognized(folder):
    found = evaluate(folder, gzip.compress(b"{}")).exception
    assert "p.json: it is compressed (gzip); unpack it." in str(found)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "it is a Git LFS pointer"),
        (b"\n<!DOCTYPE html>\n<html>", "it is a web page"),
    ],
)
def test_the_remains_of_a_failed_download_are_recognized(folder, data, fault):
    assert f"p.json: {fault}" in str(evaluate(folder, data).exception)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"db_id": "S"}, "names S (dev/1: db_id 'S' has no database; did you mean 's'?)."),
        ({"question": None}, "names s (dev/1: question is empty)."),
        ({"question": "\ud83d"}, "names s (dev/1: question has half a character)."),
    ],
)
def test_the_error_says_why_no_question_can_be_scored(folder, fields, reason):
    row = {"question_id": 1, "db_id": "s", "question": "?", "SQL": "SELECT 1"} | fields
    (folder / "dev.json").write_text(json.dumps([row]))
    assert reason in str(evaluate(folder, {"1": "SELECT 1"}).exception)


def test_doubtful_pairings_are_reported(folder):
    elsewhere = {n: f"{sql}\t----- bird -----\tother" for n, sql in enumerate(RIGHT)}
    assert "4 predictions name another database" in evaluate(folder, elsewhere).stderr
    questions(folder, 0)
    shifted = evaluate(folder, dict(enumerate(RIGHT, 1))).stderr
    assert "counted from 0, the predictions from 1" in shifted
    assert "counted from" not in evaluate(folder, dict(enumerate(RIGHT))).stderr


def test_failing_queries_are_reported(folder):
    result = evaluate(
        folder, {"10": "```sql\nSELECT 1\n```", "11": "SELECT nope", "12": "DROP TABLE t"}
    )
    assert "note: 2 predictions fail; the first is dev/10: near" in result.stderr
    assert "note: 1 prediction has a Markdown fence (```)" in result.stderr
    assert "note: 1 prediction would change something and is not run; the" in result.stderr
    rows = json.loads((folder / "out.json").read_text())["verdicts"]
    assert [row["verdict"] for row in rows] == ["error", "error", "write", "no_submission"]
    assert rows[1]["error"] == "no such column: nope"
    assert [set(row) for row in rows[2:]] == [
        {"question_id", "verdict", "error"},
        {"question_id", "verdict"},
    ]


def test_unusable_questions_are_reported_with_the_reason(folder):
    file = folder / "dev.json"
    first, *others = json.loads(file.read_text())
    rows = [first, first, first | {"evidence": "other"}]
    rows += [row | change for row, change in zip(others, LEFT_OUT, strict=True)]
    file.write_text(json.dumps(rows))
    warnings = evaluate(folder, {"10": RIGHT[0]}).stderr
    reasons = re.findall(r"left out: 1 question \((\w+): \S", warnings)
    assert sorted(reasons) == sorted(reason.value for reason in Reason)
    assert "such database); the first is dev/11: db_id 'nowhere' has no database" in warnings


def test_the_result_counts_what_is_left_out(folder):
    rows = json.loads((folder / "dev.json").read_text())
    (folder / "dev.json").write_text(json.dumps([*rows, rows[0], rows[1] | {"db_id": "x"}]))
    shown = evaluate(folder, {"10": RIGHT[0], "99": RIGHT[0]}).stdout
    assert "\n  left out 2 of 6 rows: duplicate_row 1, duplicate_id 1\n" in shown
    found = json.loads((folder / "out.json").read_text())
    assert (found["rows"], found["left_out"]) == (6, {"duplicate_row": 1, "duplicate_id": 1})
    assert (found["without_prediction"], found["unknown_predictions"]) == (3, 1)


def test_predictions_without_sql_are_counted(folder):
    warnings = evaluate(folder, {"10": RIGHT[0], "11": "", "12": None}).stderr
    assert "missing: 1 question has no prediction; the first is dev/13" in warnings
    assert "empty: 2 predictions have no SQL; the first is dev/11" in warnings


def test_a_truncated_line_is_reported(folder):
    rows = [json.dumps({"idx": n, "pred": sql}) for n, sql in enumerate(RIGHT, 10)]
    found = evaluate(folder, "\n".join(rows)[:-9], "p.jsonl")
    assert found.exit_code == 1
    assert "p.jsonl, line 4 is not JSON: " in str(found.exception)


def test_gold_may_be_in_a_separate_file(folder):
    rows = json.loads((folder / "dev.json").read_text())
    (folder / "dev_gold.sql").write_text("".join(f"{row.pop('SQL')}\ts\n" for row in rows))
    (folder / "dev.json").write_text(json.dumps(rows))
    assert evaluate(folder, RIGHT).stderr == ""
    assert verdicts(folder) == ["match", "match", "match", "wrong"]
    digests = {json.loads((folder / "out.json").read_text())["gold_sha256"]}
    (folder / "dev_gold.sql").write_text("SELECT 5\ts\n" * 4)
    evaluate(folder, RIGHT)
    assert verdicts(folder) == ["wrong", "wrong", "wrong", "match"]
    digests.add(json.loads((folder / "out.json").read_text())["gold_sha256"])
    assert len(digests) == 2
