"""What a file may be that this SQLite cannot read. Runs inside a worker, which holds no locks."""

from __future__ import annotations

import re
import sqlite3

_HEAD = 200  # bytes
_PACKED = "it is packed{}; unpack it first"
_BEGINNINGS = (
    (bytes(100), "it begins with zeros, as a broken download leaves it; get a fresh copy"),
    (b"\x1f\x8b", _PACKED.format(" with gzip")),
    (b"BZh", _PACKED.format(" with bzip2")),
    (b"\xfd7zXZ", _PACKED.format(" with xz")),
    (b"\x28\xb5\x2f\xfd", _PACKED.format(" with zstd")),
    (b"PK\x03\x04", _PACKED.format(" as .zip")),
    (b"7z\xbc\xaf", _PACKED.format(" as .7z")),
    (b"Rar!", _PACKED.format(" as .rar")),
    (b"version https://git-lfs", "it is Git LFS's pointer to the file; get that with git lfs pull"),
    (b"** This file contains an SQLite 2", "it is of SQLite 2; export it as SQL and read that in"),
    (b"<", "it is a web page, as a download without its login leaves one; download it again"),
    *(
        (word, "it is SQL text; read it into a new database: sqlite3 NEW.sqlite < FILE")
        for word in (b"CREATE", b"BEGIN", b"PRAGMA", b"INSERT", b"--", b"/*", b"DROP")
    ),
)
_INSIDE = (
    (b"DUCK", "it is DuckDB's; export it to SQLite"),
    (b"Standard Jet DB", "it is Access's; export it to SQLite"),
    (b"Standard ACE DB", "it is Access's; export it to SQLite"),
)
_UNKNOWN = "or it is encrypted; name another file, or a copy without encryption"


_GRAMMAR = re.compile(
    r"malformed database schema .*(?:syntax error|unrecognized token|unknown table option)",
    re.DOTALL,
)


def foreign(path: str, error: sqlite3.Error) -> str:
    """Say what a file is that is no database, or one of a newer SQLite; nothing for any other."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_NOTADB:
        return _no_database(path)
    if _GRAMMAR.match(str(error)):
        return (
            "its schema is damaged, or written for a newer SQLite than the one here "
            f"({sqlite3.sqlite_version}): use a newer one, or drop what the message names"
        )
    return ""


def _no_database(path: str) -> str:
    """Say that a file is no SQLite database, what it looks like, and what to do."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except OSError:
        head = b""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().upper()
    looks = [words for begin, words in _BEGINNINGS if head.startswith(begin)]
    looks += [words for begin, words in _BEGINNINGS if text.startswith(begin.upper())]
    looks += [words for mark, words in _INSIDE if mark in head[4:24]]
    return f"the file is not a SQLite database, {looks[0] if looks else _UNKNOWN}"
