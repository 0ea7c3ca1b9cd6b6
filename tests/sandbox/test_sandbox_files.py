"""What lies beside a database stays as it is: content, owner, times, whatever SQLite would do."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.privileges import without_privileges
from text2sql.errors import Text2SqlError
from text2sql.sandbox import Limits, Status
from text2sql.sandbox.worker.syscalls import deny_changes

TABLE = "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2);"
KILLED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in ("PRAGMA journal_mode=wal", "INSERT INTO t VALUES (3)"):
    connection.execute(statement)
os.kill(os.getpid(), 9)
"""
JUNK = b"\x07\x03\x01 no log " * 400
JOURNAL = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\x00\x00\x00\x01" + b"\x00" * 600


def stale_super_journal(name: bytes = b"/nowhere/x-mj0123456A") -> bytes:
    """A journal that belongs to a transaction over several databases, which is long over."""
    ending = name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + JOURNAL[:8]
    return JOURNAL[:8] + b"\xff" * 504 + (0x40000000 // 4096 + 1).to_bytes(4, "big") + ending


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything that can be seen of a folder and its files, but when they were read."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        seen = path.lstat()
        times = (seen.st_mtime_ns, seen.st_ctime_ns)
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (seen.st_ino, seen.st_mode, seen.st_uid, seen.st_size, *times, content)
    return found


def build(folder: Path, mode: str) -> Path:
    path = folder / "x.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA journal_mode={mode}; {TABLE}")
    if mode == "wal":
        assert path.read_bytes()[18] == 2 and len(list(folder.iterdir())) == 1
    return path


REFUSED = "open it once with the program that owns it"

STATES = [
    ("wal", "wal", {}, 2),
    ("wal, empty log", "wal", {"-wal": b""}, 2),
    ("wal, empty log and index", "wal", {"-wal": b"", "-shm": b""}, 2),
    ("wal, only an index", "wal", {"-shm": JUNK}, 2),
    ("wal, short log", "wal", {"-wal": b"abc", "-shm": b"\x00" * 32768}, 2),
    ("wal, log of nobody", "wal", {"-wal": JUNK}, REFUSED),
    ("wal, empty journal", "wal", {"-journal": b""}, 2),
    ("wal, finished journal", "wal", {"-journal": b"\x00" * 512}, 2),
    ("wal, unfinished journal", "wal", {"-journal": JOURNAL}, REFUSED),
    ("empty journal", "delete", {"-journal": b""}, 2),
    ("finished journal", "delete", {"-journal": b"\x00" * 512}, 2),
    ("unfinished journal", "delete", {"-journal": JOURNAL}, REFUSED),
    ("journal of many databases", "delete", {"-journal": stale_super_journal()}, REFUSED),
    ("log of another mode", "delete", {"-wal": JUNK}, REFUSED),
    ("nothing", "delete", {"": b""}, "empty"),
    ("nothing and a log", "delete", {"": b"", "-wal": JUNK, "-shm": JUNK}, "empty"),
    ("one byte and a log", "delete", {"": b"S", "-wal": JUNK}, "empty"),
    ("one byte and a journal", "delete", {"": b"S", "-journal": JOURNAL}, "empty"),
    ("cut off", "delete", {"": b"SQLite format 3\x00" + b"\x10" * 84}, "damaged|not a SQLite"),
]


@pytest.mark.parametrize(
    ("mode", "files", "expected"), [pytest.param(*rest, id=name) for name, *rest in STATES]
)
def test_files_beside_a_database_stay_unchanged(sandbox, tmp_path, mode, files, expected):
    database = build(tmp_path, mode)
    for end, content in files.items():
        path = Path(f"{database}{end}")
        path.write_bytes(content)
        if end and os.geteuid() == 0:
            os.chown(path, 4321, 4321)
    before = state(tmp_path)
    limits = Limits(keep_rows=1)
    for _ in range(2):
        if isinstance(expected, int):
            result = sandbox.execute(database, "SELECT count(*) FROM t", limits)
            assert (result.status, result.rows) == (Status.OK, ((expected,),)), result.error
        else:
            with pytest.raises(Text2SqlError, match=expected):
                sandbox.execute(database, "SELECT count(*) FROM t", limits)
        assert state(tmp_path) == before


def test_a_log_that_a_killed_program_left_keeps_its_owner(sandbox, tmp_path):
    database = build(tmp_path, "delete")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(database)])
    assert killed.returncode == -signal.SIGKILL
    if os.geteuid() == 0:
        for end in ("-wal", "-shm"):
            os.chown(f"{database}{end}", 4321, 4321)
    before = state(tmp_path)
    result = sandbox.execute(database, "SELECT count(*) FROM t", Limits(keep_rows=1))
    assert result.rows == ((3,),)
    assert state(tmp_path) == before


@pytest.mark.parametrize(
    ("end", "hidden"),
    [("-wal", 0o000), ("-shm", 0o000), ("-journal", 0o000), ("-wal", 0o444)],
    ids=["log", "index", "journal", "nothing"],
)
def test_a_read_only_folder_is_read_or_names_the_unreadable_file(tmp_path, end, hidden):
    database = build(tmp_path, "delete")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(database)])
    assert killed.returncode == -signal.SIGKILL
    if end == "-journal":
        database.with_name("x.sqlite-journal").write_bytes(JOURNAL)
    Path(f"{database}{end}").chmod(hidden)
    tmp_path.chmod(0o555)
    command = [sys.executable, "-m", "text2sql", "sql", str(database), "SELECT count(*) FROM t"]
    try:
        done = subprocess.run(command, capture_output=True, preexec_fn=without_privileges)
    finally:
        tmp_path.chmod(0o755)
    if hidden:
        assert (done.returncode, done.stdout.split()[1]) == (0, b"3"), done.stderr
    else:
        part = f"{database}{end}, a part of it, cannot be read; let this user read it"
        assert done.returncode == 1 and part in done.stderr.decode()


