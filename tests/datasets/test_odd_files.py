"""Question files, databases and descriptions as other programs and systems leave them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.dataset_files import make_database, question, team_row, write
from tests.support.splits import Split, load_split
from text2sql.agent.schema.descriptions import read_descriptions
from text2sql.agent.schema.tables import describe
from text2sql.datasets.reading.database_reports import DatabaseReports
from text2sql.datasets.reading.digests import Digests, file_digest
from text2sql.datasets.reading.questions import Reason
from text2sql.errors import Text2SqlError
from text2sql.evaluation.known_issues import DatasetIssues, Issue, issues_of
from text2sql.evaluation.predictions.reading import read_predictions
from text2sql.sandbox import Sandbox

HEADER = "original_column_name,column_name,column_description,data_format,value_description\n"
BODY = "a,full name,the race \u2013 a long one,text,\n"
READ = {"a": "full name; the race \u2013 a long one"}


def read(folder: Path, content: Any, name: str = "dev.json") -> Split:
    """Read a questions file of this content, beside the database ``shop``."""
    make_database(folder / "databases" / "shop" / "shop.sqlite")
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / name).write_bytes(data)
    return load_split(folder, "dev")


@pytest.mark.parametrize(
    "content",
    [
        {"data": [question(1)]},
        {"version": 2, "questions": [question(1)]},
        question(1),
        json.dumps([question(1)]).encode("utf-16"),
        json.dumps([question(1)], indent=1).replace("\n", "\r").encode(),
        json.dumps(question(1), indent=1).encode(),
    ],
)
def test_questions_in_other_json_forms(tmp_path: Path, content: Any) -> None:
    assert [q.key for q in read(tmp_path, content).questions] == ["dev/1"]


@pytest.mark.parametrize("name", ["dev.json", "dev.jsonl", "DEV.NDJSON"])
@pytest.mark.parametrize("form", ["list", "tall list", "lines", "tall lines", "one line"])
def test_the_content_decides_and_not_the_suffix(tmp_path: Path, name: str, form: str) -> None:
    one, two = question(1, question="a\u2028b"), question(2)
    content = {
        "list": json.dumps([one, two], ensure_ascii=False),
        "tall list": json.dumps([one, two], indent=1),
        "lines": f"\n{json.dumps(one, ensure_ascii=False)}\n\n{json.dumps(two)}\n",
        "tall lines": f"{json.dumps(one, indent=1)}\n{json.dumps(two, indent=1)}\n",
        "one line": f"{json.dumps(one)} {json.dumps(two)}",
    }[form]
    found = read(tmp_path, b"\xef\xbb\xbf" + content.encode(), name)
    assert [q.key for q in found.questions] == ["dev/1", "dev/2"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            json.dumps(question(1)).encode() + b'\n{"question',
            "line 2 is not JSON: Unterminated string .column 2",
        ),
        (b"  \n", "is empty; get it again"),
        ([question(1), None], "entry 1 .* an object, not null"),
        ([question(1, SQL=["SELECT 1"])], "entry 0 .* 'SQL' must be text, not a list"),
        ([question(1, SQL=None, sql={"select": 1})], "'SQL' must be text, not an object"),
        ([question(1, evidence={"a": 1})], "'evidence' must be text, not an object"),
        ([question(1, evidence=["a", True])], "'evidence' must be text, not true or false"),
        ([question(1, sql="SELECT 2")], "entry 0 .* has 'sql' in two spellings"),
        ([question(1), question(2, question_id="")], "entry 1 .* no 'question_id' .* other rows"),
        ([question(1), question(2, question_id=2.5)], "entry 1 .* whole number, not 2.5"),
        ([question(1, question_id=[1])], r"entry 0 .* whole number, not \[1\]"),
        ({"0": question(1), "1": question(2)}, r"entry 0 .* no 'db_id' \(found: 0, 1\)"),
        (b'[{"SQL": "SELECT 1", "SQL": "SELECT 2"}]', "the key 'SQL' twice"),
    ],
)
def test_invalid_rows_are_named_with_the_problem(
    tmp_path: Path, content: Any, problem: str
) -> None:
    with pytest.raises(Text2SqlError, match=rf"dev\.json.* {problem}"):
        read(tmp_path, content)


def test_empty_ids_are_positions(tmp_path: Path) -> None:
    rows = [question(n, question_id=empty) for n, empty in enumerate(["", " ", None])]
    assert [q.key for q in read(tmp_path, rows).questions] == ["dev/0", "dev/1", "dev/2"]


@pytest.mark.parametrize("field", ["question_id", "db_id", "question", "evidence", "SQL"])
def test_half_a_character_leaves_its_row_out(tmp_path: Path, field: str) -> None:
    found = read(tmp_path, [question(1), question(2, **{field: "cut \ud83d"})])
    (problem,) = found.problems
    assert (problem.reason, problem.detail) == (Reason.BROKEN_TEXT, f"{field} has half a character")
    json.dumps(problem.question.to_dict(), ensure_ascii=False).encode()


@pytest.mark.parametrize("path", ["data\\shop.sqlite", ".\\data\\shop.sqlite", "data/shop.sqlite"])
def test_paths_as_windows_writes_them(tmp_path: Path, path: str) -> None:
    make_database(tmp_path / "data" / "shop.sqlite")
    write(tmp_path / "dev.jsonl", [team_row(path, 1)], lines=True)
    (found,) = load_split(tmp_path, "dev").questions
    assert (found.db_id, found.database) == ("shop", tmp_path / "data" / "shop.sqlite")


@pytest.mark.parametrize(
    "path", ["C:\\data\\shop.sqlite", "~nobody-of-that-name/shop.db", "a" * 9999 + ".db"]
)
def test_paths_that_lead_nowhere(tmp_path: Path, path: str) -> None:
    (problem,) = read(tmp_path, [question(1, path)]).problems
    assert problem.reason is Reason.DB_MISSING


@pytest.mark.parametrize(
    "name", ["shop/shop.SQLITE", "shop/Shop.sqlite", "shop/shop.DB", "shop.DB"]
)
def test_names_of_databases_in_any_case(tmp_path: Path, name: str) -> None:
    file = make_database(tmp_path / "databases" / name)
    write(tmp_path / "dev.json", [question(1)])
    assert load_split(tmp_path, "dev").questions[0].database == file


@pytest.mark.parametrize("name", ["shop.db3", "shop.sqlite.gz", "database.sqlite", "shop"])
def test_a_folder_without_a_database_of_its_name_is_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / "databases" / "shop").mkdir(parents=True)
    (tmp_path / "databases" / "shop" / name).write_bytes(b"SQLite format 3\0")
    make_database(tmp_path / "databases" / "clinic" / "clinic.sqlite")
    write(tmp_path / "dev.json", [question(1), question(2, "nowhere"), question(3, "..")])
    details = [record.detail for record in load_split(tmp_path, "dev").problems]
    assert details[0] == (
        f"db_id 'shop' has no database; its folder has {name}, "
        "not shop with the ending .sqlite, .sqlite3, .db"
    )
    assert details[1:] == [f"db_id '{name}' has no database" for name in ("nowhere", "..")]


def test_a_broken_link_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "databases" / "shop"
    folder.mkdir(parents=True)
    (folder / "shop.sqlite").symlink_to("/nowhere/shop.sqlite")
    write(tmp_path / "dev.json", [question(1)])
    with pytest.raises(Text2SqlError, match=r"shop\.sqlite is a link to /nowhere/shop\.sqlite, wh"):
        load_split(tmp_path, "dev")
    make_database(tmp_path / "databases" / "clinic" / "clinic.sqlite")
    (problem,) = load_split(tmp_path, "dev").problems
    assert "its folder has shop.sqlite (a broken link), not shop" in problem.detail


@pytest.mark.parametrize("link", ["databases", "databases/shop", "databases/shop/shop.sqlite"])
def test_databases_behind_links(tmp_path: Path, link: str) -> None:
    file = make_database(tmp_path / "store" / "shop" / "shop.sqlite")
    place = tmp_path / "root" / link
    place.parent.mkdir(parents=True)
    place.symlink_to({"databases": file.parents[1], "shop": file.parent}.get(place.name, file))
    write(tmp_path / "root" / "dev.json", [question(1)])
    assert load_split(tmp_path / "root", "dev").questions[0].database.samefile(file)


@pytest.mark.parametrize("name", ["数据库", "my shop", "a#b%20?", "café"])
def test_databases_with_names_in_any_letters(tmp_path: Path, sandbox: Sandbox, name: str) -> None:
    make_database(tmp_path / "databases" / name / f"{name}.sqlite")
    write(tmp_path / "dev.json", [question(1, name)])
    (asked,) = load_split(tmp_path, "dev").questions
    assert sandbox.execute(asked.database, "SELECT 1").row_count == 1


def test_spiders_test_questions_have_a_folder_of_their_own(tmp_path: Path) -> None:
    make_database(tmp_path / "database" / "shop" / "shop.sqlite", rows=1)
    file = make_database(tmp_path / "test_database" / "shop" / "shop.sqlite")
    write(tmp_path / "test.json", [question(1)])
    assert load_split(tmp_path, "test").questions[0].database == file


def test_a_database_whose_name_is_not_utf8_is_named(tmp_path: Path) -> None:
    file = make_database(tmp_path / "made.sqlite")
    folder = os.fsencode(tmp_path / "databases") + b"/caf\xe9"
    os.makedirs(folder)
    shutil.copy(file, folder + b"/caf\xe9.sqlite")
    with pytest.raises(Text2SqlError, match=r"caf.*not in UTF-8; rename it"):
        read(tmp_path, [question(1)])


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + (HEADER + BODY).encode("cp1252"),
        (HEADER + BODY).encode("cp1252"),
        (HEADER + BODY).encode("utf-16"),
        (HEADER + BODY).replace(",", ";").encode(),
        (HEADER + BODY).replace(",", "\t").encode(),
        ("sep=|\r\n" + HEADER + BODY).replace(",", "|").encode(),
        ("\r\n" + HEADER.replace("_", " ").title() + BODY).encode(),
    ],
)
def test_descriptions_as_spreadsheets_write_them(tmp_path: Path, data: bytes) -> None:
    write_description(tmp_path, "T.CSV", data)
    assert read_descriptions(tmp_path / "x.db", {"t": ["a"]}).columns == {"t": READ}


def test_one_windows_byte_does_not_garble_other_letters(tmp_path: Path) -> None:
    write_description(tmp_path, "t.csv", (HEADER + "a,café,").encode() + b"a \x96 b,,\n")
    assert read_descriptions(tmp_path / "x.db", {"t": ["a"]}).columns == {
        "t": {"a": "café; a \u2013 b"}
    }


def test_names_in_another_unicode_form_are_the_same(tmp_path: Path) -> None:
    write_description(tmp_path, "Cafe\u0301.csv", (HEADER + "ete\u0301,summer,,,\n").encode())
    found = read_descriptions(tmp_path / "x.db", {"caf\u00e9": ["\u00e9t\u00e9", "et\u00e9"]})
    assert found.columns == {"caf\u00e9": {"et\u00e9": "summer"}}
    assert not found.phantom_columns and not found.unmatched_files


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_descriptions_in_utf16_without_a_mark(tmp_path: Path, encoding: str) -> None:
    write_description(tmp_path, "t.csv", (HEADER + "a,\u901f\u5ea6,,,\n").encode(encoding))
    found = read_descriptions(tmp_path / "x.db", {"t": ["a"]})
    assert found.columns == {"t": {"a": "\u901f\u5ea6"}}


def test_an_unclosed_quote_swallows_no_row(tmp_path: Path) -> None:
    rows = 'a,,"the 5" disk,int,1\nb,,"2: two\n3: ""three"",""",,\nC,,"open,,\nd,,"x" y,,\ne,,"z"\n'
    write_description(tmp_path, "t.csv", ("\n" + HEADER + rows).encode())
    found = read_descriptions(tmp_path / "x.db", {"t": list("abcde")})
    assert found.columns["t"] == {
        "a": "the 5 disk; 1",
        "b": '2: two 3: "three","',
        "c": "open,,",
        "d": "x y",
        "e": "z",
    }
    assert found.unreadable_files == ("t.csv (line 6 opens a quote and never closes it)",)
    assert not found.phantom_columns


