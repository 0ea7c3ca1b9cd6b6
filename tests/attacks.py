"""Attempts to get out of the sandbox, as tables: add a line for every new idea.

Each entry is (name, SQL, statuses it may end in). ``{new}`` is a path where no file exists,
``{other}`` is another database. Tables: t(a INT, s TEXT), u(id INTEGER PRIMARY KEY, t_a INT),
FTS5 table docs(title, body), FTS4 table notes(body), r-tree geo(id, x0, x1), view v.
After every attempt all files in the folder must be what they were. ``SCHEMAS`` are databases
that attack whoever opens them.
"""

from __future__ import annotations

from text2sql.sandbox import Status

WRITE = frozenset({Status.WRITE})
ERROR = frozenset({Status.ERROR})
READ = frozenset({Status.OK})
STOPPED = frozenset({Status.TIMEOUT, Status.TOO_LARGE})
HARMLESS = frozenset({Status.OK, Status.ERROR})
NOTHING = frozenset({Status.NO_STATEMENT})
BROKEN = frozenset({Status.ERROR, Status.INFRASTRUCTURE})

# Statements that change something, each also tried in every disguise below.
CHANGES = [
    "INSERT INTO t VALUES (9, 'z')",
    "INSERT OR REPLACE INTO u VALUES (1, 2)",
    "INSERT INTO t DEFAULT VALUES",
    "INSERT INTO t SELECT * FROM t",
    "INSERT INTO u VALUES (1, 2) ON CONFLICT DO UPDATE SET t_a = 3",
    "INSERT INTO t VALUES (1, 'x') RETURNING a",
    "REPLACE INTO u VALUES (1, 2)",
    "UPDATE t SET a = 7",
    "UPDATE OR IGNORE t SET a = 7 WHERE a = 1 RETURNING *",
    "DELETE FROM t",
    "DELETE FROM t WHERE a = 1 RETURNING a",
    "WITH x AS (SELECT 1) DELETE FROM t WHERE a = 1",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT 1, 'q' FROM x",
    "WITH x AS (SELECT 1), y(b) AS (SELECT 2) UPDATE t SET a = 2",
    "WITH RECURSIVE x(n) AS (SELECT 1 UNION SELECT n + 1 FROM x LIMIT 3) REPLACE INTO u "
    "SELECT n, n FROM x",
    "WITH x AS MATERIALIZED (SELECT 1) DELETE FROM t",
    "WITH x AS NOT MATERIALIZED (SELECT 1) DELETE FROM t",
    "WITH x(a, [select]) AS (SELECT 1, 2) DELETE FROM t",
    "DELETE FROM t WHERE s = hex(zeroblob(2000000000))",
    "CREATE TABLE z (a)",
    "CREATE TABLE IF NOT EXISTS t (a)",
    "CREATE TABLE z AS SELECT * FROM t",
    "CREATE TEMP TABLE t (a)",
    "CREATE TEMPORARY VIEW t AS SELECT 1",
    "CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; END",
    "CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; SELECT CASE 1 WHEN 1 THEN 2 END; END",
    "CREATE INDEX i ON t (a)",
    "CREATE UNIQUE INDEX i ON t (a) WHERE a > 0",
    "CREATE VIEW w AS SELECT 1",
    "CREATE VIRTUAL TABLE f USING fts5(a)",
    "CREATE VIRTUAL TABLE f USING dbstat",
    "DROP TABLE t",
    "DROP TABLE IF EXISTS nope",
    "DROP TABLE docs",
    "DROP VIEW v",
    "DROP INDEX IF EXISTS i",
    "DROP TRIGGER IF EXISTS r",
    "ALTER TABLE t RENAME TO z",
    "ALTER TABLE t ADD COLUMN z",
    "ALTER TABLE t DROP COLUMN s",
    "ALTER TABLE t RENAME COLUMN a TO b",
    "REINDEX",
    "REINDEX t",
    "VACUUM",
    "VACUUM main",
    "VACUUM INTO '{new}'",
    "VACUUM main INTO '{new}'",
    "ANALYZE",
    "ANALYZE t",
    "ATTACH '{new}' AS x",
    "ATTACH DATABASE '{other}' AS x",
    "ATTACH 'file:{new}?mode=rwc' AS x",
    "ATTACH ':memory:' AS x",
    "ATTACH '' AS x",
    "DETACH x",
    "DETACH DATABASE main",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "BEGIN EXCLUSIVE TRANSACTION",
    "COMMIT",
    "END",
    "END TRANSACTION",
    "ROLLBACK",
    "ROLLBACK TO x",
    "SAVEPOINT x",
    "RELEASE x",
    "PRAGMA journal_mode = WAL",
    "PRAGMA journal_mode(delete)",
    "PRAGMA main.journal_mode = OFF",
    "PRAGMA query_only = 0",
    "PRAGMA query_only(0)",
    "PRAGMA writable_schema = 1",
    "PRAGMA trusted_schema = 1",
    "PRAGMA user_version = 4",
    "PRAGMA application_id(77)",
    "PRAGMA schema_version = 99",
    "PRAGMA encoding = 'UTF-16'",
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA wal_checkpoint",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA optimize",
    "PRAGMA incremental_vacuum",
    "PRAGMA shrink_memory",
    "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA temp_store = FILE",
    "PRAGMA mmap_size = 1000000",
    "PRAGMA cache_size = 1000000",
    "PRAGMA hard_heap_limit = 1",
    "PRAGMA case_sensitive_like = 1",
    "PRAGMA reverse_unordered_selects = 1",
    "PRAGMA full_column_names = 1",
    "PRAGMA automatic_index = 0",
    "PRAGMA cell_size_check = 0",
    "PRAGMA busy_timeout = 999999",
    "PRAGMA key = 'x'",
    "PRAGMA max_page_count = 1",
    "PRAGMA legacy_alter_table = 1",
    "PRAGMA stats",
    "PRAGMA lock_status",
    "PRAGMA data_store_directory = '/tmp'",
    'PRAGMA "journal_mode" = WAL',
    "PRAGMA [query_only] = 0",
    "PRAGMA `main`.`user_version` = 4",
    "PRAGMA 'user_version' = 4",
    "EXPLAIN PRAGMA journal_mode = WAL",
    "EXPLAIN QUERY PLAN PRAGMA query_only = 0",
    "INSERT INTO docs (docs) VALUES ('optimize')",
    "INSERT INTO docs (docs, rank) VALUES ('integrity-check', 1)",
    "INSERT INTO notes (notes) VALUES ('rebuild')",
    "DELETE FROM geo",
    "UPDATE sqlite_master SET sql = 'x'",
    "DELETE FROM sqlite_schema",
    "INSERT INTO sqlite_sequence VALUES ('t', 1)",
    "DELETE FROM [syntax error]",
    "UPDATE t SET a = 7 WHERE [near x: syntax error] = 1",
    "DELETE FROM t WHERE s COLLATE [syntax error] = 'x'",
    "INSERT INTO [incomplete input] VALUES (1)",
]

