"""The machine: GPUs, ports, disk."""

from __future__ import annotations

import json
import os
import shutil
import socket
import urllib.parse
from collections.abc import Iterable
from pathlib import Path

from text2sql.cli.doctor.finding import Finding, State
from text2sql.common.artifacts import ROOT_VARIABLE, artifact_root
from text2sql.errors import Text2SqlError
from text2sql.policy.open import served_models
from text2sql.policy.served.connections import NoAnswer, fetch
from text2sql.policy.vllm.gpu import Gpu, visible_gpus

_PORTS = {3000: "Dagster's UI", 8000: "a policy server"}
_LOCATIONS = "{workspaceOrError {... on Workspace {locationEntries {name}}}}"
_OUR_LOCATION = "pipelines.definitions"
"""How workspace.yaml calls this project's code."""
_ASK_SECONDS = 3.0
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
            "none: nvidia-smi shows no GPU, or is not there",
            "nothing to do for the pocket policy and for served models; to train or serve a 9B "
            "model, use a machine with NVIDIA GPUs and their driver",
        )
    for gpu in gpus:
        yield _gpu(gpu)


def _gpu(gpu: Gpu) -> Finding:
    name = f"gpu {gpu.index}"
    if gpu.total is None or gpu.free is None:
        return Finding(name, State.OK, gpu.name)
    found = f"{gpu.name}, {gpu.free / 1024:.1f} of {gpu.total / 1024:.1f} GiB free"
    if gpu.free >= gpu.total / 2:
        return Finding(name, State.OK, found)
    held = ", ".join(f"{holder.name} (process {holder.pid})" for holder in gpu.holders)
    mend = "end what is no longer needed, or choose another GPU with CUDA_VISIBLE_DEVICES"
    return Finding(name, State.WARN, f"{found}; held by {held or 'unknown processes'}", mend)


def check_ports() -> Iterable[Finding]:
    """Try the ports that the UI and a policy server use unless told otherwise."""
    for port, user in _PORTS.items():
        yield _port(port, user)


def _port(port: int, user: str) -> Finding:
    name = f"port {port}"
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError as error:
            return _taken(name, port, user, error)
    return Finding(name, State.OK, f"free for {user}")


def _taken(name: str, port: int, user: str, error: OSError) -> Finding:
    mend = f"see who holds it with: ss -ltnp 'sport = :{port}'; or choose another with --port"
    if user == _PORTS[8000]:
        url = f"http://127.0.0.1:{port}"
        try:
            models = ", ".join(served_models(url))
        except Text2SqlError:
            pass  # whatever holds it is no policy server, as the finding below says
        else:
            return Finding(name, State.OK, f"a policy server is there: {models} at {url}")
    elif _shows_this_project(port):
        return Finding(name, State.OK, f"{user} is there: http://127.0.0.1:{port}")
    return Finding(name, State.WARN, f"not free for {user}: {error.strerror}", mend)


def _shows_this_project(port: int) -> bool:
    """Ask whatever holds a port whether it is Dagster's UI with this project's code."""
    query = urllib.parse.urlencode({"query": _LOCATIONS})
    try:
        said = fetch(f"http://127.0.0.1:{port}/graphql?{query}", "", _ASK_SECONDS)
        entries = json.loads(said.content)["data"]["workspaceOrError"]["locationEntries"]
        return any(entry["name"] == _OUR_LOCATION for entry in entries)
    except (NoAnswer, ValueError, KeyError, TypeError):
        return False  # whatever it is, it is not ours


def check_disk() -> Iterable[Finding]:
    """Look at the space below the artifact root, and whether it can be written."""
    root = artifact_root()
    place = next(folder for folder in (root, *root.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    found = f"{free / _GIB:.1f} GiB free for {root}"
    mend = f"free some, or name another folder with {ROOT_VARIABLE}"
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        yield Finding("disk", State.FAIL, f"{_shown(place)} cannot be written", mend)
    elif free < _WARN_BYTES:
        yield Finding("disk", State.FAIL if free < _FAIL_BYTES else State.WARN, found, mend)
    else:
        yield Finding("disk", State.OK, found)


def _shown(place: Path) -> str:
    return str(place) if place.is_dir() else f"{place} is no folder and"
