"""A stand-in for a Kubernetes cluster's pods: its API on 127.0.0.1, each container a process.

It answers what Dagster's Pipes client asks of pods. While the file ``full`` exists in its folder,
pods wait for a machine. A deleted pod's process gets SIGTERM, after the pod's grace SIGKILL, and
the pod is gone when its process is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.resources.kubeconfig import write_kubeconfig

REPO = Path(__file__).resolve().parents[2]


class PodApi:
    """Serves until closed; ``made`` has the pods that were made, ``environment`` is what every
    container gets beside its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.made: list[dict[str, Any]] = []
        self.away = False
        self._pods: dict[str, dict[str, Any]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> PodApi:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for process in self._processes.values():
            process.kill()
            process.wait()

    def kubeconfig(self) -> str:
        """Write the file that names this cluster."""
        return str(write_kubeconfig(self.folder, self._server.server_address[1]))

    def create(self, pod: dict[str, Any]) -> dict[str, Any]:
        """Keep a pod; it starts once there is room."""
        self.made.append(pod)
        self._pods[pod["metadata"]["name"]] = pod
        return pod

    def list(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        """Return the pods that a selector means, with their state."""
        name = query.get("fieldSelector", [""])[0].partition("metadata.name=")[2]
        label, _, value = query.get("labelSelector", [""])[0].partition("=")
        return [
            self._seen(pod)
            for pod in list(self._pods.values())
            if (not name or pod["metadata"]["name"] == name)
            and (not label or pod["metadata"]["labels"].get(label) == value)
            and not self._is_gone(pod["metadata"]["name"])
        ]

    def delete(self, name: str) -> None:
        """Begin to end a pod."""
        pod = self._pods[name]
        pod["metadata"]["deletionTimestamp"] = datetime.now(UTC).isoformat()
        if name in self._processes:
            self._processes[name].send_signal(signal.SIGTERM)
            grace = pod["spec"]["terminationGracePeriodSeconds"]
            killing = threading.Timer(grace, self._processes[name].kill)
            killing.daemon = True
            killing.start()

    def log(self, name: str) -> Path:
        """Where a container's output lies."""
        return self.folder / f"{name}.log"

    def ended(self, name: str) -> bool:
        """Say whether a container's process has ended."""
        return name in self._processes and self._processes[name].poll() is not None

    def names(self) -> list[str]:
        """The pods that are there."""
        return [pod["metadata"]["name"] for pod in self.list({})]

    def _is_gone(self, name: str) -> bool:
        deleted = "deletionTimestamp" in self._pods[name]["metadata"]
        return deleted and (name not in self._processes or self.ended(name))

    def _seen(self, pod: dict[str, Any]) -> dict[str, Any]:
        name = pod["metadata"]["name"]
        if name not in self._processes:
            if (self.folder / "full").exists():
                why = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes have GPUs."}
                return pod | {"status": {"phase": "Pending", "conditions": [why]}}
            self._start(name, pod)
        code = self._processes[name].poll()
        state: dict[str, Any] = {"running": {}}
        phase = "Running"
        if code is not None:
            reason = "OOMKilled" if code == -9 else "Error" if code else "Completed"
            state = {"terminated": {"exitCode": abs(code), "reason": reason}}
            phase = "Failed" if code else "Succeeded"
        status = {"name": "training", "image": "i", "imageID": "i", "restartCount": 0}
        status |= {"ready": code is None, "state": state}
        return pod | {"status": {"phase": phase, "containerStatuses": [status]}}

    def _start(self, name: str, pod: dict[str, Any]) -> None:
        (container,) = pod["spec"]["containers"]
        own = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        with self.log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                container["command"],
                cwd=REPO,
                env=dict(os.environ) | own | self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def _handler(api: PodApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            self._send(201, api.create(json.loads(self.rfile.read(length))))

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            parts = address.path.strip("/").split("/")
            if parts[-1] == "log":
                self._stream(parts[-2])
            elif api.away:
                self._send(503, {"message": "the API is being updated"})
            elif parts[-1] == "pods":
                self._send(200, {"items": api.list(parse_qs(address.query))})
            else:
                self._send(200, {"items": []})

        def do_DELETE(self) -> None:
            api.delete(urlsplit(self.path).path.rpartition("/")[2])
            self._send(200, {"kind": "Status", "status": "Success"})

        def _stream(self, name: str) -> None:
            """Send a container's output, a line at a time, until it has ended."""
            self.send_response(200)
            self.end_headers()
            with api.log(name).open("rb") as log:
                while True:
                    ended, line = api.ended(name), log.readline()
                    if line:
                        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
                        stamp = f"{now}.{time.time_ns() % 10**9:09d}Z "
                        self.wfile.write(stamp.encode() + line)
                    elif ended:
                        return
                    else:
                        time.sleep(0.02)

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