DISGUISES = [
    "{sql}",
    "  \n\t{sql} ;",
    "-- only reading\n{sql}",
    "/* SELECT */ {sql} -- done",
    "/* -- */ {sql}",
    ";;{sql}",
    "\ufeff{sql}",
    "SELECT 1; {sql}",
    "{sql}; SELECT 1",
    "SELECT ';'; -- ;\n {sql}",
    "SELECT 1\x00; {sql}",
    "SELECT 1\x00{sql}",
    "\x00{sql}",
    "SELECT '/*'; {sql} /* ' */",
    "SELECT $a(/*); {sql} --*/",
    "SELECT :a::b('); {sql} --'",
    'SELECT @a("); {sql} --"',
    "SELECT #a(--); {sql}",
    "SELECT [a; ]; {sql}",
    "SELECT `a\\`; {sql} --`",
    "SELECT 1;\r{sql}",
    "--\r\n/***/{sql}",
    "EXPLAIN SELECT 1; {sql}",
    "SELECT \ud800; {sql}",
    "```sql\n{sql}\n```",
    "```{sql}```",
    "{sql};\n```sql\nSELECT 1\n```",
]
"""How a change may be dressed up; the last three are for clean_sql."""


def _chain(step: str, times: int, last: str = "SELECT * FROM ?") -> str:
    """Return a text of names that each stand for ``step`` on the one before."""
    names = [f"a{n} AS ({step.replace('?', f'a{n - 1}')})" for n in range(1, times)]
    first = f"WITH a0 AS (SELECT 1 AS x), {', '.join(names)} "
    return first + last.replace("?", f"a{times - 1}")


_TWICE = "SELECT * FROM ? UNION ALL SELECT * FROM ?"
_ROWS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
_CELL = "hex(randomblob(20000))"


def _many(text: str) -> str:
    """Return an expression for a text many times over."""
    return f"replace(hex(zeroblob(800000)), '00', '{text}')"


_QUOTES, _APOSTROPHES = _many('"'), _many("''")
_MISSPELT = ", ".join(f'"no_{n}"' for n in range(1900))
_ARRAY = f"json_each('[' || {_many('1,')} || '1]')"
_FAR = "BETWEEN 1e308 PRECEDING AND 1e308 FOLLOWING EXCLUDE CURRENT ROW"
_MATCHED = "SELECT * FROM notes WHERE notes MATCH"
_RANKED = "SELECT * FROM docs WHERE docs MATCH 'hello' AND rank MATCH"

