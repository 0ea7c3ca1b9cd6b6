"""A vLLM server as a child process: started, awaited, watched and stopped with its group."""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import socket
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from text2sql.common.artifacts import artifact_root, logs_folder
from text2sql.common.processes import GuardedProcess, end_of, without_colors
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.open import API_KEY_VARIABLE, policy_directory, served_models
from text2sql.policy.places import policy_name
from text2sql.policy.vllm.command import HOST, INSTALL, VllmPython, command, environment, find_vllm
from text2sql.policy.vllm.gpu import require_memory, visible_gpus
from text2sql.policy.vllm.options import VllmOptions
from text2sql.policy.weights import (
    BASE_NAME,
    directory_revision,
    is_adapter,
    read_adapter,
    require_whole,
)

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.25
_MODEL_ID = re.compile(r"[\w.-]+/[\w.-]+")
_READ_BYTES = 500_000
_END_CHARS = 1500
_LEAST_FREE_MB = 5.0
_NO_SPACE = "No space left on device"
_CAUSE = re.compile(
    r"^(?:\([^)]*\) )?(?:ERROR \S+ \S+ \[[^\]]*\] )?"
    r"((?:\w+\.)*\w*(?:Error|Exception): .{1,300})",
    re.M,
)


class VllmServer:
    """A policy directory, or a model of the hub by its id, served by vLLM; a context manager.

    ``model`` is the name it is served under (default: the last part of the directory or id),
    ``port`` the port on 127.0.0.1 (0: a free one), ``log`` the file that takes its output.
    If TEXT2SQL_API_KEY is set, clients need that key. Leaving the block, an exception, and the
    death of this process stop the server and all that it started.
    """

    def __init__(
        self,
        policy: Path | str,
        options: VllmOptions | None = None,
        *,
        model: str = "",
        port: int = 0,
        log: Path | None = None,
    ) -> None:
        self.options = options or VllmOptions()
        self.directory = served_directory(policy)
        self.adapter = read_adapter(self.directory) if self.directory else None
        self.target = str(self.adapter.base if self.adapter else self.directory or policy)
        self.model = model or policy_name(Path(str(self.directory or policy)))
        self.port = port
        name = f"vllm-{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}.log"
        self.log = log or logs_folder(artifact_root()) / name
        self._log_start = 0
        self._prepared: tuple[list[str], dict[str, str]] | None = None
        self._process: GuardedProcess | None = None

    @property
    def url(self) -> str:
        """The address for clients, once the server is ready."""
        return f"http://{HOST}:{self.port}/v1"

    @property
    def pid(self) -> int | None:
        """The id of the server's session and process group; None while it does not run."""
        return self._process.pid if self._process else None

    def prepare(self) -> None:
        """Check all that can be checked before vLLM starts, and choose the port.

        Raises Text2SqlError for missing vLLM or memory, a used port, invalid arguments.
        """
        self._require_base()
        adapter = self.adapter
        for folder in (self.directory, adapter.base if adapter else None):
            if folder:
                require_whole(folder)
        python = ready_python(self.options)
        self.port = _bindable_port(self.port)
        of_model = (adapter.base, BASE_NAME) if adapter else (self.directory, self.model)
        arguments = command(python, self.target, *of_model, self.port, self.options)
        arguments += adapter.vllm_arguments(self.model) if adapter else []
        self._prepared = arguments, environment(python, offline=self.directory is not None)

    def start(self) -> None:
        """Start the server, after ``prepare``, and wait until it answers.

        Raises InfrastructureError, with the end of the log, if it ends or is not ready in time.
        """
        if self._prepared is None:
            self.prepare()
            assert self._prepared
        (arguments, variables), self._prepared = self._prepared, None
        _log.debug("starting %s", " ".join(arguments))
        self._log_start = self.log.stat().st_size if self.log.is_file() else 0
        self._process = GuardedProcess(arguments, self.log, variables)
        try:
            self._await_ready(self._process)
        except BaseException:
            self.stop()
            raise

    def check(self) -> None:
        """Raise InfrastructureError, with the end of the log, if the server has ended."""
        if self._process is None:
            raise InfrastructureError(f"The vLLM server of {self.model} is not running.")
        status = self._process.process.poll()
        if status is not None:
            failure = failure_in(self.log, self._log_start)
            raise InfrastructureError(f"vLLM ended with status {status}. {failure}")

    def stop(self) -> None:
        """Stop the server and everything that it started, and wait until all is gone."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    def _require_base(self) -> None:
        """Refuse to serve an adapter beside another model than it was trained on."""
        adapter = self.adapter
        if adapter is None:
            return
        if not adapter.base.is_dir():
            raise Text2SqlError(
                f"The base model {adapter.base} of the adapter {adapter.directory} is missing: "
                "put it back, or correct its path in the adapter's training.json."
            )
        if (found := directory_revision(adapter.base)) != adapter.base_revision:
            raise Text2SqlError(
                f"The base model {adapter.base} has revision {found}; the adapter "
                f"{adapter.directory} was trained on {adapter.base_revision}."
            )

    def _await_ready(self, process: GuardedProcess) -> None:
        deadline = time.monotonic() + self.options.ready_seconds
        key = os.environ.get(API_KEY_VARIABLE, "")
        while True:
            with suppress(Text2SqlError):
                if self.model in served_models(self.url, key):
                    break
            process.wait(_POLL_SECONDS)
            self.check()
            if time.monotonic() > deadline:
                raise InfrastructureError(
                    f"vLLM was not ready to serve {self.model} within "
                    f"{self.options.ready_seconds:g} s and was stopped. "
                    f"{failure_in(self.log, self._log_start)}"
                )
        self.check()  # another server may have answered on the port

    def __enter__(self) -> VllmServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def served_directory(policy: Path | str) -> Path | None:
    """Return the model directory that ``policy`` names; None for a model's id on the hub."""
    directory = policy_directory(str(policy))
    if directory is not None and directory.is_dir():
        model = (directory / "config.json").is_file() or is_adapter(directory)
        if model and any(directory.glob("*.safetensors")):
            return directory
        raise Text2SqlError(
            f"{directory} is not a model directory: it needs a config.json and *.safetensors."
        )
    if _MODEL_ID.fullmatch(str(policy)):
        return None
    raise Text2SqlError(
        f"There is no policy {str(policy)!r} to serve: give 'pocket', a model directory, or a "
        "model's id on the hub, like Qwen/Qwen3.5-9B."
    )


