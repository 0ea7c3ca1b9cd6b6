"""The machine: GPUs, ports, disk, the sandbox and the reporting database."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import tempfile
import urllib.parse
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from text2sql.cli.doctor.finding import Finding, State
from text2sql.common.artifacts import ROOT_VARIABLE, artifact_root
from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError
from text2sql.policy.open import served_models
from text2sql.policy.served.connections import NoAnswer, fetch
from text2sql.policy.vllm.gpu import visible_gpus
from text2sql.reporting.tables.location import URL_VARIABLE, reporting_url
from text2sql.sandbox import Limits, Sandbox, Status

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_PORTS = {3000: "Dagster's UI", 8000: "a policy server"}
_LOCATIONS = "{workspaceOrError {... on Workspace {locationEntries {name}}}}"
_OUR_LOCATION = "pipelines.definitions"
"""What workspace.yaml calls this project's code."""
_ASK_SECONDS = 3.0
_CONNECT_SECONDS = "5"
_GIB = 1 << 30
_FAIL_BYTES = 1 * _GIB
_WARN_BYTES = 10 * _GIB
"""The demo writes well under 1 GiB; one full training run of a 9B model up to 600 GB."""


def check_gpu() -> Iterable[Finding]:
    """List the GPUs that nvidia-smi shows and their free memory."""
    gpus = visible_gpus()
    if not gpus:
        yield Finding(
            "gpu",
            State.WARN,
            "none: nvidia-smi is missing or shows no GPU",
            "not needed for the pocket policy or models that are served elsewhere; to train or "
            "serve a 9B model, use a machine with NVIDIA GPUs and their driver",
        )
    for gpu in gpus:
        name, found = f"gpu {gpu.index}", gpu.name
        if gpu.total is not None and gpu.free is not None:
            found += f", {gpu.free / 1024:.1f} of {gpu.total / 1024:.1f} GiB free"
            if gpu.free < gpu.total / 2:
                users = ", ".join(f"{user.name} (process {user.pid})" for user in gpu.holders)
                found += f"; used by {users or 'unknown processes'}"
                fix = "stop what you no longer need, or choose a GPU with CUDA_VISIBLE_DEVICES"
                yield Finding(name, State.WARN, found, fix)
                continue
        yield Finding(name, State.OK, found)


def check_ports() -> Iterable[Finding]:
    """Try the default ports of the UI and of a policy server."""
    for port, user in _PORTS.items():
        yield _port(port, user)


def _port(port: int, user: str) -> Finding:
    name = f"port {port}"
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError as error:
            reason = error.strerror
        else:
            return Finding(name, State.OK, f"free for {user}")
    url = f"http://127.0.0.1:{port}"
    with suppress(Text2SqlError, NoAnswer, ValueError, KeyError, TypeError):  # another program
        if user == _PORTS[8000]:
            models = ", ".join(served_models(url))
            return Finding(name, State.OK, f"a policy server runs at {url}: {models}")
        query = urllib.parse.urlencode({"query": _LOCATIONS})
        reply = fetch(f"{url}/graphql?{query}", "", _ASK_SECONDS)
        entries = json.loads(reply.content)["data"]["workspaceOrError"]["locationEntries"]
        if any(entry["name"] == _OUR_LOCATION for entry in entries):
            return Finding(name, State.OK, f"{user} runs at {url}")
    fix = f"see what uses it with: ss -ltnp 'sport = :{port}'; or choose another with --port"
    return Finding(name, State.WARN, f"not free for {user}: {reason}", fix)


def check_disk() -> Iterable[Finding]:
    """Look at the space below the artifact root, and whether it can be written."""
    root = artifact_root()
    place = next(folder for folder in (root, *root.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    state, found, fix = State.OK, f"{free / _GIB:.1f} GiB free for {root}", ""
    if free < _WARN_BYTES:
        state = State.FAIL if free < _FAIL_BYTES else State.WARN
    if not place.is_dir():
        state, found = State.FAIL, f"{place} is not a folder"
    elif not os.access(place, os.W_OK | os.X_OK):
        state, found = State.FAIL, f"{place} cannot be written"
    if state is not State.OK:
        fix = f"free some space, or set {ROOT_VARIABLE} to another folder"
    yield Finding("disk", state, found, fix)


def check_sandbox() -> Iterable[Finding]:
    """Run a query in the sandbox, and see it refuse a write."""
    with tempfile.TemporaryDirectory() as folder, Sandbox(workers=1) as sandbox:
        database = Path(folder) / "doctor.sqlite"
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2);")
        read = sandbox.execute(database, "SELECT count(*) FROM t", Limits(keep_rows=1))
        wrote = sandbox.execute(database, "DELETE FROM t")
        after = sandbox.execute(database, "SELECT count(*) FROM t", Limits(keep_rows=1))
        confined = sandbox.confined
    fix = "check that this Python's sqlite3 works and that processes can be started here"
    if read.rows != ((2,),):
        yield Finding("sandbox", State.FAIL, f"a query failed: {read.error or read.rows}", fix)
    elif wrote.status is not Status.WRITE or after.rows != read.rows:
        yield Finding("sandbox", State.FAIL, f"a write was not refused: {wrote.status}", fix)
    else:
        kernel = "as does the kernel" if confined else "the kernel has no filter (seccomp) for it"
        found = f"runs a query in {read.seconds * 1000:.1f} ms and refuses a write; {kernel}"
        yield Finding("sandbox", State.OK, found)


def check_reporting() -> Iterable[Finding]:
    """Connect to the reporting database if it exists; nothing is written or created."""
    name = "reporting database"
    try:
        from text2sql.reporting.tables.location import parse_url
    except ImportError:
        fix = "pip install 'text2sql-lifecycle[reporting]' where you need it"
        yield Finding(name, State.WARN, "the extra 'reporting' is not installed", fix)
        return
    try:
        url = parse_url(reporting_url())
    except Text2SqlError as error:
        fix = f"set {URL_VARIABLE} to sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        yield Finding(name, State.FAIL, str(error), fix)
        return
    yield _sqlite(name, url) if url.get_backend_name() == "sqlite" else _server(name, url)


def _sqlite(name: str, url: URL) -> Finding:
    file = Path(url.database or "")
    if not file.is_file():
        return Finding(name, State.OK, f"{file} does not exist yet; the first answers create it")
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as found:
            (answers,) = found.execute("SELECT count(*) FROM answers").fetchone()
    except sqlite3.Error as error:
        fix = f"restore the file, or name another database with {URL_VARIABLE}"
        return Finding(name, State.FAIL, f"{file}: {error}", fix)
    return Finding(name, State.OK, f"{file}: {counted(answers, 'answer')}")


def _server(name: str, url: URL) -> Finding:
    import sqlalchemy as sa

    from text2sql.reporting.tables.database import open_engine
    from text2sql.reporting.tables.location import shown

    place = shown(url)
    bounded = url.update_query_dict({"connect_timeout": _CONNECT_SECONDS})
    try:
        engine = open_engine(bounded.render_as_string(hide_password=False))
        with engine.connect() as connection:
            has_tables = sa.inspect(connection).has_table("answers")
    except (sa.exc.SQLAlchemyError, ImportError, Text2SqlError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()
        fix = f"start it, or correct {URL_VARIABLE}; PostgreSQL needs the extra 'postgres'"
        return Finding(name, State.FAIL, f"{place}: {reason[0] if reason else 'no reason'}", fix)
    return Finding(name, State.OK, f"{place}{'' if has_tables else ': no tables yet'}")
