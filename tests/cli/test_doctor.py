"""``text2sql doctor``: each check against real servers, files, processes and installed."""

import json
import os
import shutil
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement

from tests.support.prime_rl_place import Place
from tests.support.scripted_server import ScriptedServer, calls, completion, fails, says
from text2sql.cli.doctor import installed, machine
from text2sql.cli.doctor.finding import Finding, State, examine
from text2sql.cli.doctor.machine import check_disk, check_gpu
from text2sql.cli.doctor.policy import check_policy
from text2sql.cli.main import cli
from text2sql.errors import Text2SqlError
from text2sql.policy.vllm.options import PYTHON_VARIABLE
from text2sql.training.prime_rl.toml import WRITTEN_FOR

XML = "<tool_call>\n<function=inspect_schema>\n</function>\n</tool_call>"


@pytest.fixture(autouse=True)
def own_root(tmp_path, monkeypatch):
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "root"))
    for name in (PYTHON_VARIABLE, installed.PRIME_RL_VARIABLE, machine.URL_VARIABLE):
        monkeypatch.delenv(name, raising=False)


def one(findings) -> Finding:
    (found,) = list(findings)
    return found


def probed(step, model=None):
    """Let doctor probe a server that gives this answer; returns the last finding."""
    with ScriptedServer([step, says("I see.")]) as server:
        findings = list(check_policy(server.url, model))
    assert [tool["function"]["name"] for tool in server.requests[0]["tools"]][-1] == "submit"
    assert findings[0].state is State.OK and "scripted" in findings[0].found
    assert len(server.requests) == len(findings) - 1
    return findings[1]


@pytest.mark.parametrize(
    "step, state, words",
    [
        (calls(("inspect_schema", {})), "ok", "called inspect_schema"),
        (calls(("run_sql", {"sql": "SELECT 1"}), content="Hm.</think>"), "warn", "its thinking"),
        (says(f"I look.\n{XML}"), "fail", "in the content: the server does not parse"),
        (says(None, reasoning=f"So I call\n{XML}"), "fail", "in its reasoning"),
        (says(f"<think>So I call\n{XML}"), "fail", "in its reasoning"),
        (says(None), "fail", "may have swallowed"),
        (completion({"content": None, "tool_calls": []}, "tool_calls"), "fail", "swallowed"),
        (completion({"content": "So many"}, "length"), "warn", "1024 tokens without a call"),
        (says("There is a table."), "warn", "said 'There is a table.'"),
        (says([{"type": "text", "text": "Hm."}]), "warn", "said 'Hm.'"),
        (completion({"function_call": {"name": "run_sql", "arguments": "{}"}}), "ok", "run_sql"),
        (fails(400, '"auto" tool choice requires --enable-auto-tool-choice'), "fail", "cannot"),
        (fails(500, "dead"), "fail", "HTTP 500: dead"),
    ],
)
def test_the_probe_shows_what_the_parser_does(step, state, words):
    found = probed(step)
    assert (found.check, found.state) == ("tool calls", state)
    assert words in found.found
    named = "--tool-call-parser qwen3_xml" in found.fix
    assert named == (state != "ok" and "dead" not in words and "1024" not in words)


def test_an_answer_that_is_no_completion():
    with ScriptedServer([completion({})]) as server:
        assert list(check_policy(server.url, None))[-1].state is State.FAIL
    odd = [[{"id": "c"}], [None], {"id": "c"}]
    with ScriptedServer([completion({"tool_calls": called}) for called in odd]) as server:
        for _ in odd:
            assert "not a chat completion" in list(check_policy(server.url, None))[-1].found
    found = one(check_policy("http://127.0.0.1:9", None))
    assert found.state is State.FAIL and "No policy server answers" in found.found
    with ScriptedServer([], models=("a", "b")) as server:
        assert "has no model 'c'; it has: a, b" in one(check_policy(server.url, "c")).found
    with ScriptedServer([], models=()) as server:
        assert "not an OpenAI-compatible server" in one(check_policy(server.url, None)).found


def test_two_turns_are_played_and_the_adaptations_named():
    newer = fails(400, "Use 'max_completion_tokens' instead of 'max_tokens'.")
    called = calls(("inspect_schema", {}))
    with ScriptedServer([newer, called, says("I see.")]) as server:
        findings = {one.check: one for one in check_policy(server.url, None)}
    assert {one.state for one in findings.values()} == {State.OK}
    assert "takes a tool's result" in findings["second turn"].found
    assert "max_completion_tokens" in findings["adaptations"].found
    assert server.requests[-1]["messages"][-1]["role"] == "tool"
    with ScriptedServer([called, fails(400, "thought_signature is missing")]) as server:
        found = {one.check: one for one in check_policy(server.url, None)}["second turn"]
    assert found.state is State.FAIL and "thought_signature is missing" in found.found