@pytest.mark.parametrize("data", [b"", BODY.encode(), b"\x00\x01\x02"])
def test_a_description_without_headings_is_reported(tmp_path: Path, data: bytes) -> None:
    write_description(tmp_path, "t.csv", data)
    found = read_descriptions(tmp_path / "x.db", {"t": ["a"]})
    assert found.unreadable_files == ("t.csv (its first line has no original_column_name)",)


def test_descriptions_of_odd_names(tmp_path: Path) -> None:
    file = make_database(tmp_path / "shop.sqlite")
    write_description(tmp_path, "._t.csv", b"\0\5\x16\7")
    write_description(tmp_path, b"caf\xe9.csv", HEADER.encode())
    with Sandbox(1) as sandbox:
        (report,) = DatabaseReports(tmp_path / "reports", "1", Digests()).of(
            {"shop": file}, sandbox
        )
    assert report.unmatched == "caf?.csv"


@pytest.mark.parametrize("spoilt", ["", "[]", '{"db_id": 1}'])
def test_a_damaged_cached_report_is_replaced(tmp_path: Path, spoilt: str) -> None:
    file = make_database(tmp_path / "shop.sqlite")
    with Sandbox(1) as sandbox:
        known = DatabaseReports(tmp_path / "reports", "1", Digests()).of({"shop": file}, sandbox)
        (kept,) = (tmp_path / "reports").iterdir()
        kept.write_text(spoilt)
        reports = DatabaseReports(tmp_path / "reports", "1", Digests())
        assert reports.of({"shop": file}, sandbox) == known
    assert reports.inspected == [file]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("dev.parquet", r"\(convert to .jsonl: .*dev.parquet\)"),
        ("dev/questions.csv", r"\(convert to .jsonl: .*questions.csv\)"),
        ("dev.json.gz", r"\(unpack: .*dev.json.gz\)"),
        ("dev_20240627.7z", r"\(unpack: .*dev_20240627.7z\)"),
        ("train.7z", r"dev_\[0-9\]\*\.json\.$"),
    ],
)
def test_unsupported_formats_are_named(tmp_path: Path, name: str, hint: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"PAR1")
    with pytest.raises(Text2SqlError, match=f"No dev questions .*{hint}"):
        load_split(tmp_path, "dev")


