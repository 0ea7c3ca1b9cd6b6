"""Why a run with prime-rl failed, read from its logs; each cause has its exit status."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from text2sql.common.processes import without_colors
from text2sql.errors import Text2SqlError

_READ_BYTES = 200_000


@dataclass(frozen=True)
class Cause:
    """A kind of failure: the launcher's exit status, how logs show it, and what to do."""

    name: str
    exit_code: int
    pattern: re.Pattern[str]
    advice: str


CAUSES = (
    Cause(
        "the Slurm job was over its time limit",
        16,
        re.compile(r"Slurm job \S+ ended as (?:TIMEOUT|DEADLINE)"),
        "set a higher time_limit, then run it again to resume",
    ),
    Cause(
        "Slurm revoked the machines, or somebody cancelled the job",
        17,
        re.compile(r"Slurm job \S+ ended as (?:CANCELLED|NODE_FAIL|PREEMPTED|BOOT_FAIL|REVOKED)"),
        "run it again to resume",
    ),
    Cause(
        "Slurm rejected the job",
        10,
        re.compile(r"sbatch rejects the job"),
        "change the setting that the message names",
    ),
    Cause(
        "the disk is full",
        14,
        re.compile(r"No space left on device|Disk quota exceeded|Errno 28"),
        "free some space or set checkpoints_kept lower, then run it again to resume",
    ),
    Cause(
        "a GPU is out of memory",
        11,
        re.compile(
            r"(?:CUDA|HIP)(?: error:)? out of memory|OutOfMemoryError|_STATUS_ALLOC_FAILED"
            r"|No available memory for the cache blocks|Free memory on device .* is less than"
        ),
        "lower sequence_tokens or gpu_memory, or use more GPUs",
    ),
    Cause(
        "a port is in use",
        18,
        re.compile(r"[Aa]ddress already in use|EADDRINUSE|Errno 98\b"),
        "stop the program that uses it (ss -ltnp shows it), or set another port; one run fits on a "
        "machine",
    ),
    Cause(
        "the checkpoint that it resumes from cannot be read",
        19,
        re.compile(
            r"CheckpointException|PytorchStreamReader failed|UnpicklingError"
            r"|EOFError: Ran out of input"
        ),
        "remove the highest step below run/checkpoints, then run it again to resume from the one "
        "before",
    ),
    Cause(
        "the environment cannot be imported",
        12,
        re.compile(r"(?:ModuleNotFoundError|ImportError): .*(?:text2sql|verifiers)"),
        "reinstall this project's checkout into prime-rl's environment",
    ),
    Cause(
        "the GPUs cannot reach each other (NCCL)",
        13,
        re.compile(r"NCCL error|ncclInternalError|ncclSystemError|ncclUnhandled"),
        "see the log; NCCL_DEBUG=INFO shows more",
    ),
    Cause(
        "prime-rl rejects the configuration",
        10,
        re.compile(
            r"validation errors? for|Extra inputs are not permitted|ConfigError|Requested \d+ GPUs"
        ),
        "change the setting that the message names",
    ),
    Cause(
        "a process was killed",
        15,
        re.compile(
            r"\b(?:code|status) (?:-9|137)\b|exitcode *: *-9\b|Signal 9 \(SIGKILL\)"
            r"|signal: 9\b|ended as OUT_OF_MEMORY"
        ),
        "by somebody, or by the kernel for lack of memory (see dmesg); run it again to resume",
    ),
)
KILLED = CAUSES[-1]


class PrimeRlFailed(Text2SqlError):
    """prime-rl ended with an error; ``exit_code`` is that of its cause, 1 if it is unknown."""

    def __init__(self, sentence: str, exit_code: int = 1) -> None:
        """Keep the sentence and the exit status."""
        super().__init__(sentence)
        self.exit_code = exit_code


def failure(status: int, log: Path, run_dir: Path) -> PrimeRlFailed:
    """Find out from the logs why prime-rl ended with this status (negative: a signal).

    ``log`` has its own output in this attempt; its children's logs are below ``run_dir``.
    """
    texts = {path: _end(path) for path in (*_child_logs(run_dir), log)}
    for cause in CAUSES:
        for path, text in texts.items():
            if found := cause.pattern.search(text):
                return _failed(cause, f"{_line(text, found.start())} ({path})")
    if status in (-9, 137):
        return _failed(KILLED, f"prime-rl ended with status {status} ({log})")
    end = texts[log].strip()[-1500:]
    return PrimeRlFailed(
        f"prime-rl ended with status {status}; its children's logs are in "
        f"{run_dir / 'logs' / 'latest'}, and {log} ends with:\n{end or '(it is empty)'}"
    )


def _failed(cause: Cause, evidence: str) -> PrimeRlFailed:
    return PrimeRlFailed(
        f"Training failed: {cause.name}; {cause.advice}. {evidence}", cause.exit_code
    )


def _child_logs(run_dir: Path) -> Iterator[Path]:
    latest = (run_dir / "logs" / "latest").resolve()
    yield from sorted(path for path in latest.rglob("*.log") if path.is_file())
    jobs = sorted(run_dir.glob("job_*.log"), key=lambda path: path.stat().st_mtime)
    yield from jobs[-1:]  # what the last Slurm job printed outside its programs' logs


def _end(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _READ_BYTES))
        return without_colors(file.read().decode("utf-8", errors="replace"))


def _line(text: str, place: int) -> str:
    start = text.rfind("\n", 0, place) + 1
    return text[start:].partition("\n")[0].strip()[:400]