ATTACKS = [
    ("fts3_tokenizer", "SELECT fts3_tokenizer('simple')", ERROR),
    ("fts3_tokenizer set", "SELECT fts3_tokenizer('simple', x'4141414141414141')", ERROR),
    ("load_extension", "SELECT load_extension('{new}')", ERROR),
    ("load_extension entry", "SELECT load_extension('/lib/x.so', 'main')", ERROR),
    ("readfile", "SELECT readfile('/etc/passwd')", ERROR),
    ("writefile", "SELECT writefile('{new}', 'x')", ERROR),
    ("edit", "SELECT edit('x', 'sh')", ERROR),
    ("fts4 optimize", "SELECT optimize(notes) FROM notes", ERROR),
    ("fts5 api pointer", "SELECT fts5(1)", ERROR),
    ("fsdir", "SELECT * FROM fsdir('/')", ERROR),
    ("csv table", "SELECT * FROM csv('/etc/passwd')", ERROR),
    ("zipfile", "SELECT * FROM zipfile('{other}')", ERROR),
    ("dbpage", "SELECT * FROM sqlite_dbpage", ERROR),
    ("dbpage other", "SELECT * FROM sqlite_dbpage('{other}')", ERROR),
    ("statements of others", "SELECT sql FROM sqlite_stmt", ERROR),
    ("count of statements of others", "SELECT count(*) FROM main.SQLITE_STMT AS s", ERROR),
    ("explained statements of others", "EXPLAIN SELECT sql FROM sqlite_stmt", ERROR),
    ("other schema", "SELECT * FROM other.t", ERROR),
    ("temp schema", "SELECT * FROM temp.t", ERROR),
    ("temp master", "SELECT * FROM sqlite_temp_master", HARMLESS),
    ("explain delete", "EXPLAIN DELETE FROM t", READ),
    ("explain vacuum into", "EXPLAIN VACUUM INTO '{new}'", READ),
    ("explain create", "EXPLAIN CREATE TEMP TABLE z AS SELECT * FROM t", READ),
    ("explain virtual", "EXPLAIN CREATE VIRTUAL TABLE f USING fts5(a)", READ),
    ("explain drop", "EXPLAIN DROP TABLE docs", READ),
    ("explain query plan update", "EXPLAIN QUERY PLAN UPDATE t SET a = 2", READ),
    ("explain alter", "EXPLAIN ALTER TABLE t RENAME TO z", HARMLESS),
    ("explain attach", "EXPLAIN ATTACH '{new}' AS x", ERROR),
    (
        "explain trigger",
        "EXPLAIN CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; DELETE FROM t; END",
        READ,
    ),
    (
        "explain plan of a trigger",
        "EXPLAIN QUERY PLAN CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; END;",
        READ,
    ),
    (
        "after explained trigger",
        "EXPLAIN CREATE TRIGGER r DELETE ON t BEGIN; END; DROP TABLE t",
        WRITE,
    ),
    (
        "after an explained table called trigger",
        "EXPLAIN CREATE TABLE trigger (begin INT); DROP TABLE t",
        WRITE,
    ),
    (
        "after an explained view called trigger",
        "EXPLAIN QUERY PLAN CREATE VIEW trigger AS SELECT 1 AS begin; DROP TABLE t",
        WRITE,
    ),
    ("after a broken index called trigger", "CREATE INDEX trigger begin; DROP TABLE t", WRITE),
    ("explain what is none", "EXPLAIN QUERY BEGIN; EXPLAIN BEGIN", ERROR),
    ("explain explain", "EXPLAIN EXPLAIN SELECT 1", ERROR),
    ("pragma function of a setting", "SELECT * FROM pragma_journal_mode", HARMLESS),
    ("pragma function with value", "SELECT * FROM pragma_user_version(4)", ERROR),
    ("pragma function optimize", "SELECT * FROM pragma_optimize", ERROR),
    ("pragma function checkpoint", "SELECT * FROM pragma_wal_checkpoint('TRUNCATE')", ERROR),
    ("pragma function query_only", "SELECT * FROM pragma_query_only(0)", ERROR),
    ("subquery delete", "SELECT (DELETE FROM t)", ERROR),
    ("returning in a cte", "WITH x AS (DELETE FROM t RETURNING a) SELECT * FROM x", ERROR),
    ("delete in a from", "SELECT * FROM (DELETE FROM t RETURNING a)", ERROR),
    ("select into", "SELECT * INTO z FROM t", ERROR),
    ("parameter", "SELECT ?", ERROR),
    ("parameter after a number", "SELECT 1$a(;DROP/**/TABLE/**/t;)", WRITE),
    ("parameter after a hexadecimal number", "SELECT 0x1$a(;DROP/**/TABLE/**/t;)", ERROR),
    ("named parameter", "SELECT :a, @b, $c", ERROR),
    ("shell command", ".shell touch {new}", ERROR),
    ("shell output", ".output {new}", ERROR),
    ("copy", "COPY t TO '{new}'", ERROR),
    ("load data", "LOAD DATA INFILE '/etc/passwd' INTO TABLE t", ERROR),
    ("select into outfile", "SELECT * FROM t INTO OUTFILE '{new}'", ERROR),
    ("grant", "GRANT ALL ON t TO x", ERROR),
    ("truncate", "TRUNCATE TABLE t", ERROR),
    ("merge", "MERGE INTO t USING u ON 1 WHEN MATCHED THEN DELETE", ERROR),
    ("exec", "EXEC xp_cmdshell 'touch {new}'", ERROR),
    ("use", "USE other", ERROR),
    ("set", "SET search_path = x", ERROR),
    ("two reads", "SELECT 1; SELECT 2", ERROR),
    ("nul byte", "SELECT 1\x00", ERROR),
    ("nul in a string", "SELECT 'a\x00b'", ERROR),
    ("lone surrogate", "SELECT '\ud800'", ERROR),
    ("unterminated string", "SELECT 'abc; DROP TABLE t", ERROR),
    ("unterminated name", 'SELECT "abc; DROP TABLE t', ERROR),
    ("unterminated comment", "SELECT 1 /* ; DROP TABLE t", READ),
    ("drop in a string", "SELECT '; DROP TABLE t; --'", READ),
    ("drop in a comment", "SELECT 1 /* ; DROP TABLE t */", READ),
    ("drop in a name", 'SELECT 1 AS "; DROP TABLE t"', READ),
    ("drop in brackets", "SELECT 1 AS [; DROP TABLE t]", READ),
    ("drop in backticks", "SELECT 1 AS `; DROP TABLE t`", READ),
    ("cte called replace", "WITH replace AS (SELECT 1 AS a) SELECT a FROM replace", READ),
    ("column called end", 'SELECT 1 AS "end", 2 AS "delete"', READ),
    ("function replace", "SELECT replace(s, 'x', 'DELETE') FROM t", READ),
    ("values", "VALUES (1), (2)", READ),
    ("explain", "EXPLAIN SELECT * FROM t", READ),
    ("explain query plan", "EXPLAIN QUERY PLAN SELECT * FROM t", READ),
    ("table_info", "PRAGMA table_info(t)", READ),
    ("main.table_info", "PRAGMA main.table_info('t')", READ),
    ("foreign_key_list", "PRAGMA foreign_key_list(u)", READ),
    ("user_version", "PRAGMA user_version", READ),
    ("journal_mode", "PRAGMA journal_mode", READ),
    ("pragma function", "SELECT name FROM pragma_table_info('t')", READ),
    ("json_each", "SELECT value FROM json_each('[1,2]')", READ),
    ("json_tree", "SELECT fullkey FROM json_tree('{\"a\": [1]}')", READ),
    ("fts5 match", "SELECT * FROM docs WHERE docs MATCH 'hello'", READ),
    ("fts5 rank", "SELECT bm25(docs), snippet(docs, 0, '<', '>', '', 5) FROM docs('hello')", READ),
    ("fts4 match", "SELECT * FROM notes WHERE notes MATCH 'hello'", READ),
    ("r-tree", "SELECT * FROM geo WHERE x0 > 0", READ),
    (
        "recursion",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 9) "
        "SELECT sum(n) FROM r",
        READ,
    ),
    ("window", "SELECT a, row_number() OVER (ORDER BY a) FROM t", READ),
    ("view", "SELECT * FROM v", READ),
    ("sqlite_master", "SELECT name, sql FROM sqlite_master", READ),
    ("dbstat", "SELECT name FROM dbstat", HARMLESS),
    ("prose delete", "Delete: I cannot answer this.", ERROR),
    ("prose update", "Update: the tables hold no such data.", ERROR),
    ("prose begin", "Begin by looking at the tables", ERROR),
    ("prose create", "Create a table of sales per month", ERROR),
    ("prose drop", "Drop the first row and count the rest", ERROR),
    ("prose insert", "Insert the name into this query", ERROR),
    ("prose", "I do not know.", ERROR),
    ("misspelt delete", "DELETE FORM t", ERROR),
    ("write to a missing table", "DELETE FROM nope", WRITE),
    ("write to a missing column", "UPDATE t SET nope = 1", WRITE),
    ("trigger body", "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; END; SELECT 1", WRITE),
    ("empty", "", NOTHING),
    ("blank", " \n\t ", NOTHING),
    ("only a comment", "-- cannot answer", NOTHING),
    ("only a block comment", "/* DROP TABLE t */", NOTHING),
    ("only semicolons", ";;;", NOTHING),
    ("only a NUL", "\x00", NOTHING),
    ("long list", "SELECT " + ",".join(["1"] * 5000), ERROR),
    ("deep nesting", "SELECT " + "(" * 5000 + "1" + ")" * 5000, ERROR),
    ("deep expression", "SELECT " + "+".join(["1"] * 5000), ERROR),
    ("compound", " UNION ALL ".join(["SELECT 1"] * 1000), ERROR),
    ("many joins", "SELECT * FROM " + ",".join(["t"] * 70), ERROR),
    ("two million characters", "SELECT 1 -- " + "x" * 2_000_000, ERROR),
    ("endless trigger", "CREATE TRIGGER r BEGIN " + ";" * 90_000, ERROR),
    ("many comments", "SELECT 1" + "/**/" * 20_000, READ),
    ("many quotes", "SELECT " + "'" * 80_000, READ),
    ("many quoted names", "SELECT " + ", ".join(f'"c{n}"' for n in range(1500)), READ),
    ("long unknown token", "SELECT '" + "x" * 90_000, ERROR),
    ("long like", "SELECT 'a' LIKE '" + "%a" * 30_000 + "'", ERROR),
    ("statements by a name", "WITH x AS (SELECT sql FROM sqlite_stmt) SELECT * FROM x", ERROR),
    ("statements by a subquery", "SELECT s.sql FROM (SELECT * FROM sqlite_stmt) s", ERROR),
    ("statements in quotes", 'SELECT * FROM "SQLITE_STMT"', ERROR),
    ("whether there are statements", "SELECT EXISTS (SELECT 1 FROM sqlite_stmt)", ERROR),
    ("bytecode", "SELECT * FROM bytecode('SELECT 1')", ERROR),
    ("tables used", "SELECT * FROM tables_used('SELECT 1')", ERROR),
    ("memory statistics", "SELECT * FROM sqlite_memstat", ERROR),
    ("dbstat of another", "SELECT * FROM dbstat('other')", HARMLESS),
    ("table_info elsewhere", "SELECT * FROM pragma_table_info('t', 'temp')", HARMLESS),
    ("pragma function of like", "SELECT * FROM pragma_case_sensitive_like(1)", ERROR),
    ("pragma of temp", "PRAGMA temp.quick_check", READ),
    ("integrity_check", "PRAGMA integrity_check", READ),
    ("rtreecheck", "SELECT rtreecheck('geo')", HARMLESS),
    ("rtreenode", "SELECT rtreenode(2, zeroblob(100000))", HARMLESS),
    ("sqlite_log", "SELECT sqlite_log(1, 'x')", HARMLESS),
    ("rename helper", "SELECT sqlite_rename_table('main', 't', 't', 'x', 'y', 0)", ERROR),
    ("column helper", "SELECT sqlite_drop_column(0, 'CREATE TABLE t(a,b)', 1)", ERROR),
    ("matchinfo", "SELECT matchinfo(notes, 'pcnalsxyb') FROM notes WHERE notes MATCH 'x'", READ),
    ("fts4 nesting", f"SELECT * FROM notes WHERE notes MATCH '{'(' * 5000}a{')' * 5000}'", ERROR),
    ("fts4 many ORs", f"SELECT * FROM notes WHERE notes MATCH '{' OR '.join('a' * 9000)}'", ERROR),
    ("fts5 nesting", f"SELECT * FROM docs WHERE docs MATCH '{'(' * 5000}a{')' * 5000}'", ERROR),
    ("fts5 many NOTs", f"SELECT * FROM docs WHERE docs MATCH '{'a NOT ' * 5000}a'", HARMLESS),
    ("fts5 bad column", "SELECT snippet(docs, 9999, '', '', '', 5) FROM docs('hello')", ERROR),
    ("fts5 endless NOTs", f"SELECT 1 FROM docs({_many('a NOT ')} || 'a')", ERROR | STOPPED),
    ("fts5 endless ORs", f"SELECT 1 FROM docs({_many('a OR ')} || 'a')", READ | STOPPED),
    ("fts5 endless phrase", f"SELECT 1 FROM docs('a' || {_many('+a')})", READ | STOPPED),
    ("fts4 endless phrase", f"{_MATCHED} '\"' || {_many('a ')} || '\"'", READ | STOPPED),
    ("fts4 endless NEAR", f"{_MATCHED} 'a' || {_many(' NEAR a')}", ERROR | STOPPED),
    ("fts5 rank by a name", f"{_RANKED} 'load_extension(''x'')' ORDER BY rank", ERROR),
    ("fts5 rank by SQL", f"{_RANKED} 'bm25(); DELETE FROM t' ORDER BY rank", HARMLESS),
    (
        "fts5 markers",
        f"SELECT highlight(docs, 0, {_many('a')}, {_many('a')}) FROM docs('hello')",
        READ,
    ),
    ("r-tree match", "SELECT * FROM geo WHERE id MATCH zeroblob(1000)", ERROR),
    ("geopoly", "SELECT geopoly_svg('[]')", ERROR),
    ("json nesting", f"SELECT json_extract('{'[' * 3000}{']' * 3000}', '$[0]')", ERROR),
    ("long json path", f"SELECT json_extract('{{}}', '${'.a' * 20_000}')", HARMLESS),
    ("printf precision", "SELECT printf('%.999999999f', 1.0)", HARMLESS),
    ("printf width", "SELECT printf('%2147483647d', 1)", HARMLESS | STOPPED),
    ("printf negative width", "SELECT printf('%*d', -2147483648, 1)", HARMLESS | STOPPED),
    ("printf pointers", "SELECT printf('%s%n%p', 1, 2, 3)", HARMLESS),
    ("long strftime", f"SELECT length(strftime('{'%f' * 40_000}', 'now'))", HARMLESS),
    ("date arithmetic", "SELECT date('now', '+999999999999 years')", HARMLESS),
    ("division overflow", "SELECT -9223372036854775808 / -1, -9223372036854775808 % -1", READ),
    ("abs overflow", "SELECT abs(-9223372036854775808)", ERROR),
    ("substr overflow", "SELECT substr('a', -9223372036854775808, 9223372036854775807)", READ),
    ("text that is not UTF-8", "SELECT CAST(x'ffffffff' AS TEXT)", READ),
    ("characters beyond Unicode", "SELECT char(-1, 55296, 1114112)", READ),
    ("circular name", "WITH t AS (SELECT * FROM t) SELECT * FROM t", ERROR),
    ("parser stack", f"SELECT {'(SELECT ' * 150}1{')' * 150}", ERROR),
    ("nested cases", f"SELECT {'CASE WHEN 1 THEN ' * 400}1{' END' * 400}", ERROR),
    ("many collations", f"SELECT 'a' {'COLLATE nocase ' * 5000}", HARMLESS),
    ("many order terms", f"SELECT 1 ORDER BY {','.join(['random()'] * 1900)}", READ),
    ("long IN", f"SELECT 1 WHERE 1 IN ({','.join(map(str, range(15_000)))})", READ),
    ("full-width letters", "\uff24\uff32\uff2f\uff30 TABLE t", ERROR),
    ("zero-width space", "DRO\u200bP TABLE t", ERROR),
    ("no-break space", "\xa0DROP TABLE t", ERROR),
    ("vertical tab", "\x0bDROP TABLE t", ERROR),
    ("mark amid the text", "SELECT 1;\ufeffDROP TABLE t", WRITE),
    ("comment in a comment", "/* /* */ DROP TABLE t -- */", WRITE),
    ("drop after NULs", "SELECT 1;\x00\x00DROP TABLE t", WRITE),
    ("comment ended by CR", "-- x\rDROP TABLE t", NOTHING),
    ("suffix, then a drop", "SELECT 1\t----- bird -----\tdb; DROP TABLE t", READ),
    ("names that double", _chain(_TWICE, 40), STOPPED),
    ("explained names that double", "EXPLAIN " + _chain(_TWICE, 40), STOPPED),
    ("joins that double", _chain("SELECT p.x FROM ? p, ? q", 30), STOPPED),
    ("columns that double", _chain("SELECT * FROM ? p, ? q", 14), ERROR),
    ("write that doubles", _chain(_TWICE, 40, "DELETE FROM t WHERE a IN (SELECT x FROM ?)"), WRITE),
    ("long chain of names", _chain("SELECT x FROM ?", 1500), READ),
    ("long chain of groups", _chain("SELECT max(x) AS x FROM ? GROUP BY x", 1500), READ),
    ("long chain of IN", _chain("SELECT 1 AS x WHERE 1 IN ?", 1500), ERROR),
    ("long chain of windows", _chain("SELECT sum(x) OVER () AS x FROM ?", 1500), ERROR),
    ("long chain of joins", _chain("SELECT x FROM ? LEFT JOIN t", 1500), ERROR),
    ("large groups", f"{_ROWS} SELECT {_CELL} AS x, count(*) FROM r GROUP BY x", STOPPED),
    ("large set", f"{_ROWS} SELECT 1 WHERE 'a' IN (SELECT {_CELL} FROM r)", STOPPED),
    ("large union", f"{_ROWS} SELECT n, {_CELL} FROM r EXCEPT SELECT 1, 2", STOPPED),
    ("large window", f"{_ROWS} SELECT lead({_CELL}, 99999) OVER (ORDER BY n) FROM r", STOPPED),
    ("large frame", f"{_ROWS} SELECT group_concat(n) OVER (ORDER BY n) FROM r", STOPPED),
    ("large array", f"{_ROWS} SELECT json_group_array({_CELL}) FROM r", STOPPED),
    ("large recursion", f"{_ROWS.replace('ALL ', '')} SELECT count({_CELL}) FROM r, r", STOPPED),
    (
        "long name",
        f'WITH w("{"c" * 45_000}") AS (SELECT 1) SELECT {"w.*," * 1899}w.* FROM w',
        READ | STOPPED,
    ),
    (
        "many large columns",
        f"SELECT {','.join(['zeroblob(9900000)'] * 60)}",
        STOPPED,
    ),
    (
        "endless set",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r) SELECT count(*) FROM r",
        STOPPED,
    ),
    ("zeroblob", "SELECT zeroblob(2000000000)", STOPPED),
    ("randomblob", "SELECT randomblob(200000000)", STOPPED),
    ("printf", "SELECT length(printf('%.*c', 300000000, 'x'))", STOPPED | HARMLESS),
    ("hex", "SELECT hex(zeroblob(9000000))", STOPPED),
    ("replace", "SELECT length(replace(hex(zeroblob(20000)), '0', hex(zeroblob(5000))))", STOPPED),
    (
        "group_concat",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
        "SELECT group_concat(hex(zeroblob(4000))) FROM r",
        STOPPED,
    ),
    (
        "endless rows",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
        STOPPED,
    ),
    (
        "endless count",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
        STOPPED,
    ),
    (
        "endless sort",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
        "SELECT n FROM r ORDER BY -n",
        STOPPED,
    ),
    (
        "wide rows",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
        "SELECT zeroblob(5000000) FROM r",
        STOPPED,
    ),
    (
        "one long function",
        "SELECT instr(hex(zeroblob(3000000)), hex(zeroblob(1500000)) || '1')",
        STOPPED,
    ),
    ("glob backtracking", "SELECT hex(zeroblob(4000000)) GLOB '*0*0*0*0*0*0*0*1'", STOPPED | READ),
    ("quotes that double", f"SELECT length(printf('%w', {_QUOTES}))", READ | STOPPED),
    ("quoted text", f"SELECT length(quote({_APOSTROPHES}))", READ | STOPPED),
    ("escapes that grow", f"SELECT length(json_quote({_many('x')} || zeroblob(1)))", HARMLESS),
    ("one long trim", f"SELECT length(trim({_many('a')}, {_many('b')} || 'a'))", READ | STOPPED),
    ("glob classes", f"SELECT {_many('00')} GLOB '*[0-9]*[0-9]*[0-9]*[0-9]*[a]'", READ | STOPPED),
    ("distinct text", f"{_ROWS} SELECT length(group_concat(DISTINCT n)) FROM r", STOPPED),
    ("every other row", f"{_ROWS} SELECT sum(n) OVER (ROWS CURRENT ROW) FROM r", STOPPED),
    ("product of arrays", f"SELECT count(*) FROM {_ARRAY} a, {_ARRAY} b, {_ARRAY} c", STOPPED),
    (
        "endless union of endless unions",
        "WITH RECURSIVE a(n) AS (SELECT 1 UNION SELECT n + 1 FROM a), "
        "b AS (SELECT * FROM a UNION SELECT * FROM a) SELECT count(*) FROM b",
        STOPPED,
    ),
    (
        "names that need each other",
        "WITH RECURSIVE a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a",
        ERROR,
    ),
    ("raise", "SELECT raise(abort, 'x')", ERROR),
    ("no tiles", "SELECT ntile(0) OVER () FROM t", ERROR),
    ("far rows", "SELECT lag(a, 9223372036854775807) OVER (), lead(a, -9e18) OVER () FROM t", READ),
    ("far frames", f"SELECT sum(a) OVER (ORDER BY a RANGE {_FAR}) FROM t", READ),
    ("far pages", "SELECT a FROM t LIMIT 9223372036854775807 OFFSET 9223372036854775807", READ),
    ("many misspelt names", f"SELECT {_MISSPELT}", READ),
    (
        "cross join",
        "SELECT count(*) FROM " + ", ".join(f"docs_data d{n}" for n in range(20)),
        STOPPED,
    ),
]


