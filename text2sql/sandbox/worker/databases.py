"""Read-only connections to untrusted databases, which deny everything but reading.

A worker keeps those it used last; the messages say why a database cannot be opened.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import stat
import struct
import sys
from collections import OrderedDict
from pathlib import Path
from time import monotonic, sleep, time_ns

from text2sql.sandbox.files import odd_file, stamp_of, unreadable_part
from text2sql.sandbox.limits import MESSAGE_CHARS, SQLITE_LIMITS
from text2sql.sandbox.sql.statements import pragma_reads

_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_CHANGES = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_DANGEROUS_FUNCTIONS = frozenset(
    {"load_extension", "fts3_tokenizer", "fts5", "optimize", "readfile", "writefile", "edit"}
)
_PRIVATE_TABLES = frozenset({"sqlite_stmt", "sqlite_dbpage", "sqlite_memstat"})
"""sqlite_stmt lists statements that ran here before, gold queries among them."""

_VIRTUAL_TABLES = """
SELECT printf('%s', name), lower(printf('%s', sql)) FROM sqlite_master
WHERE printf('%s', sql) LIKE '%virtual%'
"""  # what SQLite reads of an entry of any type: text up to a NUL

_MALFORMED = re.compile(
    r'unrecognized token: |incomplete input\Z|near ".*": syntax error\Z', re.DOTALL
)
"""SQLite's errors about grammar; names in them may contain any words."""

_STEPS = 5_000  # virtual machine steps between two looks at the clock, well under a millisecond
_CACHED_STATEMENTS = 32
_CLOCK_TICK_NS = 50_000_000
_JUST_NOW = 0.001  # seconds
_SETTINGS = ("cell_size_check=1", "temp_store=2", "query_only=1")

_PENDING_BYTE = 0x40000000
"""SQLite locks this byte, the next one, or both, while it changes a file."""

_KIND, _PLACE = (fcntl.F_RDLCK, os.SEEK_SET), (_PENDING_BYTE, 2, 0)
# struct flock, and where in it the system answers what kind of lock is in the way
if sys.platform == "linux":
    _QUESTION, _ANSWER = struct.pack("hhqqi", *_KIND, *_PLACE), slice(0, 2)
else:
    _QUESTION, _ANSWER = struct.pack("qqihh", *_PLACE, *_KIND), slice(20, 22)
_NONE = struct.pack("h", fcntl.F_UNLCK)

_PAUSES = (0.005, 0.01, 0.02, 0.04, 0.08)  # seconds between tries: a log may come and go
DAMAGED = "the database is damaged; get a fresh copy"
_OPEN_ONCE = (
    "open it once with the program that owns it or, where that may not write, copy both files to "
    "where it may and open the copy"
)
_READ_ONLY_WAL = (
    "the database cannot be opened, or has a write-ahead log (-wal) without its index (-shm); "
    f"{_OPEN_ONCE}, so that the log is merged"
)
_UNUSABLE = {
    sqlite3.SQLITE_ERROR: "the database cannot be read",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_READONLY_ROLLBACK: (
        f"the database has an unfinished transaction (a journal file lies beside it); {_OPEN_ONCE}"
    ),
    **dict.fromkeys((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN), _READ_ONLY_WAL),
}
_NEWER_GRAMMAR = re.compile(
    r"malformed database schema .*(?:syntax error|unrecognized token|unknown table option)",
    re.DOTALL,
)
_SQL = re.compile(rb"(?i)(?:\xef\xbb\xbf)?\s*(?:CREATE|BEGIN|PRAGMA|INSERT|DROP|--|/\*)")


