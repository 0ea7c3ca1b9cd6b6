"""Why a run with prime-rl failed, read from its logs; each cause has its exit status."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from text2sql.common.processes import ends_below, without_colors
from text2sql.errors import Text2SqlError

_READ_BYTES = 200_000


@dataclass(frozen=True)
class Cause:
    """A kind of failure: the launcher's exit status, how logs show it, and what to do."""

    name: str
    exit_code: int
    pattern: str
    advice: str


CAUSES = (
    Cause(
        "the Slurm job was over its time limit",
        16,
        r"Slurm job \S+ ended as (?:TIMEOUT|DEADLINE)",
        "set a higher time_limit, then run it again to resume",
    ),
    Cause(
        "Slurm revoked the machines, or somebody cancelled the job",
        17,
        r"Slurm job \S+ ended as (?:CANCELLED|NODE_FAIL|PREEMPTED|BOOT_FAIL|REVOKED)",
        "run it again to resume",
    ),
    Cause(
        "Slurm rejected the job",
        10,
        r"sbatch rejects the job",
        "change the setting that the message names",
    ),
    Cause(
        "the disk is full",
        14,
        r"No space left on device|Disk quota exceeded|Errno 28",
        "free some space or set checkpoints_kept lower, then run it again to resume",
    ),
    Cause(
        "a GPU is out of memory",
        11,
        r"(?:CUDA|HIP)(?: error:)? out of memory|OutOfMemoryError|_STATUS_ALLOC_FAILED"
        r"|No available memory for the cache blocks|Free memory on device .* is less than",
        "lower sequence_tokens or gpu_memory, or use more GPUs",
    ),
    Cause(
        "a port is in use",
        18,
        r"[Aa]ddress already in use|EADDRINUSE|Errno 98\b",
        "stop the program that uses it (ss -ltnp shows it), or set another port; one run fits on a "
        "machine",
    ),
    Cause(
        "the checkpoint that it resumes from cannot be read",
        19,
        r"CheckpointException|PytorchStreamReader failed|UnpicklingError"
        r"|EOFError: Ran out of input",
        "remove the highest step below run/checkpoints, then run it again to resume from the one "
        "before",
    ),
    Cause(
        "the environment cannot be imported",
        12,
        r"(?:ModuleNotFoundError|ImportError): .*(?:text2sql|verifiers)",
        "reinstall this project's checkout into prime-rl's environment",
    ),
    Cause(
        "the GPUs cannot reach each other (NCCL)",
        13,
        r"NCCL error|ncclInternalError|ncclSystemError|ncclUnhandled",
        "see the log; NCCL_DEBUG=INFO shows more",
    ),
    Cause(
        "prime-rl rejects the configuration",
        10,
        r"validation errors? for|Extra inputs are not permitted|ConfigError|Requested \d+ GPUs",
        "change the setting that the message names",
    ),
    Cause(
        "a process was killed",
        15,
        r"\b(?:code|status) (?:-9|137)\b|exitcode *: *-9\b|Signal 9 \(SIGKILL\)"
        r"|signal: 9\b|ended as OUT_OF_MEMORY",
        "by somebody, or by the kernel for lack of memory (see dmesg); run it again to resume",
    ),
)
KILLED = CAUSES[-1]


def failure(status: int, log: Path, run_dir: Path) -> Text2SqlError:
    """Find out from the logs why prime-rl ended with this status (negative: a signal).

    ``log`` has its own output in this attempt; its children's logs are below ``run_dir``.
    """
    latest = (run_dir / "logs" / "latest").resolve()
    logs = sorted(path for path in latest.rglob("*.log") if path.is_file())
    jobs = sorted(run_dir.glob("job_*.log"), key=lambda path: path.stat().st_mtime)
    logs += jobs[-1:]  # what the last Slurm job printed outside its programs' logs
    texts = {path: _end(path) for path in (*logs, log)}
    for cause in CAUSES:
        for path, text in texts.items():
            for line in text.splitlines():
                if re.search(cause.pattern, line):
                    return _failed(cause, f"{line.strip()[:400]} ({path})")
    if status in (-9, 137):
        return _failed(KILLED, f"prime-rl ended with status {status} ({log})")
    own = texts[log].strip()[-1500:] or "(it is empty)"
    children = ends_below(latest) or "(there are none)"
    return Text2SqlError(
        f"prime-rl ended with status {status}; {log} ends with:\n{own}\nIts children's logs, in "
        f"{run_dir / 'logs' / 'latest'}, end with:\n{children}"
    )


def _failed(cause: Cause, evidence: str) -> Text2SqlError:
    error = Text2SqlError(f"Training failed: {cause.name}; {cause.advice}. {evidence}")
    error.exit_code = cause.exit_code
    return error


def _end(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _READ_BYTES))
        return without_colors(file.read().decode("utf-8", errors="replace"))
