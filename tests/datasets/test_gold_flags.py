"""Gold queries whose answer the data does not determine, found on real databases."""

import json
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from text2sql.datasets.gold.find import flag_golds
from text2sql.datasets.gold.flags import Flag, GoldFlag
from text2sql.datasets.gold.limits import Unreadable, cuts_of
from text2sql.datasets.gold.sql import affinity, unknown_casts
from text2sql.judge.verdicts import run_gold
from text2sql.questions import Question
from text2sql.sandbox import Limits, Sandbox
from text2sql.sandbox.sql.repeatable import asks_outside

SCRIPT = """
CREATE TABLE player(id INTEGER, name TEXT, score INTEGER, born TEXT, speed TEXT, team INTEGER);
INSERT INTO player VALUES
  (1, 'Ann', 9, NULL,   '9',   1),
  (2, 'Bob', 9, '1990', '10',  1),
  (3, 'Cem', 7, '1985', '100', 2),
  (4, 'Dee', 5, '1985', '20',  2),
  (5, 'Cem', 5, '1970', '30',  3);
CREATE TABLE team(id INTEGER, title TEXT, points REAL);
CREATE TABLE good(price TEXT);
CREATE TABLE blank(id INTEGER, speed TEXT);
INSERT INTO blank VALUES (1, '9'), (2, '10'), (3, '100'), (4, ' ');
CREATE TABLE sale(id INTEGER, paid TEXT, part TEXT, sold TEXT, code);
INSERT INTO sale VALUES (1, '$9.50', '9%', '999', 3), (2, '$10.00', '10 %', '12,000', 'n/a'),
  (3, '$7', '7%', '5', 12), (4, NULL, NULL, NULL, NULL);
CREATE TABLE word(id INTEGER, folded TEXT COLLATE NOCASE, trimmed TEXT COLLATE RTRIM, plain TEXT);
INSERT INTO word VALUES (1, 'Oak', 'oak', 'Oak'), (2, 'oak', 'oak ', 'oak'), (3, 'yew', 'yew', 'y');
INSERT INTO good VALUES ('100'), ('150'), ('n/a'), ('200');
INSERT INTO team VALUES (1, 'red', 2.5), (2, 'blue', 2.5), (3, 'grey', 1.0);
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "games.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(SCRIPT)
    return path


@pytest.fixture
def flags_of(database: Path, sandbox: Sandbox):
    def run(*queries: str) -> list[GoldFlag]:
        questions = [
            Question(f"dev/{n}", "games", database, "?", sql=sql) for n, sql in enumerate(queries)
        ]
        golds = {question.key: run_gold(question, sandbox) for question in questions}
        return flag_golds(questions, golds, sandbox, Limits(seconds=10))

    return run


DETERMINED = [
    "SELECT name FROM player ORDER BY score DESC, id LIMIT 1",
    "SELECT name FROM player ORDER BY score DESC LIMIT 2",
    "SELECT score FROM player ORDER BY score DESC LIMIT 1",
    "SELECT DISTINCT score FROM player ORDER BY score DESC LIMIT 1",
    "SELECT born FROM player WHERE born IS NOT NULL ORDER BY born LIMIT 1",
    "SELECT born FROM player ORDER BY born DESC LIMIT 1",
    "SELECT born FROM player ORDER BY born ASC NULLS LAST LIMIT 1",
    "SELECT speed FROM player ORDER BY CAST(speed AS REAL) DESC LIMIT 1",
    "SELECT team, COUNT(*) AS n FROM player GROUP BY team ORDER BY n, team LIMIT 1",
    "SELECT COUNT(*) FROM player LIMIT 1",
    "SELECT COUNT(CASE WHEN score > 1 THEN 1 END), COUNT(1), COUNT(born) FROM player",
    "SELECT COUNT(CASE WHEN score > 1 THEN 1 ELSE NULL END) FROM player",
    "SELECT COUNT(DISTINCT CASE WHEN score > 1 THEN 1 ELSE 0 END) FROM player",
    "SELECT SUM(CASE WHEN score > 1 THEN 1 ELSE 0 END), SUM(name = 'Ann') FROM player",
    "SELECT name FROM player LIMIT 100",
    "SELECT name FROM player ORDER BY born LIMIT -1",
    "SELECT name FROM player ORDER BY score DESC LIMIT 1 OFFSET 2",
    "SELECT name FROM player ORDER BY score LIMIT 10",
    "SELECT name FROM player WHERE score = (SELECT MAX(score) FROM player)",
    "SELECT name FROM player WHERE id = 1 UNION SELECT title FROM team ORDER BY name LIMIT 1",
    "SELECT 'LIMIT', name FROM player",
    "SELECT price FROM good ORDER BY price LIMIT 1",
    "SELECT MAX(score), MIN(born), MAX(name) FROM player",
    "SELECT MAX(CAST(speed AS REAL)), MAX(speed + 0) FROM player",
    "SELECT MIN(speed) FROM player WHERE LENGTH(speed) = 2",
    "SELECT MAX(price), MAX(price, '9') FROM good",
    "SELECT name FROM player ORDER BY score DESC LIMIT (2)",
    "SELECT name, MIN(id) FROM player",
    "SELECT score, MAX(score) FROM player",
    "SELECT name, MAX(score), team FROM player WHERE id > 1",
    "SELECT name, COUNT(*) FROM player GROUP BY id",
    "SELECT p.name, COUNT(*) FROM player AS p JOIN team AS t ON p.team = t.id GROUP BY p.id, 1",
    "SELECT team AS t, TOTAL(score), SUM(id) FILTER (WHERE score > 1) FROM player GROUP BY t",
    "SELECT name FROM player GROUP BY team HAVING COUNT(*) = 1",
    "SELECT name, MAX(score) OVER (PARTITION BY team) FROM player",
    "SELECT name FROM player WHERE EXISTS (SELECT id, COUNT(*) FROM team)",
    "SELECT name FROM (SELECT name, ROW_NUMBER() OVER (ORDER BY score, id) AS n FROM player) "
    "WHERE n = 1",
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (ORDER BY score) AS n FROM player) WHERE n < 3",
    "SELECT ROW_NUMBER() OVER () FROM player",
    "SELECT * FROM player GROUP BY 1",
    "SELECT COUNT(*), p.* FROM player AS p GROUP BY 2",
    "SELECT id FROM word ORDER BY plain LIMIT 1",
    "SELECT id FROM word ORDER BY folded COLLATE BINARY LIMIT 1",
    "SELECT id FROM word ORDER BY folded DESC LIMIT 1",
    "SELECT id FROM word ORDER BY LOWER(plain) || id LIMIT 1",
    "SELECT DATE(born), STRFTIME('%Y', born || '-01-01') FROM player",
    "SELECT id FROM sale WHERE id <> 2 ORDER BY paid DESC LIMIT 1",
    "SELECT id FROM sale WHERE code IS NOT NULL ORDER BY code LIMIT 2",
    "SELECT id FROM sale WHERE id < 3 ORDER BY id, code DESC LIMIT 1",
    "SELECT id FROM sale ORDER BY TYPEOF(code) = 'text', code DESC LIMIT 2",
    "SELECT MAX(paid) FROM sale WHERE id <> 2",
    "SELECT id FROM blank WHERE id > 1 ORDER BY speed DESC LIMIT 1",
    "SELECT GROUP_CONCAT(name) FROM player WHERE name = 'Cem'",
    "SELECT team, GROUP_CONCAT(name) FILTER (WHERE id = 1) FROM player GROUP BY team",
    "SELECT GROUP_CONCAT(name) FROM (SELECT name FROM player ORDER BY id)",
    "WITH p AS (SELECT name FROM player ORDER BY id) SELECT GROUP_CONCAT(name) FROM p",
    "SELECT GROUP_CONCAT(name) OVER (ORDER BY id) FROM player",
    "SELECT name FROM player GROUP BY name HAVING GROUP_CONCAT(id) = '1'",
    "SELECT LAG(name) OVER (ORDER BY id), SUM(score) OVER (ORDER BY score) FROM player",
]


@pytest.mark.parametrize("sql", DETERMINED)
def test_a_determined_answer_has_no_flag(flags_of, sql: str) -> None:
    assert flags_of(sql) == []


FLAGGED = [
    (Flag.LIMIT_CUTS_TIE, "SELECT name FROM player ORDER BY score DESC LIMIT 1"),
    (Flag.LIMIT_CUTS_TIE, "SELECT name, score AS s FROM player ORDER BY s DESC LIMIT 1;"),
    (Flag.LIMIT_CUTS_TIE, "SELECT name, score FROM player ORDER BY 2 DESC LIMIT 1"),
    (Flag.LIMIT_CUTS_TIE, "SELECT * FROM player ORDER BY 3 DESC LIMIT 1"),
    (Flag.LIMIT_CUTS_TIE, "SELECT name FROM player ORDER BY score DESC LIMIT 1, 2"),
    (Flag.LIMIT_CUTS_TIE, "SELECT name FROM player ORDER BY score DESC LIMIT 1 OFFSET 1"),
    (Flag.LIMIT_CUTS_TIE, "SELECT team FROM player GROUP BY team ORDER BY COUNT(*) DESC LIMIT 1"),
    (
        Flag.LIMIT_CUTS_TIE,
        "SELECT T1.name FROM player AS T1 INNER JOIN team AS T2 ON T1.team = "
        "T2.id ORDER BY T2.points DESC LIMIT 1",
    ),
    (Flag.LIMIT_CUTS_TIE, "SELECT DISTINCT name FROM player ORDER BY score DESC LIMIT 1"),
    (
        Flag.LIMIT_CUTS_TIE,
        "SELECT title, points FROM team UNION ALL SELECT 'x', 0 ORDER BY points DESC LIMIT 1",
    ),
    (
        Flag.LIMIT_CUTS_TIE,
        "WITH best AS (SELECT * FROM team) SELECT title FROM best ORDER BY points DESC LIMIT 1",
    ),
    (
        Flag.LIMIT_CUTS_TIE,
        "SELECT id FROM player ORDER BY SUBSTR('aA', id, 1) COLLATE NOCASE DESC LIMIT 1",
    ),
    (Flag.LIMIT_CUTS_TIE, "SELECT id FROM word ORDER BY folded LIMIT 1"),
    (Flag.LIMIT_CUTS_TIE, "SELECT w.id AS n, w.folded AS f FROM word AS w ORDER BY f LIMIT 1"),
    (Flag.LIMIT_CUTS_TIE, "SELECT id, folded FROM (SELECT * FROM word) ORDER BY 2 LIMIT 1"),
    (Flag.LIMIT_CUTS_TIE, "SELECT MAX(id) FROM word GROUP BY id ORDER BY trimmed LIMIT 1"),
    (Flag.LIMIT_WITHOUT_ORDER, "SELECT name FROM player LIMIT 2"),
    (Flag.NULL_SORTS_FIRST, "SELECT born FROM player ORDER BY born ASC LIMIT 1"),
    (Flag.NULL_SORTS_FIRST, "SELECT name FROM player ORDER BY born LIMIT 1"),
    (Flag.NULL_SORTS_FIRST, "SELECT name FROM player ORDER BY born DESC NULLS FIRST LIMIT 1"),
    (Flag.TEXT_SORTED_AS_NUMBER, "SELECT speed FROM player ORDER BY speed DESC LIMIT 1"),
    (Flag.TEXT_SORTED_AS_NUMBER, "SELECT name, speed FROM player ORDER BY 2 LIMIT 2"),
    (Flag.TEXT_SORTED_AS_NUMBER, "SELECT MAX(speed) FROM player"),
    (Flag.TEXT_SORTED_AS_NUMBER, "SELECT team, MAX(DISTINCT speed) FROM player GROUP BY team"),
    (
        Flag.TEXT_SORTED_AS_NUMBER,
        "SELECT name FROM player WHERE speed = (SELECT MIN(p.speed) FROM player AS p)",
    ),
    (
        Flag.TEXT_SORTED_AS_NUMBER,
        "WITH fast AS (SELECT speed FROM player) SELECT MAX(speed) FROM fast",
    ),
    (Flag.TEXT_SORTED_AS_NUMBER, "SELECT id FROM sale ORDER BY paid DESC LIMIT 1"),
    (Flag.TEXT_SORTED_AS_NUMBER, "SELECT id FROM sale ORDER BY part DESC LIMIT 1"),
    (Flag.TEXT_SORTED_AS_NUMBER, "SELECT id FROM sale ORDER BY sold DESC LIMIT 1"),
    (Flag.TEXT_SORTED_AS_NUMBER, "SELECT id FROM sale ORDER BY code DESC LIMIT 1"),
    (Flag.TEXT_SORTED_AS_NUMBER, "SELECT MAX(sold), COUNT(*) FROM sale"),
    (Flag.BARE_COLUMN, "SELECT name, MAX(score) FROM player"),
    (Flag.BARE_COLUMN, "SELECT MIN(score), id FROM player"),
    (
        Flag.BARE_COLUMN,
        "SELECT name, COUNT(*) AS n FROM player GROUP BY team ORDER BY n, 1 LIMIT 3",
    ),
    (Flag.BARE_COLUMN, "SELECT born, SUM(score) FROM player WHERE team = 1"),
    (Flag.BARE_COLUMN, "SELECT x FROM (SELECT name AS x, MAX(score) FROM player)"),
    (
        Flag.BARE_COLUMN,
        "WITH p AS (SELECT * FROM player) SELECT name FROM p GROUP BY team HAVING COUNT(*) > 1",
    ),
    (
        Flag.LIMIT_CUTS_TIE,
        "SELECT name FROM (SELECT name, ROW_NUMBER() OVER (ORDER BY score DESC) AS n FROM player) "
        "WHERE n = 1",
    ),
    (
        Flag.LIMIT_CUTS_TIE,
        "WITH r AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY score ORDER BY team) AS n "
        "FROM player) SELECT id FROM r WHERE n < 2",
    ),
    (Flag.BARE_COLUMN, "SELECT folded, MAX(id < 3) FROM word"),
    (
        Flag.LIMIT_CUTS_TIE,
        "SELECT w FROM (SELECT folded AS w, ROW_NUMBER() OVER (ORDER BY id > 2) AS n FROM word) "
        "WHERE n = 1",
    ),
    *(
        (Flag.LIMIT_CUTS_TIE, f"SELECT id, {function} OVER (ORDER BY score DESC) FROM player")
        for function in ("FIRST_VALUE(name)", "NTH_VALUE(name, 1)", "LAG(name)", "LEAD(name)")
    ),
    (Flag.LIMIT_CUTS_TIE, "SELECT name FROM player ORDER BY score DESC LIMIT 1; -- done"),
    (Flag.TEXT_SORTED_AS_NUMBER, "SELECT price FROM good ORDER BY price DESC LIMIT 1"),
    (Flag.TEXT_SORTED_AS_NUMBER, "SELECT id FROM blank ORDER BY speed DESC LIMIT 1"),
    (Flag.TEXT_SORTED_AS_NUMBER, "SELECT id FROM blank ORDER BY speed LIMIT 1"),
    (Flag.TEXT_SORTED_AS_NUMBER, "SELECT MAX(speed) FROM blank"),
    (Flag.CONCAT_WITHOUT_ORDER, "SELECT GROUP_CONCAT(name) FROM player"),
    (Flag.CONCAT_WITHOUT_ORDER, "SELECT team, GROUP_CONCAT(name, '; ') FROM player GROUP BY team"),
    (Flag.CONCAT_WITHOUT_ORDER, "SELECT 'a' || GROUP_CONCAT(DISTINCT name) FROM player"),
    (Flag.CONCAT_WITHOUT_ORDER, "SELECT JSON_GROUP_ARRAY(name) FROM player"),
    (
        Flag.CONCAT_WITHOUT_ORDER,
        "WITH p AS (SELECT * FROM player) SELECT GROUP_CONCAT(name) FILTER (WHERE id < 3) FROM p",
    ),
    (Flag.UNKNOWN_CAST_TYPE, "SELECT CAST(2 AS REL) * 100 / 3"),
    (Flag.UNKNOWN_CAST_TYPE, "SELECT AVG(CAST(born AS DATETIME)) FROM player"),
    (Flag.ASKS_OUTSIDE, "SELECT STRFTIME('%Y', CURRENT_TIMESTAMP) - born FROM player"),
    (Flag.ASKS_OUTSIDE, "SELECT STRFTIME('%Y', date('NOW')) - born FROM player"),
    (Flag.ASKS_OUTSIDE, "SELECT name FROM player WHERE born > DATE()"),
    (Flag.ASKS_OUTSIDE, "SELECT name, RANDOM() FROM player"),
    (Flag.COUNTS_EVERY_ROW, "SELECT COUNT(CASE WHEN score > 1 THEN 1 ELSE 0 END) FROM player"),
    (Flag.COUNTS_EVERY_ROW, "SELECT COUNT(IIF(score > 1, 'a', 'b')) FROM player"),
    (Flag.COUNTS_EVERY_ROW, "SELECT COUNT(name = 'Ann') * 100.0 / COUNT(*) FROM player"),
    (Flag.COUNTS_EVERY_ROW, "SELECT 1 WHERE (SELECT COUNT(name IS NULL) FROM player) > 1"),
    # Texts in double quotes are read as SQLite reads them.
    (Flag.BARE_COLUMN, 'SELECT name, COUNT(*) FROM player WHERE name <> "x_" GROUP BY team'),
    (Flag.TEXT_SORTED_AS_NUMBER, 'SELECT MAX(speed) FROM player WHERE name <> "it\'s"'),
    (Flag.LIMIT_CUTS_TIE, 'SELECT name FROM player WHERE name <> "x" ORDER BY score DESC LIMIT 1'),
]


@pytest.mark.parametrize(("flag", "sql"), FLAGGED)
def test_an_undetermined_answer_has_just_its_flag(flags_of, flag: Flag, sql: str) -> None:
    assert [found.flag for found in flags_of(sql)] == [flag]


def test_a_flag_says_what_was_found(flags_of) -> None:
    tie, null, text = flags_of(
        "SELECT name FROM player ORDER BY score DESC LIMIT 1",
        "SELECT name FROM player ORDER BY born LIMIT 1",
        "SELECT speed FROM player ORDER BY speed DESC LIMIT 1",
    )
    (word,) = flags_of("SELECT price FROM good ORDER BY price DESC LIMIT 1")
    assert word.detail == "'n/a', a text, comes before 100, a number"
    (most,) = flags_of("SELECT MAX(speed) FROM player")
    assert most.detail == "'9' is the extreme as text, 100 as a number"
    assert tie.detail == "2 rows sort as (9), such as ('Ann') and ('Bob')"
    assert null.detail == "NULL puts ('Ann') first"
    assert text.detail == "'9' comes first as text, 100 as a number"
    assert [flag.key for flag in (tie, null, text)] == ["dev/0", "dev/1", "dev/2"]


def test_inner_queries_are_checked(flags_of) -> None:
    (flag,) = flags_of(
        "WITH few AS (SELECT * FROM team) SELECT name FROM player WHERE team = "
        "(SELECT id FROM few ORDER BY points DESC LIMIT 1)"
    )
    assert flag.flag is Flag.LIMIT_CUTS_TIE
    assert flag.detail.startswith("in an inner query: 2 rows sort as (2.5)")


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT name FROM player ORDER BY score LIMIT 1 + 1", "not a plain number"),
        ("SELECT name FROM player ORDER BY score LIMIT 5000", "beyond 1,000 rows"),
        ("SELECT CAST(id AS REL) FROM player ORDER BY id LIMIT 1", "would change a cast"),
        (
            "SELECT name FROM player AS p WHERE id = (SELECT id FROM team WHERE team.id = p.team "
            "ORDER BY points LIMIT 1)",
            "in an inner query: no such column",
        ),
        (
            'SELECT name FROM player AS p WHERE id = (SELECT id FROM team WHERE id = "born" '
            "ORDER BY points LIMIT 1)",
            "not a column",
        ),
    ],
)
def test_what_cannot_be_checked_is_flagged_with_the_reason(flags_of, sql: str, reason: str) -> None:
    (flag,) = [found for found in flags_of(sql) if found.flag is not Flag.UNKNOWN_CAST_TYPE]
    assert flag.flag is Flag.UNCHECKED
    assert reason in flag.detail


def test_equal_queries_are_checked_once_and_failing_ones_not_at_all(flags_of) -> None:
    tie = "SELECT name FROM player ORDER BY score DESC LIMIT 1"
    flags = flags_of(tie, "SELECT nothing FROM player ORDER BY 1 LIMIT 1", tie)
    assert [flag.key for flag in flags] == ["dev/0", "dev/2"]


def test_casts_are_read_as_sqlite_reads_them() -> None:
    assert unknown_casts("SELECT CAST(x AS FLOATT), CAST( y as  datetime )") == [
        "FLOATT is REAL to SQLite",
        "DATETIME is NUMERIC to SQLite",
    ]
    for known in ("REAL", "decimal(10, 2)", "DOUBLE PRECISION", "varchar(9)", '"TEXT"'):
        assert unknown_casts(f"SELECT CAST(CAST(a AS INT) AS {known}) + (b) AS date") == []
    assert unknown_casts("SELECT 'CAST(x AS REL)', cast FROM t -- CAST(x AS REL)") == []
    with sqlite3.connect(":memory:") as connection:
        for name in ("REL", "FLOATT", "DATETIME", "STRING", "POINT", "NCHAR(5)"):
            (value,) = connection.execute(f"SELECT typeof(CAST('7.5' AS {name}))").fetchone()
            kinds = {"NUMERIC": "real", "REAL": "real", "INTEGER": "integer", "TEXT": "text"}
            assert value == kinds[affinity(name)]


@pytest.mark.parametrize("sql", ["SELECT (", "SELECT 1 FROM t LIMIT x", "SELECT " + "(" * 5000])
def test_no_query_breaks_the_reader(sql: str) -> None:
    with pytest.raises(Unreadable):
        cuts_of(sql)


def test_the_flags_of_real_gold(shared_data: Path, sandbox: Sandbox) -> None:
    spider = json.loads((shared_data / "spider" / "dev.json").read_text())
    asked = [(row["db_id"], row["query"]) for row in spider]
    folder = shared_data / "spider" / "database"
    databases = {name: folder / name / f"{name}.sqlite" for name, _ in asked}
    superhero = shared_data / "bird" / "databases" / "superhero" / "superhero.sqlite"
    mini = json.loads((shared_data / "bird" / "mini_dev_sqlite.json").read_text())
    assert sum(asks_outside(row["SQL"]) for row in mini) == 11
    asked += [("superhero", row["SQL"]) for row in mini if row["db_id"] == "superhero"]
    databases["superhero"] = superhero
    questions = [
        Question(f"dev/{n}", name, databases[name], "?", sql=sql)
        for n, (name, sql) in enumerate(asked)
    ]
    golds = {question.key: run_gold(question, sandbox) for question in questions}
    flags = flag_golds(questions, golds, sandbox, Limits())
    names = {question.key: question.db_id for question in questions}
    found = Counter((names[flag.key] == "superhero", flag.flag) for flag in flags)
    assert found == {
        (False, Flag.LIMIT_CUTS_TIE): 24,
        (False, Flag.TEXT_SORTED_AS_NUMBER): 8,
        (True, Flag.LIMIT_CUTS_TIE): 3,
        (True, Flag.LIMIT_WITHOUT_ORDER): 1,
    }
