"""Our verdicts beside those of an evaluator in the official style, for pairs of odd queries."""

import sqlite3
from contextlib import closing

from text2sql.judge.verdicts import Verdict, execute_submission, gold_result, verdict_of
from text2sql.sandbox import Sandbox, Status

TABLES = """
CREATE TABLE t (a, b, c);
INSERT INTO t VALUES
  (1, 1.0, '1'), (NULL, -0.0, x'31'), (9007199254740993, 9007199254740992.0, 'a'),
  (9223372036854775807, 9.2233720368547758e18, x''), (0, 0.0, '0'), (1e400, -1e400, 'é'),
  (-9223372036854775808, -9.2233720368547758e18, ''), (0.1 + 0.2, 0.3, 'x' || char(0) || 'y');
CREATE TABLE e (a, b);
CREATE TABLE bad (a TEXT);
INSERT INTO bad VALUES (CAST(x'ff41' AS TEXT)), ('ok');
CREATE VIRTUAL TABLE docs USING fts5(x);
INSERT INTO docs VALUES ('hello');
CREATE VIRTUAL TABLE words USING fts5vocab(docs, row);
CREATE VIEW columns_of_t AS SELECT name FROM pragma_table_info('t');
CREATE VIEW all_words AS SELECT term FROM words;
CREATE VIEW found AS SELECT x FROM docs WHERE docs MATCH 'hello';
CREATE VIEW one_two AS SELECT value FROM json_each('[1,2]');
"""

QUERIES = [
    "SELECT a FROM t",
    "SELECT b FROM t",
    "SELECT c FROM t",
    "SELECT a,b FROM t",
    "SELECT b,a FROM t",
    "SELECT DISTINCT a FROM t",
    "SELECT a FROM t ORDER BY a DESC",
    "SELECT CAST(a AS REAL) FROM t",
    "SELECT CAST(b AS INT) FROM t",
    "SELECT CAST(c AS BLOB) FROM t",
    "SELECT CAST(c AS TEXT) FROM t",
    "SELECT a FROM e",
    "SELECT a,b FROM e",
    "SELECT 1 WHERE 0",
    "SELECT NULL",
    "SELECT 0",
    "SELECT -0.0",
    "SELECT 0.0",
    "SELECT '0'",
    "SELECT ''",
    "SELECT x''",
    "SELECT 1",
    "SELECT 1.0",
    "SELECT '1'",
    "SELECT x'31'",
    "SELECT 1;;",
    "SELECT 1;",
    "SELECT 1; ",
    "SELECT 1; -- x",
    "SELECT 1; /* ; */ -- ;",
    "SELECT 1; /* ;",
    "SELECT 1; - ",
    "SELECT 1;\ufeff",
    "SELECT 1; \v",
    "SELECT 1;\f\n",
    ";WITH x AS (SELECT 1) SELECT * FROM x",
    "-- x\n; ;SELECT 1;",
    ";SELECT ';';;",
    "-- x",
    "",
    "/* x */",
    ";",
    "SELECT 1 -- x",
    "SELECT 1 /* x",
    "VALUES (1)",
    "VALUES (1),(1.0)",
    "SELECT true",
    "SELECT 1=1",
    "EXPLAIN SELECT 1",
    "PRAGMA table_info(t)",
    "PRAGMA table_info(nope)",
    "SELECT * FROM bad",
    "SELECT a FROM bad WHERE a='ok'",
    "SELECT 'ok'",
    "SELECT count(*) FROM bad",
    "SELECT 9007199254740993",
    "SELECT 9007199254740992",
    "SELECT 9007199254740992.0",
    "SELECT 9223372036854775807",
    "SELECT 9223372036854775808",
    "SELECT 9.2233720368547758e18",
    "SELECT -9223372036854775808",
    "SELECT 1e308*10",
    "SELECT -1e308*10",
    "SELECT 'x'||char(0)||'y'",
    "SELECT 'x'",
    "SELECT '\xe9'",
    "SELECT 'e\u0301'",
    "SELECT '\xc9'",
    "SELECT char(0xd800)",
    "SELECT char(65533)",
    "SELECT 1,NULL",
    "SELECT NULL,1",
    "SELECT 1 UNION ALL SELECT 1",
    "SELECT * FROM columns_of_t",
    "SELECT * FROM all_words",
    "SELECT * FROM found",
    "SELECT * FROM one_two",
    "SELECT name FROM pragma_table_info('t')",
    "SELECT nope FROM t",
    'SELECT "nope" FROM t',
    "SELECT 'nope' FROM t",
    "SELECT 1 LIMIT 0",
    "SELECT group_concat(a) FROM e",
    "SELECT sum(a) FROM e",
    "SELECT total(a) FROM e",
    "SELECT max(a) FROM e",
    "\ufeffSELECT 1",
    "SELECT 1\x00",
    "SELECT\xa01",
    "SELECT 1; SELECT 1",
    "SELECT ?",
    "SELECT :a",
    "WITH x AS (SELECT 1) SELECT * FROM x",
    "SELECT zeroblob(10)",
    "SELECT x'00000000000000000000'",
    "SELECT CAST(zeroblob(3) AS TEXT)",
    "SELECT 0x10",
    "SELECT 16",
    "SELECT 1e0",
    "SELECT 100000000000000000000",
    "SELECT 1e20",
    "SELECT 3.0000000000000001",
    "SELECT 3",
    "SELECT 5e-324",
    "SELECT 0.1+0.2",
    "SELECT 0.3",
    "SELECT 0.30000000000000004",
    "SELECT 1 AS a, 1 AS a",
    "SELECT 1,1",
    "SELECT typeof(NULL)",
    "SELECT 'null'",
    "SELECT rowid FROM t",
    "SELECT date('2020-01-01')",
    "SELECT '2020-01-01'",
    "SELECT json('[1]')",
    "SELECT '[1]'",
    "SELECT json_extract('[1.0]','$[0]')",
    "SELECT json_extract('[\"1\"]','$[0]')",
]


def official(path, prediction, gold):
    """Set equality on one connection, prediction first; whatever fails is no match."""
    with closing(sqlite3.connect(path)) as connection:
        try:
            return set(connection.execute(prediction)) == set(connection.execute(gold))
        except (sqlite3.Error, sqlite3.Warning, ValueError):
            return False


def test_every_pair_is_judged_as_officially(tmp_path):
    path = tmp_path / "odd.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES)
    with Sandbox(1) as sandbox:
        texts = [(path, sql) for sql in QUERIES]
        golds = [gold_result("", "", run) for run in sandbox.execute_many(texts, strict_text=True)]
        runs = [execute_submission(sql, path, sandbox) for sql in QUERIES]
    matches, other = 0, []
    for prediction, run in zip(QUERIES, runs, strict=True):
        for text, gold in zip(QUERIES, golds, strict=True):
            if Status.NO_STATEMENT in (run.status, gold.status):
                continue  # we differ on purpose: nothing never matches
            match = verdict_of(run, gold) is Verdict.MATCH
            matches += match
            if match != official(path, prediction, text):
                other.append((prediction, text, run.error, gold.error))
    assert other == []
    assert 300 < matches < len(QUERIES) ** 2 / 4
