"""GPUs as nvidia-smi shows them: how much memory is free, and which processes use the rest."""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError

_SECONDS = 30.0


@dataclass(frozen=True)
class Holder:
    """A process with memory on a GPU; ``mib`` is None if the driver does not say how much."""

    pid: str
    name: str
    mib: int | None


@dataclass(frozen=True)
class Gpu:
    """One GPU; ``total`` and ``free`` are MiB, None if the driver does not say."""

    index: str
    uuid: str
    name: str
    total: int | None = None
    free: int | None = None
    holders: tuple[Holder, ...] = ()


def visible_gpus() -> list[Gpu]:
    """Return the GPUs that a child process may use, in its order; none without a driver.

    ``CUDA_VISIBLE_DEVICES`` is obeyed; the memory of a MIG slice is unknown. Raises Text2SqlError
    if nvidia-smi fails.
    """
    rows = _query("--query-gpu=index,uuid,name,memory.total,memory.free")
    used = _query("--query-compute-apps=gpu_uuid,pid,process_name,used_memory") if rows else []
    holders: dict[str, list[Holder]] = {}
    for uuid, pid, name, size in used:
        holders.setdefault(uuid, []).append(Holder(pid, name, _mib(size)))
    gpus = [
        Gpu(index, uuid, name, _mib(total), _mib(free), tuple(holders.get(uuid, ())))
        for index, uuid, name, total, free in rows
    ]
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None or not gpus:
        return gpus
    found: list[Gpu] = []
    for entry in filter(None, (part.strip() for part in chosen.split(","))):
        gpu = _named(entry, gpus)
        if gpu is None:  # CUDA hides what follows an invalid entry
            break
        if gpu in found:  # and hides all if one is listed twice
            return []
        found.append(gpu)
    return found


def require_memory(gpus: Sequence[Gpu], count: int, share: float) -> None:
    """Raise Text2SqlError if one of the first ``count`` GPUs has less than ``share`` free."""
    if len(gpus) < count:
        raise Text2SqlError(
            f"{counted(count, 'GPU')} requested, but only {len(gpus)} visible; lower "
            "the data-parallel or tensor-parallel size."
        )
    lacking: list[str] = []
    for gpu in gpus[:count]:
        if gpu.total is None or gpu.free is None or gpu.free >= share * gpu.total:
            continue
        users = ", ".join(
            f"{holder.name} (process {holder.pid}"
            f"{'' if holder.mib is None else f', {holder.mib / 1024:.1f} GiB'})"
            for holder in gpu.holders
        )
        lacking.append(
            f"GPU {gpu.index} ({gpu.name}) has {gpu.free / 1024:.1f} of {gpu.total / 1024:.1f} "
            f"GiB free, but {share * gpu.total / 1024:.1f} GiB ({share:.0%}) are requested; it is "
            f"used by {users or 'processes that nvidia-smi does not show'}."
        )
    if lacking:
        raise Text2SqlError(
            f"{' '.join(lacking)} Stop what is no longer needed, choose another GPU with "
            "CUDA_VISIBLE_DEVICES, or request a smaller share."
        )


def _named(entry: str, gpus: Sequence[Gpu]) -> Gpu | None:
    """Find a GPU by its index or by the beginning of its UUID."""
    if entry.startswith("MIG-"):
        return Gpu(entry, entry, "a slice of a GPU")
    for gpu in gpus:
        if entry == gpu.index or (entry.startswith("GPU-") and gpu.uuid.startswith(entry)):
            return gpu
    return None


def _query(question: str) -> list[list[str]]:
    """Ask nvidia-smi; return the rows of its answer, none without a driver or a GPU."""
    command = ["nvidia-smi", question, "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        return []
    except subprocess.TimeoutExpired as error:
        raise Text2SqlError(
            f"nvidia-smi did not answer within {_SECONDS:.0f} s: the driver hangs; restart it."
        ) from error
    except OSError as error:
        raise Text2SqlError(f"nvidia-smi cannot be run: {error}.") from error
    said = (answer.stdout + answer.stderr).strip()
    if answer.returncode != 0 and "No devices" not in said:
        raise Text2SqlError(f"nvidia-smi failed with status {answer.returncode}: {said[:300]}")
    rows = csv.reader(answer.stdout.splitlines(), skipinitialspace=True)
    after = question.count(",") - 2  # columns after the name, the third, which may contain commas
    return [
        [*row[:2], ", ".join(row[2 : len(row) - after]), *row[len(row) - after :]]
        for row in rows
        if len(row) >= 3 + after
    ]


def _mib(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None
