"""A stand-in for a Kubernetes cluster: its API on 127.0.0.1, and each Job's container a process.

It answers what Dagster's launcher and executor ask, keeps every Job that was made, runs its
command with this machine's Python, and ends it with SIGTERM when the Job is deleted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.resources.kubeconfig import write_kubeconfig

REPO = Path(__file__).resolve().parents[2]


class Cluster:
    """Serves until closed; ``jobs`` has the Jobs that were made, ``deleted`` the names of those
    that were deleted, in order; ``calls`` the methods and kinds that were asked for.

    Containers get ``environment`` beside their own, and the checkout as the image has it; what
    refers to Secrets and ConfigMaps is left out.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.deleted: list[str] = []
        self.calls: set[tuple[str, str]] = set()
        self.folder, self.environment = folder, {"PYTHONPATH": str(REPO)} | environment
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for process in self.processes.values():
            process.kill()
            process.wait()

    def kubeconfig(self) -> Path:
        """Write the file that names this cluster."""
        return write_kubeconfig(self.folder, self._server.server_address[1])

    def create(self, job: dict[str, Any]) -> dict[str, Any]:
        """Keep a Job and start its container's command."""
        name = job["metadata"]["name"]
        (container,) = job["spec"]["template"]["spec"]["containers"]
        own = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        command = [sys.executable, "-m", *container["args"]]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                command, cwd=REPO, env=os.environ | own | self.environment, stdout=log, stderr=log
            )
        self.jobs[name] = job
        return job

    def status(self, name: str) -> dict[str, Any]:
        """Return a Job with what became of it."""
        code = self.processes[name].poll()
        state = "active" if code is None else "failed" if code else "succeeded"
        return self.jobs[name] | {"status": {state: 1}}

    def delete(self, name: str) -> None:
        """End a Job as the kubelet does."""
        self.deleted.append(name)
        self.processes[name].send_signal(signal.SIGTERM)

    def running(self) -> list[str]:
        """Return the Jobs whose process still runs."""
        return [name for name, process in self.processes.items() if process.poll() is None]


def _handler(cluster: Cluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._note()
            length = int(self.headers["Content-Length"])
            self._send(201, cluster.create(json.loads(self.rfile.read(length))))

        def do_GET(self) -> None:
            parts = self._note()
            if parts[-1] == "status":
                self._send(200, cluster.status(parts[-2]))
                return
            chosen = parse_qs(urlsplit(self.path).query).get("fieldSelector", [""])[0]
            name = chosen.partition("metadata.name=")[2]
            found = [cluster.status(name)] if parts[-1] == "jobs" and name in cluster.jobs else []
            self._send(200, {"items": found})

        def do_DELETE(self) -> None:
            cluster.delete(self._note()[-1])
            self._send(200, {"kind": "Status", "status": "Success"})

        def _note(self) -> list[str]:
            """Return the path's parts, and keep what was asked of which kind of thing."""
            parts = urlsplit(self.path).path.strip("/").split("/")
            below = parts[parts.index("namespaces") + 2 :]
            kind = below[0] + ("/status" if below[-1] == "status" else "")
            listing = self.command == "GET" and len(below) == 1
            verb = {"POST": "create", "DELETE": "delete", "GET": "get"}[self.command]
            cluster.calls.add((("list" if listing else verb), kind))
            return parts

        def _send(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    return Handler