_BOMB = _chain("SELECT p.x FROM ? p, ? q", 30)
_IN_A_BOMB = _chain("SELECT p.x FROM ? p, ? q", 30, "{sql} (SELECT x FROM ?)")

WRITES_WITH_BOMBS = [
    _IN_A_BOMB.replace("{sql}", "DELETE FROM t WHERE a IN"),
    _IN_A_BOMB.replace("{sql}", "UPDATE t SET a ="),
    _IN_A_BOMB.replace("{sql}", "INSERT INTO t (a) SELECT * FROM"),
    f"CREATE TABLE z AS {_BOMB}",
    f"{_BOMB}; DROP TABLE t",
    f"DROP TABLE t; {_BOMB}",
    _chain("SELECT p.x FROM ? p LEFT JOIN ? q", 30, "REPLACE INTO t (a) SELECT x FROM ?"),
]
"""Writes that take longer to compile than any limit: still writes, not late queries."""


def _entry(name: str, sql: str, kind: str = "table", root: int = 0) -> str:
    """Return SQL that writes an entry into the schema, as no CREATE would."""
    values = ", ".join("'" + text.replace("'", "''") + "'" for text in (kind, name, name))
    quoted = sql.replace("'", "''")
    return f"INSERT INTO sqlite_master VALUES ({values}, {root}, '{quoted}');"