def test_a_dataset_at_any_depth_and_behind_links(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"abcdefghi")
    make_database(deep / "dev_databases" / "shop" / "shop.sqlite")
    write(deep / "dev.json", [question(1)])
    (deep / "up").symlink_to(tmp_path)
    (tmp_path.joinpath(*"abcdefgh") / "link").symlink_to(deep)
    assert [q.key for q in load_split(tmp_path, "dev").questions] == ["dev/1"]


def test_an_id_may_hold_a_slash(tmp_path: Path) -> None:
    found = read(tmp_path, [question(1, question_id="a/b"), question(2, question_id="b")])
    file = tmp_path / "dev.json"
    issues = [Issue("a/b", "a tie", "us"), Issue("b", "a tie", "us")]
    known = [DatasetIssues(file_digest(file), tuple(issues))]
    keys = ["dev/a/b", "dev/b"]
    assert found.file_keys == keys
    assert issues_of(known, file, keys) == dict(zip(keys, issues, strict=True))
    (tmp_path / "said.json").write_text(json.dumps({"a/b": "SELECT 1", "b": "SELECT 2"}))
    said = read_predictions(tmp_path / "said.json", found.questions, keys)
    assert said == {"dev/a/b": "SELECT 1", "dev/b": "SELECT 2"}


