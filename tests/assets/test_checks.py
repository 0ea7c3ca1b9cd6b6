"""Every check of a dataset fails on data that deserves it, and a page shows the rows."""

from __future__ import annotations

import json
import sqlite3
from html.parser import HTMLParser
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

from assets.checks.expectations import EXAMPLES, SuiteResult, merge
from assets.checks.suites import check_gold_answers, check_gold_determined, check_tidiness
from assets.checks.view import check_result, publish_checks
from assets.data import bird
from assets.data.frames import time_by_database, with_flags
from resources.artifact_root import ArtifactRoot
from resources.sandbox import SandboxResource
from text2sql.datasets.gold.flags import Flag, GoldFlag

SHOP = """
CREATE TABLE item(id INTEGER, name TEXT, price TEXT, rank INTEGER);
INSERT INTO item VALUES (1, 'pen', '9', NULL), (2, 'ink', '10', 1), (3, 'cup', '100', 1);
"""
ERROR, WARNING = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT SUM(i) FROM n"
EVIL = "<script>alert('x')</script> & <b>"


def make(folder: Path, name: str, script: str = SHOP) -> Path:
    file = folder / "dev_databases" / name / f"{name}.sqlite"
    file.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(file) as connection:
        connection.executescript(script)
    return file


def ask(number: int, sql: str | None = "SELECT COUNT(*) FROM item", **changes: Any) -> dict:
    asked = {"question_id": number, "db_id": "shop", "question": f"Number {number}?"}
    return asked | {"evidence": "", "SQL": sql, "difficulty": "simple"} | changes


def ingest(folder: Path, root: Path, rows: list[dict], **config: Any) -> dict[str, Any]:
    """Materialize the dataset's assets; return the checks by name."""
    (folder / "dev.json").write_text(json.dumps(rows))
    resource = ArtifactRoot(root=str(root), data_docs=config.pop("data_docs", False))
    config |= {"bird_archive": {"source": str(folder), "splits": ["dev"]}}
    result = dg.materialize(
        [bird.bird_archive, bird.bird_questions, bird.bird_databases, bird.gold_results],
        resources={"root": resource, "sandbox": SandboxResource(workers=2)},
        run_config={"ops": {name: {"config": values} for name, values in config.items()}},
        raise_on_error=False,
    )
    return {check.check_name: check for check in result.get_asset_check_evaluations()}


LENIENT = {
    "bird_questions": {"missing_databases": 0.9},
    "gold_results": {"failing": 0.9, "seconds": 0.5},
}
BAD_GOLD = {
    "gold_runs": {1: "SELECT x FROM item", 2: "DROP TABLE item", 3: ENDLESS},
    "gold_answers": {4: "SELECT id FROM item WHERE id = 99"},
    "gold_determined": {
        5: "SELECT name FROM item ORDER BY rank DESC LIMIT 1",
        6: "SELECT name FROM item ORDER BY rank LIMIT 1",
        7: "SELECT price FROM item ORDER BY price DESC LIMIT 1",
        8: "SELECT CAST(price AS DATETIME) / 2 FROM item",
        9: "SELECT name FROM item LIMIT 1",
        10: "SELECT name FROM item ORDER BY id LIMIT 1 + 0",
        11: "SELECT RANDOM()",
        12: "SELECT name, COUNT(*) FROM item",
        13: "SELECT GROUP_CONCAT(name) FROM item",
        14: "SELECT COUNT(rank > 1) FROM item",
    },
}


def keys_of(check: Any) -> set[str]:
    return {record.data["key"] for record in check.metadata["failing rows"].records}


def expected_of(check: Any) -> set[str]:
    return {record.data["expected"] for record in check.metadata["failures"].records}


def test_every_gold_check_shows_its_rows(tmp_path: Path) -> None:
    make(tmp_path, "shop")
    rows = [ask(0)] + [
        ask(number, sql, question=EVIL) for bad in BAD_GOLD.values() for number, sql in bad.items()
    ]
    found = ingest(tmp_path, tmp_path / "root", rows, **LENIENT)
    for name, bad in BAD_GOLD.items():
        check = found[name]
        assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
        assert keys_of(check) == {f"dev/{number}" for number in bad}
    assert len(expected_of(found["gold_determined"])) == len(Flag)
    (page,) = (tmp_path / "root").glob("bird/*/checks.html")
    assert found["gold_runs"].metadata["page"].path == str(page)
    text = page.read_text()
    assert EVIL not in text
    assert "2 rows sort as (1), such as (&#39;ink&#39;)" in text
    assert {*found} == {part.get("id") for part in parts(text, "section")}