class Replacing:
    """Decodes text of a database, with � for what is not UTF-8, which it counts."""

    def __init__(self) -> None:
        self.cells = 0
        self.first = b""

    def __call__(self, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            self.cells += 1
            self.first = self.first or text[error.start : error.start + 1]
            return text.decode("utf-8", "replace")

    def warning(self) -> str:
        """Return a sentence about what was replaced, empty if nothing was."""
        if not self.cells:
            return ""
        cells = f"{self.cells:,} cell{' is' if self.cells == 1 else 's are'}"
        return f"{cells} not UTF-8 (byte {self.first.hex().upper()}); \ufffd stands for such bytes"


class Database:
    """One open database and the rules for statements on it.

    ``deadline`` (monotonic clock) ends the running statement. ``explaining`` must be true only for
    EXPLAIN, which may then compile changes: nothing executes them.
    """

    def __init__(self, path: str, lock_seconds: float = 2.0) -> None:
        self.path = path
        self.deadline = 0.0
        self._real = os.path.realpath(path)
        self.stamp = stamp_of(self._real)  # not of the link, which may change in the meantime
        self._recent = time_ns() - max(self.stamp[3:]) < _CLOCK_TICK_NS
        self._descriptor = os.open(self._real, os.O_RDONLY | os.O_NONBLOCK)
        self._checked = 0.0
        self.explaining = False
        self._virtual: frozenset[str] = frozenset()
        self._private = _PRIVATE_TABLES
        try:
            self.immutable = not self._is_in_use()
            # readonly_shm: a reader of a database in WAL mode creates and changes no -shm file.
            mode = "immutable=1" if self.immutable else "readonly_shm=1"
            self.handle = sqlite3.connect(
                f"{Path(self._real).as_uri()}?mode=ro&{mode}",
                uri=True,
                timeout=lock_seconds,
                isolation_level=None,
                cached_statements=_CACHED_STATEMENTS,
            )
        except BaseException:
            os.close(self._descriptor)
            raise
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def is_current(self) -> bool:
        """Whether what this connection sees is what the file holds now."""
        same = stamp_of(self.path) == self.stamp
        current = same and not (self.immutable and self._is_in_use())
        self._checked = monotonic() if current else 0.0
        return current

    def is_reusable(self) -> bool:
        """Whether the connection may serve another query."""
        # A file that changed just before it was opened may change again within the same tick of the
        # file system's clock, with the same stamp.
        if self._recent:
            return False
        # Every query is checked at its end; in a batch that is the beginning of the next one.
        return monotonic() - self._checked < _JUST_NOW or self.is_current()

    def compile_error(self, statement: str) -> str:
        """Return SQLite's error if a statement is malformed, else nothing.

        ``statement`` must start with EXPLAIN: it is compiled and never executed.
        """
        self.explaining = True
        try:
            self.handle.execute(statement).close()
        except sqlite3.Error as error:
            text = str(error)
            return text if _MALFORMED.match(text) else ""
        except MemoryError:  # a statement is read to its end before it is compiled
            return ""
        return ""

    def close(self) -> None:
        """Close the connection."""
        self.handle.close()
        os.close(self._descriptor)

    def _is_in_use(self) -> bool:
        """Whether another program writes the database, or left a journal or log beside it."""
        if _has_journal(self._real) or _has_log(self._real):
            return True
        try:  # whether another process has a writing transaction open; takes no lock itself
            return fcntl.fcntl(self._descriptor, fcntl.F_GETLK, _QUESTION)[_ANSWER] != _NONE
        except OSError:  # a file system without locks
            return False

    def _prepare(self) -> None:
        handle = self.handle
        for limit, value in SQLITE_LIMITS.items():
            handle.setlimit(limit, value)
        for setting in _SETTINGS:
            handle.execute(f"PRAGMA {setting}")
        handle.text_factory = Replacing()
        tables = list(handle.execute(_VIRTUAL_TABLES))
        self._virtual = frozenset(name for name, _ in tables)
        # A database may give a private table another name.
        self._private |= {
            name.lower() for name, sql in tables if any(p in sql for p in _PRIVATE_TABLES)
        }
        handle.set_authorizer(self._authorize)
        handle.set_progress_handler(lambda: monotonic() > self.deadline, _STEPS)

    def _authorize(
        self, action: int, first: str | None, second: str | None, schema: str | None, _: str | None
    ) -> int:
        if action in _READS:
            private = action == sqlite3.SQLITE_READ and (first or "").lower() in self._private
            return sqlite3.SQLITE_DENY if private else sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            allowed = (second or "").lower() not in _DANGEROUS_FUNCTIONS
        elif action == sqlite3.SQLITE_PRAGMA:
            allowed = pragma_reads(first or "", has_argument=second is not None)
        elif action in _CHANGES:
            allowed = self.explaining or self._is_virtual_housekeeping(first or "", schema)
        else:
            allowed = self.explaining and action != sqlite3.SQLITE_ATTACH
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    def _is_virtual_housekeeping(self, table: str, schema: str | None) -> bool:
        """Whether SQLite itself prepares this change to read a virtual table.

        json_each, FTS and r-tree report changes to sqlite_master or to their shadow tables when
        they are only read. The connection is read-only, so nothing is written.
        """
        known = table == "sqlite_master" or table.rpartition("_")[0] in self._virtual
        return schema == "main" and known


def _has_journal(path: str) -> bool:
    """Whether an unfinished transaction's journal lies beside a database.

    A finished one may leave a journal that is empty or begins with zero (PRAGMA journal_mode
    TRUNCATE, PERSIST).
    """
    journal = path + "-journal"
    if not os.access(journal, os.F_OK):  # cheaper than an exception
        return False
    try:
        found = os.stat(journal)
        if not stat.S_ISREG(found.st_mode):
            return True
        # Without O_NONBLOCK, a pipe that replaces the file now would block forever.
        with open(os.open(journal, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:
            return file.read(1) not in (b"", b"\x00")
    except OSError:
        return True


def _has_log(path: str) -> bool:
    log = path + "-wal"
    if not os.access(log, os.F_OK):
        return False
    try:
        return os.stat(log).st_size > 0 or os.path.exists(path + "-shm")
    except FileNotFoundError:
        return False


class UnusableDatabase(Exception):
    """The database cannot be read at all; the text says why and what to do."""


class DatabaseCache:
    """The databases used last, which stay open until their files change."""

    def __init__(self, size: int = 8) -> None:
        self._size = size
        self._open: OrderedDict[str, Database] = OrderedDict()

    def get(self, path: str, lock_seconds: float) -> Database:
        """Return a current connection; a new one waits so long for another program's lock.

        Raises UnusableDatabase with a sentence for the user, OSError when the file is gone, and
        sqlite3.Error when it is locked.
        """
        database = self._open.pop(path, None)
        if database is not None and not database.is_reusable():
            database.close()
            database = None
        if database is None:
            database = _open_database(path, lock_seconds)
        self._open[path] = database
        if len(self._open) > self._size:
            self._open.popitem(last=False)[1].close()
        return database

    def leave(self, path: str) -> None:
        """Close a database that other programs use.

        A reader of a database in WAL mode keeps a lock while it is connected.
        """
        database = self._open.get(path)
        if database is not None and not database.immutable:
            self._open.pop(path).close()

    def clear(self) -> None:
        """Close everything."""
        while self._open:
            self._open.popitem()[1].close()


def _open_database(path: str, seconds: float, pauses: tuple[float, ...] = _PAUSES) -> Database:
    real = os.path.realpath(path)
    if odd := odd_file(real):
        raise UnusableDatabase(f"{path} cannot be read: {odd}.")
    try:
        return Database(path, seconds)
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0)
        if pauses and _UNUSABLE.get(code & 0xFF) == _READ_ONLY_WAL:
            sleep(pauses[0])  # the program that closes it is removing its log
            return _open_database(path, seconds, pauses[1:])
        known = _UNUSABLE.get(code) or _UNUSABLE.get(code & 0xFF)
        if code & 0xFF == sqlite3.SQLITE_NOTADB:
            known = _not_a_database(path)
        elif _NEWER_GRAMMAR.match(str(error)):
            known = (
                "its schema is damaged, or written for a newer SQLite than the one here "
                f"({sqlite3.sqlite_version}): use a newer one, or drop what the message names"
            )
        reason = unreadable_part(real) or known
        if reason is None:
            raise
        raise UnusableDatabase(f"{path}: {reason} ({str(error)[:MESSAGE_CHARS]}).") from error


def _not_a_database(path: str) -> str:
    with open(path, "rb") as file:
        head = file.read(100)
    if not any(head):
        kind = "it begins with zeros, as a broken download does; get a fresh copy"
    elif _SQL.match(head):
        kind = "it is SQL text; read it into a new database: sqlite3 NEW.sqlite < FILE"
    else:
        kind = (
            "it may be compressed, encrypted, a Git LFS pointer, a web page or another program's "
            "file; unpack it, or get the database itself"
        )
    return f"the file is not a SQLite database: {kind}"