def _generated(expression: str) -> str:
    return _entry("g", f"CREATE TABLE g (a, b AS ({expression}))", root=2)


_SLOW = "instr(hex(zeroblob(4000000)), hex(zeroblob(2000000)) || '1')"
_VIRTUAL = "CREATE VIRTUAL TABLE f USING"
_F, _T = "SELECT * FROM f", "SELECT * FROM t"

SCHEMAS = [
    ("statements of others", _entry("f", f"{_VIRTUAL} sqlite_stmt"), "SELECT sql FROM f", ERROR),
    ("quoted", _entry("f", f'{_VIRTUAL} "SQLITE_STMT"'), "SELECT count(*) FROM main.F", ERROR),
    ("spaced", _entry("f", "CREATE\tVIRTUAL/**/TABLE f USING[sqlite_stmt]"), _F, ERROR),
    (
        "as a blob",
        _entry("f", f"{_VIRTUAL} sqlite_stmt")
        + "UPDATE sqlite_master SET sql = CAST(sql AS BLOB);",
        _F,
        ERROR,
    ),
    (
        "name with a NUL",
        _entry("f", f"{_VIRTUAL} sqlite_stmt")
        + "UPDATE sqlite_master SET name = name || char(0) || 'x' WHERE name = 'f';",
        _F,
        ERROR,
    ),
    (
        "trigger of the same name",
        _entry("f", f"{_VIRTUAL} sqlite_stmt")
        + "CREATE TRIGGER f AFTER INSERT ON t BEGIN SELECT 'virtual'; END;",
        _F,
        ERROR,
    ),
    (
        "of others, kept",
        _entry("f", f"{_VIRTUAL} fts4(sql, content=sqlite_stmt)"),
        _F,
        ERROR,
    ),
    (
        "of others, indexed",
        _entry("f", f"{_VIRTUAL} fts5(sql, content=sqlite_stmt)"),
        _F,
        BROKEN,
    ),
    ("view of them", "CREATE VIEW f AS SELECT sql FROM sqlite_stmt;", _F, ERROR),
    ("pages", _entry("f", f"{_VIRTUAL} sqlite_dbpage"), _F, ERROR),
    ("settings", _entry("f", f"{_VIRTUAL} pragma_user_version"), _F, ERROR),
    ("extension in a view", "CREATE VIEW f AS SELECT load_extension('x');", _F, ERROR),
    ("tokenizer in a view", "CREATE VIEW f AS SELECT fts3_tokenizer('x');", _F, ERROR),
    ("change in a view", _entry("f", "CREATE VIEW f AS DELETE FROM t", "view"), "SELECT 1", None),
    (
        "second statement",
        _entry("f", "CREATE VIEW f AS SELECT 1; DROP TABLE t", "view"),
        _F,
        READ,
    ),
    ("change as an entry", _entry("f", "DELETE FROM t"), "SELECT 1", None),
    ("attach as an entry", _entry("f", "ATTACH '{new}' AS x"), "SELECT 1", None),
    ("table from a query", _entry("f", "CREATE TABLE f AS SELECT 1", root=2), "SELECT 1", None),
    ("extension in a column", _generated("load_extension('x')"), "SELECT * FROM g", None),
    ("chance in a column", _generated("random()"), "SELECT * FROM g", None),
    ("slow column", _generated(_SLOW), "SELECT b FROM g", STOPPED),
    ("slow view", f"CREATE VIEW f AS SELECT {_SLOW};", _F, STOPPED),
    (
        "views that double",
        "".join(
            f"CREATE VIEW f{n} AS SELECT p.a FROM {f} p, {f} q;"
            for n in range(30)
            for f in [f"f{n - 1}" if n else "t"]
        ),
        "SELECT * FROM f29",
        ERROR | STOPPED,
    ),
    (
        "views that need each other",
        "CREATE VIEW f AS SELECT * FROM g; CREATE VIEW g AS SELECT * FROM f;",
        _F,
        ERROR,
    ),
    ("table twice", _entry("t", "CREATE VIEW t AS SELECT 1", "view"), "SELECT 1", None),
    (
        "schema's name",
        _entry("sqlite_master", "CREATE TABLE sqlite_master (a)", root=2),
        _T,
        None,
    ),
    ("schema's page", "UPDATE sqlite_master SET rootpage = 1;", "SELECT 1", None),
    ("page beyond the end", "UPDATE sqlite_master SET rootpage = 99999;", "SELECT 1", None),
    ("entry that is a number", "UPDATE sqlite_master SET sql = 5;", "SELECT 1", None),
    ("long broken entry", _entry("n" * 300_000, "CREATE TABLE x ("), "SELECT 1", None),
    ("escapes in an entry", _entry("\x1b]0;x\x07\x1b[31m", "CREATE TABLE x ("), "SELECT 1", None),
    ("no shadow tables", _entry("f", f"{_VIRTUAL} fts4(a)"), _F, ERROR),
    ("no nodes", _entry("f", f"{_VIRTUAL} rtree(a, b, c)"), _F, ERROR),
    ("unknown tokenizer", _entry("f", f"{_VIRTUAL} fts5(a, tokenize=x)"), _F, ERROR),
    (
        "huge statistics",
        "CREATE INDEX i ON t(a); ANALYZE; UPDATE sqlite_stat1 SET stat = "
        "printf('%.*c', 900000, '9 ');",
        _T,
        READ,
    ),
    ("trigger", "CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; END;", _T, READ),
    (
        "2,000 columns",
        f"CREATE TABLE f ({','.join(f'c{n}' for n in range(2000))});",
        _F,
        READ,
    ),
    ("3,000 tables", "".join(f"CREATE TABLE f{n} (a);" for n in range(3000)), _T, READ),
]
"""(name, script that makes it, SQL on it, statuses it may end in; None: refused as damaged).

The script runs on a database with the table t(a, b) while its schema is writable.
"""


def disguised() -> list[tuple[str, str]]:
    """Return every change in every disguise, as (name, SQL)."""
    return [
        (f"{change[:40]} | {disguise[:20]!r}", disguise.replace("{sql}", change))
        for change in CHANGES
        for disguise in DISGUISES
    ]