def parts(text: str, tag: str) -> list[dict[str, str | None]]:
    """Return the attributes of every tag of a kind, and fail on what could reach a network."""
    seen: list[tuple[str, dict[str, str | None]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
            seen.append((name, dict(attributes)))

    Reader().feed(text)
    assert not {name for name, _ in seen} & {"script", "link", "img", "iframe"}
    links = [values["href"] for name, values in seen if name == "a"]
    assert all(link and link.startswith("#") for link in links)
    return [values for name, values in seen if name == tag]


def test_every_question_check_shows_its_rows(tmp_path: Path) -> None:
    make(tmp_path, "shop")
    rows = [
        ask(0),
        ask(1, None),
        ask(2, question=" "),
        ask(3),
        ask(3, question=EVIL),
        ask(4, db_id="shopp"),
        ask(5, difficulty="easy"),
        ask(6, evidence="N/A"),
        ask(7),
        ask(7),
    ]
    found = ingest(tmp_path, tmp_path / "root", rows)
    valid, resolve, tidy = (
        found[name] for name in ("questions_valid", "db_ids_resolve", "questions_tidy")
    )
    critical = dg.AssetCheckSeverity.ERROR
    assert (valid.passed, valid.severity) == (False, critical)
    assert keys_of(valid) == {"dev/1", "dev/2", "dev/3"}
    assert (resolve.passed, resolve.severity, keys_of(resolve)) == (False, critical, {"dev/4"})
    assert (tidy.passed, tidy.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert keys_of(tidy) == {"dev/5", "dev/6", "dev/7"}
    assert "gold_runs" not in found
    (page,) = (tmp_path / "root").glob("bird/*/checks.html")
    assert "&lt;script&gt;" in page.read_text() and EVIL not in page.read_text()


def test_every_database_check_shows_its_rows(tmp_path: Path) -> None:
    make(tmp_path, "shop")
    make(tmp_path, "bare", "CREATE TABLE t(a); DROP TABLE t;")
    make(tmp_path, "hollow", 'CREATE TABLE "Order Details"(a);')
    make(tmp_path, "torn").write_bytes(b"no database at all")
    described = make(tmp_path, "noted").parent / "database_description"
    described.mkdir()
    (described / "item.csv").write_text("original_column_name\nfax\n")
    found = ingest(tmp_path, tmp_path / "root", [ask(0)])
    sound, match = found["databases_sound"], found["descriptions_match"]
    assert (sound.passed, sound.severity) == (False, dg.AssetCheckSeverity.ERROR)
    rows = {record.data["db_id"]: record.data for record in sound.metadata["failing rows"].records}
    assert rows.keys() == {"bare", "hollow", "torn"}
    assert rows["hollow"]["failed"] == "every database has rows"
    assert "opens" in rows["torn"]["failed"] and rows["torn"]["state"] != "ok"
    assert (match.passed, match.severity) == (False, dg.AssetCheckSeverity.WARN)
    (noted,) = match.metadata["failing rows"].records
    assert "fax" in noted.data["unmatched"].lower()


def test_a_database_with_other_rows_than_before_is_named(tmp_path: Path) -> None:
    make(
        tmp_path,
        "shop",
        "CREATE TABLE t(a); INSERT INTO t VALUES (1), (2), (3); CREATE TABLE u(b);",
    )
    assert ingest(tmp_path, tmp_path / "root", [ask(0)])["databases_same"].passed
    assert ingest(tmp_path, tmp_path / "root", [ask(0)])["databases_same"].passed
    make(tmp_path, "shop", "DELETE FROM t WHERE a = 3; DROP TABLE u; CREATE TABLE v(c);")
    same = ingest(tmp_path, tmp_path / "root", [ask(0)])["databases_same"]
    assert (same.passed, same.severity) == (False, dg.AssetCheckSeverity.WARN)
    (found,) = same.metadata["failing rows"].records
    assert found.data["db_id"] == "shop"
    assert found.data["changed"] == "t: 2 rows, 3 before; u: gone, 0 rows before; v: new, 0 rows"


def test_good_data_passes_every_check(tmp_path: Path) -> None:
    make(tmp_path, "shop")
    found = ingest(tmp_path, tmp_path / "root", [ask(0)], data_docs=True)
    assert len(found) == 11 and all(check.passed for check in found.values())
    (page,) = (tmp_path / "root").glob("bird/*/checks.html")
    assert "11 checks: everything holds" in page.read_text()
    docs = {file.name for file in page.parent.glob("data_docs/*.html")}
    assert docs == {f"{name}.html" for name in found}
    assert (
        "no two questions share an id"
        in (page.parent / "data_docs" / "questions_valid.html").read_text()
    )


def test_data_docs_are_off_by_default(tmp_path: Path) -> None:
    make(tmp_path, "shop")
    ingest(tmp_path, tmp_path / "root", [ask(0)])
    assert not list((tmp_path / "root").rglob("data_docs"))


def test_slow_gold_warns() -> None:
    row = {"key": "dev/0", "db_id": "shop", "status": "ok", "row_count": 1, "sql": "SELECT 1"}
    outcome = check_gold_answers(pd.DataFrame([row | {"seconds": s} for s in (0.1, 6.0)]))
    assert not outcome.success and not outcome.blocks
    assert list(outcome.examples["seconds"]) == [6.0]


def test_a_query_may_have_several_flags() -> None:
    frame = pd.DataFrame([{"key": f"dev/{n}", "db_id": "shop", "sql": "s"} for n in range(3)])
    flags = [
        GoldFlag("dev/1", Flag.LIMIT_CUTS_TIE, "a"),
        GoldFlag("dev/1", Flag.LIMIT_CUTS_TIE, "b"),
        GoldFlag("dev/1", Flag.NULL_SORTS_FIRST, "c"),
    ]
    outcome = check_gold_determined(with_flags(frame, flags))
    (example,) = outcome.examples.to_dict("records")
    assert list(example) == ["key", "db_id", "found", "sql", "failed"]
    assert (example["key"], example["found"]) == ("dev/1", "a; b; c")
    assert len(outcome.failures) == 2 and len(outcome.holding) == len(Flag) - 2
    assert check_gold_determined(with_flags(frame, [])).success


def test_slow_queries_are_shown_by_database() -> None:
    rows = [{"key": f"d/{n}", "db_id": "ab"[n % 2], "seconds": n / 10} for n in range(10)]
    first, second = time_by_database(pd.DataFrame(rows)).records
    assert (first.data["database"], first.data["slowest query"]) == ("b", "d/9")
    assert (second.data["queries"], second.data["seconds"]) == (5, 2.0)


def test_every_failure_has_some_of_the_shown_rows() -> None:
    base = {"evidence": None, "difficulty": "simple", "status": "ok"}
    rows = [base | {"evidence": "nan"}] * 500 + [base | {"difficulty": "easy"}] * 3
    outcome = check_tidiness(pd.DataFrame([row | {"key": str(n)} for n, row in enumerate(rows)]))
    assert len(outcome.examples) == EXAMPLES + 3
    records = check_result("tidy", outcome).metadata["failing rows"].records
    assert len(records) <= EXAMPLES
    assert {record.data["difficulty"] for record in records} == {"simple", "easy"}


def test_an_expectation_that_fails_in_one_split_does_not_count_as_holding() -> None:
    good = pd.DataFrame([{"key": "a", "evidence": None, "difficulty": "simple", "status": "ok"}])
    both = merge([check_tidiness(good), check_tidiness(good.assign(evidence="nan"))])
    assert "no evidence is nan, none, null, <na> or n/a" not in both.holding
    assert "no row repeats an earlier one" in both.holding


def test_the_same_rows_are_checked_once_and_shown_the_same(tmp_path: Path) -> None:
    make(tmp_path, "shop")
    rows = [ask(1, difficulty="hard"), ask(2, "SELECT COUNT(*) FROM nothing")]
    config = LENIENT | {"gold_results": {"failing": 0.5}}
    root = tmp_path / "root"

    def written() -> dict[str, int]:
        return {file.stem: file.stat().st_mtime_ns for file in root.rglob("checks/*.json")}

    first = ingest(tmp_path, root, rows, **config)
    before = written()
    again = ingest(tmp_path, root, rows, **config)
    assert written() == before and len(before) == len(first) == 11
    for name, check in first.items():
        assert again[name].passed == check.passed and again[name].metadata == check.metadata
        assert again[name].description == check.description
    assert not first["questions_tidy"].passed and not first["gold_runs"].passed

    stricter = config | {"gold_results": {"failing": 0.4}}
    assert ingest(tmp_path, root, rows, **stricter)["gold_runs"].severity is ERROR
    changed = {name for name, at in written().items() if before[name] != at}
    assert changed == {"gold_runs", "gold_answers", "gold_determined"}
    ingest(tmp_path, root, rows, **stricter, data_docs=True)
    assert {file.stem for file in root.rglob("data_docs/*.html")} >= set(first)


def test_questions_without_any_database_are_taken_in_only_where_that_is_allowed(
    tmp_path: Path,
) -> None:
    (tmp_path / "data").mkdir()
    strict = ingest(tmp_path / "data", tmp_path / "root", [ask(1), ask(2)])
    assert "db_ids_resolve" not in strict
    allowed = {"bird_questions": {"missing_databases": 1.0}}
    found = ingest(tmp_path / "data", tmp_path / "root", [ask(1), ask(2)], **allowed)
    assert found["db_ids_resolve"].severity is found["databases_sound"].severity is WARNING
    (sentence,) = expected_of(found["db_ids_resolve"])
    assert "(100.00% do not; missing_databases allows 100.00%)" in sentence
    assert expected_of(found["databases_sound"]) == {"there is at least one database"}
    assert "gold_runs" not in found  # no query can run


def _publish(folder: Path, name: str) -> None:
    publish_checks(folder, "bird_questions", {name: SuiteResult(1)})


def test_pages_rendered_in_parallel_show_all_checks(tmp_path: Path) -> None:
    context = get_context("spawn")
    children = [context.Process(target=_publish, args=(tmp_path, f"c{n}")) for n in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    text = (tmp_path / "checks.html").read_text()
    assert [part["id"] for part in parts(text, "section")] == ["c0", "c1", "c2"]


def test_long_cells_are_cut(tmp_path: Path) -> None:
    cut = "x" * 5000
    frame = pd.DataFrame([{"key": cut, "evidence": "nan", "difficulty": "", "status": "ok"}])
    page = publish_checks(tmp_path, "bird_questions", {"tidy": check_tidiness(frame)})
    assert cut not in page.read_text() and "[5,000 characters]" in page.read_text()
