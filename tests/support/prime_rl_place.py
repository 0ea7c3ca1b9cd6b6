"""A place where prime-rl seems to be installed, with stand-ins for its programs and for GPUs."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import wait_until
from text2sql.agent.settings import AgentSettings
from text2sql.judge.verdicts import GoldResult
from text2sql.policy.open import policy_directory
from text2sql.questions import Question
from text2sql.sandbox import Status

REPO = Path(__file__).resolve().parents[2]
STAND_IN = REPO / "tests" / "stand_ins" / "prime_rl.py"
SLURM = REPO / "tests" / "stand_ins" / "slurm.py"
NAMES = ("rl", "inference", "env-server", "orchestrator", "torchrun")
FULL = {"backend": "prime_rl", "train_gpus": 1, "inference_gpus": 1, "rollouts_in_flight": 16}
"""Settings of the backend that trains all weights, for the two GPUs that are shown."""
SLURM_PROGRAMS = ("sbatch", "squeue", "sacct", "scancel")
GPU = "{index}, GPU-{index}, NVIDIA H200, 143771, {free}"


class Place:
    """A folder with stand-ins and everything that a run with them needs."""

    def __init__(self, folder: Path, gpus: int = 2, free: int = 143_000) -> None:
        self.folder = folder
        self.prime_rl = folder / "prime-rl"
        self.output = folder / "output"
        self.site = folder / "site"
        self.ports = free_ports(4)
        self._install()
        self._show_gpus(gpus, free)
        self.behave()
        self.prompts = folder / "prompts.jsonl"
        self.golds = folder / "golds.jsonl"
        self.write_prompts(4)

    def _install(self) -> None:
        binaries = self.prime_rl / ".venv" / "bin"
        binaries.mkdir(parents=True)
        for name in NAMES:
            call = f'exec "{sys.executable}" "{STAND_IN}" {name} "$@"'
            script(binaries / name, call)
        self.site.mkdir()
        (self.site / "text2sql_env.py").write_text("import text2sql\n")  # verifiers takes seconds
        script(binaries / "python", f'PYTHONPATH="{self.site}:{REPO}" exec "{sys.executable}" "$@"')
        git = ["git", "-C", str(self.prime_rl), "-c", "user.name=t", "-c", "user.email=t@t"]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "stand-in"], check=True)

    def _show_gpus(self, count: int, free: int) -> None:
        rows = "\n".join(GPU.format(index=index, free=free) for index in range(count))
        held = "GPU-0, 4711, VLLM::EngineCor, 104277"
        answer = f"case \"$1\" in *compute-apps*) echo '{held}';; *) echo '{rows}';; esac"
        (self.folder / "bin").mkdir(exist_ok=True)
        script(self.folder / "bin" / "nvidia-smi", answer)

    def install_slurm(self, **behaviour) -> None:
        """Put stand-ins for Slurm's programs on PATH; see ``stand_ins/slurm.py``."""
        state = self.folder / "slurm"
        state.mkdir(exist_ok=True)
        (state / "behaviour.json").write_text(json.dumps(behaviour))
        for name in SLURM_PROGRAMS:
            call = f'exec "{sys.executable}" "{SLURM}" {name} "{state}" "$@"'
            script(self.folder / "bin" / name, call)

    def slurm_jobs(self) -> list[dict]:
        """What Slurm's stand-in knows of the jobs, in the order of their submission."""
        files = sorted((self.folder / "slurm").glob("job-*.json"))
        return [json.loads(file.read_text()) for file in files]

    def behave(self, **behaviour) -> None:
        """Say how the stand-ins behave."""
        (self.prime_rl / "behaviour.json").write_text(json.dumps(behaviour))

    def write_prompts(self, count: int) -> None:
        """Write so many prompts and their gold results."""
        questions = [
            Question(f"train/{number}", "shop", Path("/shop.sqlite"), "?", sql="SELECT 1")
            for number in range(count)
        ]
        rows = [question.to_dict() for question in questions]
        golds = [
            GoldResult(question.key, Status.OK, "0", "0", "0", 1, 0.0, "").to_dict()
            for question in questions
        ]
        self.prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.golds.write_text("".join(json.dumps(row) + "\n" for row in golds))

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a launcher here."""
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return os.environ | {"PRIME_RL_DIR": str(self.prime_rl), "PATH": path}

    @property
    def run_dir(self) -> Path:
        return self.output / "run"

    def settings(self, **changes) -> dict:
        """Settings that fit a test."""
        router, engine, environment, _ = self.ports
        small = {"steps": 6, "prompts_per_step": 2, "group_size": 2, "save_every": 2}
        ports = {"router_port": router, "engine_port": engine, "environment_port": environment}
        return small | ports | changes

    def command(self, backend="prime_rl_lora", fresh=False, **changes) -> list[str]:
        """The command line of a launcher with these settings."""
        plan = {
            "backend": backend,
            "settings": self.settings(**changes),
            "agent": AgentSettings().to_dict(),
            "policy_dir": str(policy_directory("pocket")),
            "prompts": str(self.prompts),
            "golds": str(self.golds),
            "output_dir": str(self.output),
            "package": str(REPO),
            "fresh": fresh,
        }
        self.output.mkdir(exist_ok=True)
        file = self.output / "config.json"
        file.write_text(json.dumps(plan))
        return [sys.executable, "-m", "text2sql.training.prime_rl.launch", str(file)]

    def launch(self, **changes) -> subprocess.CompletedProcess:
        """Run a launcher to its end."""
        return subprocess.run(
            self.command(**changes),
            cwd=REPO,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def metrics(self) -> list[dict]:
        """The lines of the merged metrics file."""
        path = self.output / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def steps(self) -> dict[int, dict]:
        """The merged metrics by step."""
        found: dict[int, dict] = {}
        for line in self.metrics():
            found.setdefault(line["step"], {}).update(line)
        return found

    def busy_ports(self) -> list[int]:
        """The ports of the run that somebody holds."""
        return [port for port in self.ports[:3] if not can_bind(port)]

    def processes(self) -> list[int]:
        """The stand-ins of this place that still run, wherever they hang in the tree."""
        marker = f"PRIME_RL_DIR={self.prime_rl}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if state not in "ZX" and marker in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def is_clear(self) -> bool:
        """Say whether no process and no port of a run is left, within 20 s."""
        return wait_until(lambda: not self.processes() and not self.busy_ports(), 20)


def script(path: Path, call: str) -> None:
    """Write a shell script."""
    path.write_text(f"#!/bin/sh\n{call}\n")
    path.chmod(0o755)


def free_ports(count: int) -> list[int]:
    """Ports that nobody holds now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def can_bind(port: int) -> bool:
    """Say whether a port is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