def write_description(folder: Path, name: str | bytes, data: bytes) -> None:
    place = folder / "database_description"
    place.mkdir(exist_ok=True)
    with open(os.path.join(os.fsencode(place), os.fsencode(name)), "wb") as file:
        file.write(data)


@pytest.mark.parametrize("encoding", ["gbk", "big5", "shift_jis", "cp1251"])
def test_bytes_of_an_unknown_encoding_are_reported(tmp_path: Path, encoding: str) -> None:
    words = "\u0431\u0430\u0437\u0430" if encoding == "cp1251" else "\u540d\u524d"
    write_description(tmp_path, "t.csv", (HEADER + f"a,{words},,,\n").encode(encoding))
    assert read_descriptions(tmp_path / "x.db", {"t": ["a"]}).doubts == (
        "t.csv (line 2 is not in UTF-8: such bytes were read as Windows-1252)",
    )


def test_unread_descriptions_are_reported(tmp_path: Path) -> None:
    for name in ("t.xlsx", "notes.md", ".DS_Store", "Thumbs.db"):
        write_description(tmp_path, name, b"PK\3\4")
    (tmp_path / "database_description" / "u.csv").symlink_to("nowhere")
    write_description(tmp_path, "t.tsv", (HEADER + BODY).replace(",", "\t").encode())
    found = read_descriptions(tmp_path / "x.db", {"t": ["a"]})
    assert found.columns == {"t": READ} and found.doubts == ()
    assert found.unreadable_files == (
        "notes.md (neither .csv nor .tsv)",
        "t.xlsx (neither .csv nor .tsv)",
        "u.csv (no file)",
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_of_descriptions_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    file = make_database(tmp_path / "x.db")
    write_description(tmp_path, "t.csv", (HEADER + BODY).encode())
    folder = tmp_path / "database_description"
    folder.chmod(0o300)
    with Sandbox(1) as sandbox, pytest.raises(Text2SqlError, match=f"{folder} cannot be read: P"):
        describe(file, sandbox)


def test_repeated_descriptions_are_reported(tmp_path: Path) -> None:
    write_description(tmp_path, "T.csv", (HEADER + "a,first,,,\n").encode())
    write_description(tmp_path, "t.csv", (HEADER + "a,second,,,\nA,third,,,\n").encode())
    found = read_descriptions(tmp_path / "x.db", {"t": ["a"]})
    assert found.columns == {"t": {"a": "third"}}
    assert found.doubts == (
        "t.csv (another file describes this table too: the last is shown)",
        "t.csv (line 3 describes a again: the last is shown)",
    )


def test_a_folder_of_descriptions_in_another_case(tmp_path: Path) -> None:
    write_description(tmp_path, "t.csv", (HEADER + BODY).encode())
    (tmp_path / "database_description").rename(tmp_path / "Database_Description")
    assert read_descriptions(tmp_path / "x.db", {"t": ["a"]}).columns == {"t": READ}


def test_a_problem_of_one_file_is_not_reported_for_its_copy(tmp_path: Path) -> None:
    """A journal beside one of two equal databases; and the sentence has no long path in it."""
    files = {name: make_database(tmp_path / name / "x.sqlite") for name in ("sound", "torn")}
    (tmp_path / "torn" / "x.sqlite-journal").write_bytes(
        b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600)
    )
    with Sandbox(1) as sandbox:
        sound, torn = DatabaseReports(tmp_path / "reports", "1", Digests()).of(files, sandbox)
    assert sound.state == "ok"
    assert torn.state.startswith("the database has an unfinished transaction")


def test_a_new_spreadsheet_beside_a_cached_database_is_reported(tmp_path: Path) -> None:
    file = make_database(tmp_path / "shop.sqlite")
    with Sandbox(1) as sandbox:
        reports = DatabaseReports(tmp_path / "reports", "1", Digests())
        assert reports.of({"shop": file}, sandbox)[0].unmatched == ""
        write_description(tmp_path, "t.xlsx", b"PK\3\4")
        (report,) = reports.of({"shop": file}, sandbox)
    assert len(reports.inspected) == 2 and report.unmatched == "t.xlsx (neither .csv nor .tsv)"