def test_a_policy_directory_is_looked_at_without_loading_it(tmp_path):
    found = one(check_policy(None, None))
    assert found.state in (State.OK, State.WARN)
    assert found.found.startswith("the pocket policy (") and "real questions" in found.found
    (broken,) = examine("policy", lambda: check_policy(str(tmp_path), None))
    assert broken.state is State.FAIL and "no *.safetensors weights" in broken.found
    (tmp_path / "model.safetensors").write_bytes(bytes(100))
    (broken,) = examine("policy", lambda: check_policy(str(tmp_path), None))
    assert broken.state is State.FAIL and "model.safetensors cannot be read" in broken.found


def test_ports(monkeypatch):
    monkeypatch.setattr(machine, "_ASK_SECONDS", 0.2)  # what holds the port says nothing
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = machine._port(port, "Dagster's UI")
        assert found.state is State.WARN and "in use" in found.found
        assert f"sport = :{port}" in found.fix
    assert machine._port(port, "Dagster's UI").state is State.OK
    with ScriptedServer([]) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        found = machine._port(port, "a policy server")
    assert found.state is State.OK and "a policy server runs at" in found.found
    assert "scripted" in found.found


def stand_in(folder, monkeypatch, script):
    """Put a program named nvidia-smi first on the path."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_gpus_as_nvidia_smi_shows_them(tmp_path, monkeypatch):
    stand_in(
        tmp_path,
        monkeypatch,
        'case "$1" in *query-gpu*) echo "0, GPU-1, NVIDIA H200, 143771, 143000"; '
        'echo "1, GPU-2, NVIDIA H200, 143771, 1000";; '
        '*) echo "GPU-2, 77, python, 142000";; esac',
    )
    free, full = check_gpu()
    assert (free.state, free.found) == (State.OK, "NVIDIA H200, 139.6 of 140.4 GiB free")
    assert full.state is State.WARN and "used by python (process 77)" in full.found
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert one(check_gpu()).state is State.WARN


def test_a_driver_that_fails_is_a_failure(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, 'echo "Driver/library version mismatch"; exit 18')
    found = one(examine("gpu", check_gpu))
    assert found.state is State.FAIL and "version mismatch" in found.found


def test_disk(tmp_path, monkeypatch):
    found = one(check_disk())
    assert f"GiB free for {tmp_path / 'root'}" in found.found
    assert not (tmp_path / "root").exists()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "file" / "root"))
    found = one(check_disk())
    assert found.state is State.FAIL and "is not a folder" in found.found


def test_packages_are_compared_with_the_pins():
    assert installed._lack(Requirement("no-such-package>=1")) == "no-such-package is missing"
    assert "instead of ==0.1" in installed._lack(Requirement("pytest==0.1"))
    assert installed._lack(Requirement("pytest>=1")) == ""
    found = {finding.check: finding for finding in installed.check_packages()}
    assert found["packages"].state is State.OK, found["packages"].found
    assert "click " in found["packages"].found
    assert "dagster " in found["extra pipelines"].found
    assert "sqlalchemy " in found["extra pipelines"].found  # through the extra it names
    assert one(installed.check_python()).state is State.OK


def test_pins_without_a_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(installed, "CHECKOUT", tmp_path)
    asked = installed._requirements()
    assert "click" in {requirement.name for requirement in asked[""]}
    assert "torch" in {requirement.name for requirement in asked["local"]}
    assert "torch" not in {requirement.name for requirement in asked[""]}
    assert one(installed.check_python()).state is State.OK


def test_programs_with_environments_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "python"))
    found = one(installed.check_vllm())
    assert found.state is State.FAIL and str(tmp_path / "python") in found.found
    assert "make vllm" in found.fix and "make vllm" not in found.found
    assert one(installed.check_prime_rl()).state is State.WARN
    monkeypatch.setenv(installed.PRIME_RL_VARIABLE, str(tmp_path))
    assert one(installed.check_prime_rl()).state is State.FAIL
    for place in (tmp_path / ".venv" / "bin" / "rl", tmp_path / "path" / "uv"):
        place.parent.mkdir(parents=True)
        place.write_text("#!/bin/sh\n")
        place.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert "uv is missing" in one(installed.check_prime_rl()).found


def test_prime_rl_its_commit_and_the_environment_in_it(tmp_path, monkeypatch):
    place = Place(tmp_path)
    uv = place.folder / "bin" / "uv"
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    commit, environment = installed.check_prime_rl()
    assert commit.state is State.WARN
    assert WRITTEN_FOR[:8] in commit.found and WRITTEN_FOR in commit.fix
    assert environment.state is State.OK and environment.found.startswith("text2sql_env of")
    (place.prime_rl / "COMMIT").write_text(WRITTEN_FOR)
    shutil.rmtree(place.prime_rl / ".git")
    (place.site / "text2sql_env.py").unlink()
    (place.site / "text2sql_env").mkdir()
    (place.site / "text2sql_env" / "__init__.py").write_text("raise ImportError('no verifiers')")
    commit, environment = installed.check_prime_rl()
    assert commit.state is State.OK and WRITTEN_FOR[:8] in commit.found
    assert environment.state is State.FAIL and "(ImportError: no verifiers)" in environment.found
    assert "uv pip install --no-deps --reinstall" in environment.found


def test_the_sandbox():
    found = one(machine.check_sandbox())
    assert found.state is State.OK and "refuses a write; " in found.found
    if sys.platform == "linux" and os.uname().machine in ("x86_64", "aarch64"):
        assert found.found.endswith("as does the kernel")


def test_the_reporting_database(tmp_path, monkeypatch):
    pytest.importorskip("sqlalchemy")
    from text2sql.reporting.tables.store import ReportingStore

    file = tmp_path / "root" / "reporting.sqlite"
    found = one(machine.check_reporting())
    assert found.state is State.OK and "does not exist yet" in found.found
    assert not file.parent.exists()
    with ReportingStore(f"sqlite:///{file}"):
        pass
    assert one(machine.check_reporting()).found == f"{file}: 0 answers"
    file.write_bytes(b"no database" * 100)
    found = one(machine.check_reporting())
    assert found.state is State.FAIL and "not a database" in found.found
    monkeypatch.setenv(machine.URL_VARIABLE, "postgresql://me:secret@127.0.0.1:9/answers")
    found = one(machine.check_reporting())
    assert found.state is State.FAIL and "secret" not in found.found
    monkeypatch.setenv(machine.URL_VARIABLE, "nonsense")
    assert "URL is malformed; use postgresql://" in one(machine.check_reporting()).found
    monkeypatch.setenv(machine.URL_VARIABLE, "mysql://me@127.0.0.1/answers")
    assert one(machine.check_reporting()).state is State.FAIL


def test_a_check_that_breaks_does_not_hide_the_others():
    def breaks():
        raise KeyError("x")

    def refuses():
        raise Text2SqlError("It is broken; fix it.")

    assert "the check failed: KeyError" in one(examine("one", breaks)).found
    assert one(examine("two", refuses)) == Finding("two", State.FAIL, "It is broken; fix it.")


def doctor(*arguments):
    """Run the program itself."""
    code = "import sys; from text2sql.cli.main import main; sys.argv[0] = 'text2sql'; main()"
    command = [sys.executable, "-c", code, "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_shows_every_check_and_fails_if_one_does():
    with ScriptedServer([calls(("inspect_schema", {})), says("I see.")]) as server:
        done = doctor("--policy", server.url, "--json")
    found = json.loads(done.stdout)
    states = {check["check"]: check["state"] for check in found["checks"]}
    assert {"python", "packages", "sandbox", "disk", "policy server", "tool calls"} <= set(states)
    assert {"extra local", "reporting database", "port 3000", "port 8000"} <= set(states)
    assert {"vllm", "prime-rl"} <= set(states)
    assert {tuple(check) for check in found["checks"]} == {("check", "state", "found", "fix")}
    assert states["tool calls"] == "ok"
    assert (done.returncode, found["ok"]) == (int("fail" in states.values()), done.returncode == 0)
    with ScriptedServer([says(XML)]) as server:
        done = doctor("--policy", server.url)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    line = next(number for number, text in enumerate(lines) if text.startswith("fail  tool calls"))
    assert lines[line + 1].strip().startswith("-> start vLLM with --enable-auto-tool-choice")
    assert done.stderr == ""


def test_help_lists_doctor_and_its_statuses():
    assert "doctor" in CliRunner().invoke(cli, ["--help"]).stdout
    shown = CliRunner().invoke(cli, ["doctor", "--help"]).stdout
    assert "0  nothing failed" in shown and "1  something failed" in shown
