"""What a write looks like, in SQLite's grammar or another dialect's.

A statement for another database (``TRUNCATE TABLE t``) is a write attempt although SQLite cannot
read it; a sentence that begins with the same verb (``Truncate the names``) is not. The forms are
matched with tokens, so that nothing in a comment, a text or a quoted name counts.

A line of the table is a form, in words: ``A|B`` is either, ``A?`` may be missing, ``...`` is
anything up to the first of what comes next, ``$`` the end, ``<name>`` a name that may have its
schema before it, other words in angles a kind of token. They follow the grammars of PostgreSQL,
MySQL, SQL Server, Oracle, Snowflake and Hive. What a sentence may say as well (``Delete
duplicates``) and what does not show whether it changes anything (``CALL p()``) is not in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise

from text2sql.sandbox.sql.tokens import Token

_ROUTINE = "FUNCTION|PROCEDURE|PROC|AGGREGATE"
_PLACE = "DATABASE|SCHEMA|USER|ROLE|SEQUENCE|TYPE|DOMAIN|EXTENSION|TABLESPACE|SERVER|EVENT"
_RIGHT = "ALL|SELECT|INSERT|UPDATE|DELETE|EXECUTE|USAGE|CREATE|REFERENCES|TRIGGER|CONNECT|ALTER"
_ROWS = "(|VALUES|VALUE|SELECT|SET|DEFAULT|WITH|TABLE|AS|PARTITION|OVERRIDING|OUTPUT"
_NEW = (
    "OR? REPLACE|ALTER? TEMP|TEMPORARY|GLOBAL|LOCAL|UNLOGGED|EXTERNAL|MATERIALIZED|RECURSIVE? TEMP?"
)
_IF = "IF? NOT? EXISTS?"
_OTHER = "LOGIN|SYNONYM|STATISTICS"
_IS = "=|<|>|!|LIKE|IN|BETWEEN"
_JOIN = "JOIN|INNER|LEFT|RIGHT|FULL|CROSS|NATURAL|,"

_FORM_LINES = f"""
INSERT <modifier>? INTO TABLE? <name> {_ROWS}
INSERT IGNORE|OVERWRITE INTO? TABLE? <name> {_ROWS}
INSERT|REPLACE <name> VALUES (
INSERT|REPLACE <name> ( ... ) VALUES|VALUE (
INSERT|REPLACE <name> ( ... ) SELECT|WITH|DEFAULT|OUTPUT
INSERT|REPLACE <name> SELECT
INSERT|REPLACE <name> SET <name> =
INSERT <name> DEFAULT VALUES
INSERT <name> OUTPUT INSERTED
INSERT INTO? <name> EXEC|EXECUTE <name>|<variable>|(
INSERT TOP ( ... ) PERCENT? INTO? <name> (|SELECT|VALUES|WITH|OUTPUT
INSERT ALL|FIRST INTO <name> (|VALUES|SELECT
UPSERT INTO <name> (|VALUES|SELECT
BULK INSERT <name> FROM <string>
REPLACE LOW_PRIORITY|DELAYED? INTO <name> {_ROWS}
UPDATE <modifier>? <name> AS? <name>? SET <name>|( =|,|)|<name>
UPDATE <modifier>? <name> AS? <name>? SET <name> +|-|*|/|% =
UPDATE <modifier>? <name> AS? <name>? {_JOIN} ... SET <name> =
UPDATE <name> WITH|PARTITION ( ... ) SET <name> =
UPDATE STATISTICS <name> (|WITH
DELETE <modifier>? FROM ONLY? <name> \
$|WHERE|USING|LIMIT|ORDER|RETURNING|PARTITION|OUTPUT|AS|INDEXED|NOT
DELETE * FROM <name> $|WHERE
DELETE TOP ( ... ) PERCENT? FROM? <name>
UPDATE TOP ( ... ) PERCENT? <name> SET <name>
DELETE <name> WHERE NOT? <name> NOT? {_IS}
DELETE <name> WHERE NOT? <name> IS NOT? NULL
DELETE <name> WHERE NOT? EXISTS (
DELETE <name> OUTPUT DELETED
DELETE <name> WITH (
DELETE FROM <name> <name> WHERE|USING|JOIN|INNER|LEFT|LIMIT
DELETE <name> FROM <name> AS? <name>? {_JOIN}
DELETE <name> FROM <name> AS? <name>? WHERE NOT? <name> NOT? {_IS}
DELETE <name> , <name> FROM <name> AS? <name>? {_JOIN}
DELETE FROM <name> , <name> USING <name>
MERGE INTO <name> ... USING ... WHEN
MERGE <name> AS? <name>? USING ... WHEN
MERGE TOP ( ... ) PERCENT? INTO? <name> ... USING ... WHEN
TRUNCATE TABLE {_IF} ONLY? <name> $|,|CASCADE|RESTRICT|RESTART|CONTINUE|DROP|REUSE|WITH|PARTITION
TRUNCATE <name> $|,|CASCADE|RESTRICT|RESTART|CONTINUE
COPY <name> FROM|TO <string>|STDIN|PROGRAM
COPY <name> ( ... ) FROM|TO <string>|STDIN|PROGRAM
COPY INTO <name> FROM
COPY ( ... ) TO <string>|PROGRAM
LOAD DATA|XML ... INFILE|INPATH <string>
GRANT {_RIGHT} ON ... TO <name>
GRANT {_RIGHT} PRIVILEGES|,|( ... ON ... TO <name>
REVOKE {_RIGHT} ON ... FROM <name>
DENY {_RIGHT} ON ... TO <name>
GRANT|REVOKE ROLE <name> TO|FROM <name> $
REVOKE {_RIGHT}|GRANT PRIVILEGES|OPTION|,|( ... ON ... FROM <name>
CREATE {_NEW} TABLE {_IF} <name> (|AS|LIKE|USING
CREATE {_NEW} VIEW {_IF} <name> (|AS|WITH
CREATE UNIQUE|CLUSTERED|NONCLUSTERED|FULLTEXT|SPATIAL? INDEX CONCURRENTLY? {_IF} <name>? ON <name>
CREATE {_NEW} TRIGGER {_IF} <name> BEFORE|AFTER|INSTEAD|FOR|ON|INSERT|UPDATE|DELETE
CREATE VIRTUAL TABLE {_IF} <name> USING
CREATE {_NEW} {_ROUTINE} {_IF} <name> (
CREATE {_NEW} PROCEDURE|PROC <name> <variable>|AS|WITH
CREATE LOGIN <name> WITH|FROM
CREATE SYNONYM <name> FOR <name>
CREATE STATISTICS <name> ON <name> (
CREATE {_PLACE} {_IF} <name> $|AS|OWNER|CHARACTER|COLLATE|DEFAULT|IDENTIFIED|START|PASSWORD
DROP MATERIALIZED? TABLE|VIEW|INDEX|TRIGGER|{_PLACE}|{_ROUTINE}|{_OTHER} CONCURRENTLY? {_IF} \
<name> $|,|CASCADE|RESTRICT|ON|PURGE|(
ALTER TABLE|VIEW|INDEX|{_PLACE}|{_ROUTINE}|{_OTHER} {_IF} ONLY? <name> \
ADD|DROP|RENAME|ALTER|MODIFY|CHANGE|SET|RESET|OWNER|ENGINE|ENABLE|DISABLE|CONVERT|REBUILD|REORGANIZE|WITH|PASSWORD|AS|(\
|CHECK|NOCHECK|SWITCH|TRUNCATE|EXCHANGE|VALIDATE|INHERIT|AUTO_INCREMENT|IDENTIFIED
ALTER SYSTEM|SESSION SET <name>
IF EXISTS|OBJECT_ID ( ... DROP TABLE|VIEW|INDEX|{_PLACE}|{_ROUTINE} {_IF} <name> $
RENAME TABLE <name> TO <name>
RENAME USER|OBJECT <name> TO <name> $|,
COMMENT ON TABLE|COLUMN|VIEW|INDEX|{_PLACE}|{_ROUTINE} <name> IS
REFRESH MATERIALIZED VIEW CONCURRENTLY? <name>
OPTIMIZE|REPAIR TABLE <name>
LOCK TABLE|TABLES <name> READ|WRITE|LOW_PRIORITY
LOCK TABLE <name> IN ... MODE $
UNLOCK TABLES $
FLUSH TABLES|PRIVILEGES|LOGS $
BACKUP|RESTORE DATABASE|LOG <name> TO|FROM DISK|URL|TAPE =
PURGE TABLE|INDEX <name> $
FLASHBACK TABLE <name> TO BEFORE|TIMESTAMP|SCN
ENABLE|DISABLE TRIGGER <name> ON <name> $
EXEC|EXECUTE SP_RENAME|SP_CONFIGURE|SP_DROPUSER|SP_ADDLOGIN <string>|<variable>
ANALYZE TABLE? <name>? $
REINDEX TABLE|INDEX|DATABASE|SCHEMA? <name>? $
VACUUM FULL|ANALYZE|VERBOSE? ANALYZE? <name>? $|INTO
ATTACH DATABASE? <any> ... AS <any> $
DETACH DATABASE? <name> $
BEGIN DEFERRED|IMMEDIATE|EXCLUSIVE? TRANSACTION|TRAN|WORK? <name>? $
START TRANSACTION $|READ|WITH|ISOLATION
COMMIT|END TRANSACTION|TRAN|WORK? <name>? $|AND
ROLLBACK TRANSACTION|TRAN|WORK? TO? SAVEPOINT? <name>? $|AND
SAVEPOINT <name> $
SAVE TRANSACTION|TRAN <name> $
RELEASE SAVEPOINT? <name> $
SET GLOBAL|SESSION|LOCAL|PERSIST <name> =
SET GLOBAL|SESSION|LOCAL <name> TO
SET <variable> =
SET NOCOUNT|XACT_ABORT|ANSI_NULLS|QUOTED_IDENTIFIER ON|OFF $
SET IDENTITY_INSERT <name> ON|OFF $
SET SESSION? TRANSACTION ISOLATION|READ
SET <name> = -? <any> $|,
PRAGMA <name> $|=|(
"""

_MODIFIERS = "LOW_PRIORITY|DELAYED|HIGH_PRIORITY|QUICK|OR|IGNORE|REPLACE|ABORT|FAIL|ROLLBACK|ONLY"
_NO_NAMES = """
AND AS BY CROSS FROM INNER INTO IS JOIN LEFT LIMIT ON OR ORDER OUTPUT RETURNING SELECT SET TABLE TO
USING VALUES WHEN WHERE
"""
_RESERVED = frozenset(_NO_NAMES.split())
"""Words that are names only in quotes."""

_OPERATORS = "AS DISTINCT ALL CASE WHEN THEN ELSE END AND OR NOT NULL IS IN LIKE BETWEEN EXISTS"
_IN_EXPRESSIONS = tuple(_OPERATORS.split())
EXPLAINED = "EXPLAIN ANALYZE"
"""PostgreSQL executes the statement that it explains in this way."""

_NESTED = ("INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE")
_MOST_NESTED, _ANYTHING = 100, 1_000  # how many are looked into, how many tokens ... stands for
_QUERIES = ("SELECT", "WITH", "VALUES", "(")
_INTO_FROM = ("TEMP|TEMPORARY|UNLOGGED?", "TABLE?", "<name>", "FROM")
_INTO_END = ("TEMP|TEMPORARY|UNLOGGED?", "TABLE?", "<name>", "$")
_INTO_FILE = ("OUTFILE|DUMPFILE|<variable>", "<string>|$|,|FROM")


def _read_forms() -> dict[str, list[list[str]]]:
    forms: dict[str, list[list[str]]] = {}
    for line in _FORM_LINES.replace("<modifier>? ", f"{_MODIFIERS}? {_MODIFIERS}? ").splitlines():
        verbs, *rest = line.split() or [""]
        for verb in verbs.split("|"):
            forms.setdefault(verb, []).append(rest)
    return forms


_FORMS = _read_forms()
"""The forms by their verb, each as the parts that follow it."""


def form_of(tokens: Sequence[Token], at: int) -> str:
    """Name the write whose form a statement has, empty without one; ``at`` is its main verb."""
    verb = tokens[at].text.upper()
    if tokens[at].kind == "word" and _is_write(tokens, at):
        return verb
    if verb == "SELECT" and _selects_into(tokens, at + 1):
        return "SELECT INTO"
    if verb == "EXPLAIN":
        words = [token.text.upper() for token in tokens[at + 1 : at + 3]]
        analyzed, verbose = words[:1] == ["ANALYZE"], words[1:] == ["VERBOSE"]
        return EXPLAINED if analyzed and _is_write(tokens, at + 2 + verbose) else ""
    return _nested_write(tokens) if tokens[0].text.upper() in _QUERIES else ""


def _is_write(tokens: Sequence[Token], at: int) -> bool:
    if at >= len(tokens):
        return False
    forms = _FORMS.get(tokens[at].text.upper(), ())
    return any(_matches(form, tokens, at + 1) for form in forms)


def _nested_write(tokens: Sequence[Token]) -> str:
    """Find a change in parentheses, as in ``WITH d AS (DELETE ... RETURNING *)``."""
    pairs = enumerate(pairwise(tokens), 1)
    inside = (at for at, (a, b) in pairs if a.text == "(" and b.is_word(*_NESTED))
    for at in islice(inside, _MOST_NESTED):
        if _is_write(tokens, at):
            return tokens[at].text.upper()
    return ""


def _selects_into(tokens: Sequence[Token], at: int) -> bool:
    """Whether a SELECT writes its rows into a table, a file or a variable.

    A table stands before FROM, or ends a statement without FROM; a file or @variable may end any.
    """
    depth, found, prose = 0, False, False
    for place in range(at, len(tokens)):
        token = tokens[place]
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and token.is_word("FROM"):
            found = True
        if depth == 0 and token.is_word("INTO"):
            named = _matches(_INTO_FROM, tokens, place + 1)
            alone = not found and not prose and _matches(_INTO_END, tokens, place + 1)
            return (named and not found) or alone or _matches(_INTO_FILE, tokens, place + 1)
        prose = prose or (place > at and _is_plain(token) and _is_plain(tokens[place - 1]))
    return False


def _is_plain(token: Token) -> bool:
    return token.kind == "word" and not token.is_word(*_IN_EXPRESSIONS)


def _matches(form: Sequence[str], tokens: Sequence[Token], at: int) -> bool:
    """Whether tokens follow a form. Never goes back."""
    anything = 0
    for part in form:
        if part == "...":
            anything = _ANYTHING
            continue
        after = _after(part.removesuffix("?"), tokens, at)
        while anything and after < 0 and at < len(tokens):
            at, anything = at + 1, anything - 1
            after = _after(part, tokens, at)
        anything = 0
        if after >= 0:
            at = after
        elif not part.endswith("?"):
            return False
    return True


def _after(part: str, tokens: Sequence[Token], at: int) -> int:
    """Return the place after one part of a form; -1 where the tokens differ."""
    for choice in part.split("|"):
        if choice == "$" and (at >= len(tokens) or tokens[at].text == ")"):
            return at
        if at < len(tokens) and _is(choice, tokens[at]):
            return _after_name(tokens, at) if choice == "<name>" else at + 1
    return -1


def _is(choice: str, token: Token) -> bool:
    if choice == "<name>":
        named = token.kind in ("quoted", "string", "variable")
        return named or (token.kind == "word" and token.text.upper() not in _RESERVED)
    if choice == "<any>":
        return True
    if choice.startswith("<"):
        return token.kind == choice[1:-1]
    return token.is_word(choice) or (token.kind == "symbol" and token.text == choice)


def _after_name(tokens: Sequence[Token], at: int) -> int:
    """Return the place after a name, which may have its schema before it."""
    while at + 2 < len(tokens) and tokens[at + 1].text == "." and _is("<name>", tokens[at + 2]):
        at += 2
    return at + 1