def ready_python(options: VllmOptions) -> VllmPython:
    """Return the interpreter to start vLLM with, after checking the GPUs that it will use.

    Raises Text2SqlError if it is missing, has no GPU, or one has too little free memory.
    """
    gpus = visible_gpus()
    python = find_vllm(options.python, gpu=bool(gpus))
    if python.cpu:
        return python
    if not gpus:
        raise Text2SqlError(
            f"{python.path} has the vLLM for GPUs, but nvidia-smi lists no GPU: {INSTALL}, or give "
            "the URL of a server elsewhere."
        )
    require_memory(gpus, options.gpus, options.gpu_memory)
    return python


def _bindable_port(port: int) -> int:
    """Return ``port``, or a free one for 0. Raises Text2SqlError if it is in use."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise Text2SqlError(
                f"Port {port} of {HOST} cannot be used ({error.strerror}); choose another."
            ) from error
        found: int = probe.getsockname()[1]
        return found


def failure_in(log: Path, start: int = 0) -> str:
    """Return the first error in a log, which later lines often hide, and its last lines."""
    text = ""
    if log.is_file():
        with log.open("rb") as file:
            file.seek(max(start, log.stat().st_size - _READ_BYTES))
            text = without_colors(file.read().decode("utf-8", errors="replace"))
    free = shutil.disk_usage(log.parent).free / 1e6 if log.parent.is_dir() else 0.0
    if _NO_SPACE in text or free < _LEAST_FREE_MB:  # a full disk also keeps the log empty
        said = "vLLM found a full disk" if _NO_SPACE in text else "The disk of its log is full"
        return f"{said} ({free:,.0f} MB free at {log.parent}): make room and start it again."
    cause = _CAUSE.search(text)
    first = f"The first error is: {cause[1].rstrip('.')}. " if cause else ""
    last = end_of(text, _END_CHARS) or "(it wrote nothing)"
    return f"{first}Its log is {log} and ends with:\n{last}"