OWNER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
for line in sys.stdin:
    try:
        print(connection.execute(line).fetchall(), flush=True)
    except sqlite3.Error as error:
        print(error, flush=True)
"""


def test_an_owner_may_do_anything_between_two_queries(sandbox, tmp_path):
    database = build(tmp_path, "delete")
    words = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", OWNER, str(database)], **words) as owner:
        seen = []
        for statement in (
            *("PRAGMA journal_mode=wal", "INSERT INTO t VALUES (3)", "PRAGMA journal_mode=delete"),
            *("PRAGMA journal_mode=wal", "INSERT INTO t VALUES (4)", "VACUUM", "BEGIN EXCLUSIVE"),
            *("COMMIT", "PRAGMA journal_mode=persist", "PRAGMA page_size=1024", "VACUUM"),
        ):
            print(statement, file=owner.stdin, flush=True)
            seen.append(owner.stdout.readline())
            result = sandbox.execute(database, "SELECT count(*) FROM t", Limits(keep_rows=1))
            assert result.status is Status.OK, (statement, result.error)
        owner.stdin.close()
    assert not [line for line in seen if "locked" in line]
    assert result.rows == ((4,),)


def test_a_query_that_fails_leaves_the_owner_free_too(sandbox, tmp_path):
    database = build(tmp_path, "wal")
    odd = "CAST(x'435245415445205441424c4520752028ff29' AS TEXT)"  # CREATE TABLE u (\xff)
    with closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as owner:
        owner.executescript("CREATE TABLE u (a); INSERT INTO t VALUES (3);")
        owner.executescript(
            f"PRAGMA writable_schema=1; UPDATE sqlite_master SET sql = {odd} "
            "WHERE name = 'u'; PRAGMA writable_schema=0;"
        )
        assert "not valid UTF-8" in sandbox.execute(database, "SELECT * FROM u").error
        assert owner.execute("PRAGMA journal_mode=delete").fetchone() == ("delete",)


CHANGES = """
import json, os, socket, subprocess, sys
from text2sql.sandbox.worker.syscalls import deny_changes

folder = sys.argv[1]
os.chdir(folder)
file, descriptor = "file", os.open("file", os.O_RDONLY)
held = deny_changes()
attempts = {
    "write": lambda: os.open(file, os.O_WRONLY),
    "append": lambda: os.open(file, os.O_RDWR | os.O_APPEND),
    "create": lambda: os.open("new", os.O_RDONLY | os.O_CREAT),
    "empty": lambda: os.open(file, os.O_RDONLY | os.O_TRUNC),
    "nameless": lambda: os.open(".", os.O_RDWR | getattr(os, "O_TMPFILE", 0)),
    "truncate": lambda: os.truncate(file, 0),
    "truncate open": lambda: os.ftruncate(descriptor, 0),
    "allocate": lambda: os.posix_fallocate(descriptor, 0, 9),
    "delete": lambda: os.unlink(file),
    "delete folder": lambda: os.rmdir("folder"),
    "rename": lambda: os.rename(file, "new"),
    "folder": lambda: os.mkdir("new"),
    "link": lambda: os.link(file, "new"),
    "symlink": lambda: os.symlink(file, "new"),
    "pipe": lambda: os.mkfifo("new"),
    "mode": lambda: os.chmod(file, 0o600),
    "mode open": lambda: os.fchmod(descriptor, 0o600),
    "owner": lambda: os.chown(file, os.geteuid(), -1),
    "owner open": lambda: os.fchown(descriptor, os.geteuid(), -1),
    "times": lambda: os.utime(file),
    "attribute": lambda: os.setxattr(file, "user.a", b"1"),
    "program": lambda: os.execv(sys.executable, [sys.executable, "-c", ""]),
    "socket": lambda: socket.socket(),
}
done = []
for name, attempt in attempts.items():
    try:
        attempt()
    except PermissionError:
        continue
    done.append(name)
print(json.dumps([held, done, open(file).read()]))
"""


@pytest.mark.skipif(
    not (sys.platform == "linux" and os.uname().machine in ("x86_64", "aarch64")),
    reason="the kernel's filter is Linux's, on x86-64 and ARM64",
)
def test_the_kernel_denies_a_worker_everything_but_reading(tmp_path):
    (tmp_path / "file").write_text("content")
    (tmp_path / "folder").mkdir()
    before = state(tmp_path)
    code = [sys.executable, "-B", "-c", CHANGES, str(tmp_path)]
    found = subprocess.run(code, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert found.stderr == ""
    assert json.loads(found.stdout) == [True, [], "content"]
    assert state(tmp_path) == before


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_run_under_that_filter(sandbox, tmp_path):
    sandbox.execute(build(tmp_path, "delete"), "SELECT 1")
    (worker,) = sandbox._alive
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    assert "\nSeccomp:\t2\n" in status and "\nNoNewPrivs:\t1\n" in status


def test_a_python_without_ctypes_has_no_such_filter():
    text = (
        "import sys; sys.modules['ctypes'] = None; from text2sql.sandbox.worker.syscalls import *; "
    )
    code = [sys.executable, "-B", "-c", text + "print(deny_changes())"]
    found = subprocess.run(code, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert (found.stdout, found.stderr) == ("False\n", "")


def test_another_system_has_no_such_filter(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert deny_changes() is False
