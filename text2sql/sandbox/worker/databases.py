"""The databases that a worker has open, and the reasons why one cannot be opened."""

from __future__ import annotations

import os
import re
import sqlite3
from collections import OrderedDict
from time import sleep

from text2sql.sandbox.files import odd_file, unreadable_part
from text2sql.sandbox.limits import MESSAGE_CHARS
from text2sql.sandbox.worker.connection import Database

_PAUSES = (0.005, 0.01, 0.02, 0.04, 0.08)  # seconds between tries: a log may come and go


class UnusableDatabase(Exception):
    """The database cannot be read at all; the text says why and what to do."""


class DatabaseCache:
    """The databases used last, which stay open until their files change."""

    def __init__(self, size: int = 8) -> None:
        self._size = size
        self._open: OrderedDict[str, Database] = OrderedDict()

    def get(self, path: str, seconds: float) -> Database:
        """Return a current connection for a query of at most so many seconds.

        Raises UnusableDatabase with a sentence for the user, OSError when the file is gone, and
        sqlite3.Error when it is locked.
        """
        database = self._open.pop(path, None)
        if database is not None and not database.is_reusable():
            database.close()
            database = None
        if database is None:
            database = _open_database(path, seconds)
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


def _not_a_database(path: str) -> str:
    with open(path, "rb") as file:
        head = file.read(100)
    if not any(head):
        kind = "it begins with zeros, as a broken download does; get a fresh copy"
    elif _SQL.match(head):
        kind = "it is SQL text; read it into a new database: sqlite3 NEW.sqlite < FILE"
    else:
        kind = (
            "it is compressed, encrypted, a Git LFS pointer, a web page instead of the file, or of "
            "another program; unpack it, or get the database itself"
        )
    return f"the file is not a SQLite database: {kind}"
