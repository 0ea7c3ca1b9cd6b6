"""GRPO with prime-rl: ``python -m text2sql.training.prime_rl.launch CONFIG.json``.

The configuration is a ``LaunchPlan`` as JSON. Checks what the run needs, starts prime-rl or resumes
the run, merges both metrics files into metrics.jsonl, ends all processes with itself, and leaves
the trained policy as a directory that vLLM can serve.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from text2sql.agent.settings import AgentSettings
from text2sql.common.files import file_digest
from text2sql.common.guard import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl, reap
from text2sql.common.json_files import read_if_there, read_object, write_json
from text2sql.common.processes import descendants, described, signal_descendants
from text2sql.common.stopping import Stopped, signals_blocked, stop_on_signals
from text2sql.errors import Text2SqlError
from text2sql.policy.weights import ADAPTER_RECORD
from text2sql.training.child import check_usage, report_to_dagster
from text2sql.training.prime_rl import checkpoints
from text2sql.training.prime_rl.assemble import assemble
from text2sql.training.prime_rl.checkout import (
    package,
    require_prime_rl,
    rl_environment,
    rl_program,
)
from text2sql.training.prime_rl.failures import failure
from text2sql.training.prime_rl.metrics import MergedMetrics, shown
from text2sql.training.prime_rl.preflight import preflight
from text2sql.training.prime_rl.settings import (
    LaunchPlan,
    PrimeRlSettings,
    SlurmNodes,
    read_settings,
)
from text2sql.training.prime_rl.slurm import SlurmJob
from text2sql.training.prime_rl.toml import rl_config, write_toml
from text2sql.training.settings import read_values

POLL_SECONDS = 0.5
STOPPED = 143
_GRACE_SECONDS = 110.0  # prime-rl ends its servers one after the other
_CRASH_SECONDS = 10.0
_PROVENANCE = "found.json"


def launch(plan: LaunchPlan) -> dict[str, str]:
    """Train or resume; return what Dagster shows of the result."""
    here = package()
    if plan.code and plan.code != here["code"]:  # a plan that was written by hand has none
        raise Text2SqlError(
            f"This program runs other code of text2sql ({here['code']}, in {here['folder']}) than "
            f"the step that started it ({plan.code}): rebuild the training image from the same "
            "checkout."
        )
    settings = read_settings(plan.backend, plan.settings)
    if isinstance(settings, SlurmNodes):
        SlurmJob(plan.output_dir, settings.poll_seconds).cancel_earlier()
    arguments = checkpoints.start_arguments(plan.run_dir, settings.steps, plan.fresh)
    if arguments is not None:
        _train(plan, settings, arguments)
    elif read_if_there(plan.policy / ADAPTER_RECORD).get("step") == settings.steps:
        raise Text2SqlError(
            f"{plan.run_dir} is already trained to step {settings.steps}: set more steps, or "
            "start afresh."
        )
    record = _finish(plan, settings)
    return record["prime_rl"] | {"policy": str(plan.policy), "weights of step": str(record["step"])}


def _train(plan: LaunchPlan, settings: PrimeRlSettings, arguments: list[str]) -> None:
    """Check, start and follow prime-rl; store what is installed for the policy's record."""
    config = rl_config(settings, plan)
    plan.output_dir.mkdir(parents=True, exist_ok=True)
    installed = preflight(settings, plan, config, _say)
    directory = require_prime_rl()
    if plan.fresh:
        shutil.rmtree(plan.policy, ignore_errors=True)
        (plan.output_dir / "metrics.jsonl").unlink(missing_ok=True)
    toml = plan.output_dir / "rl.toml"
    write_toml(config, toml)
    provenance = {
        **installed,
        "rl.toml sha256": file_digest(toml),
        "prompts sha256": file_digest(plan.prompts),
        "gold results sha256": file_digest(plan.golds),
        "started with": " ".join(arguments),
        "logs": str(plan.run_dir / "logs" / "latest"),
        "rollouts": str(plan.run_dir / "rollouts"),
    }
    write_json(plan.output_dir / _PROVENANCE, provenance)
    for folder in checkpoints.incomplete_checkpoints(plan.run_dir):
        _say(f"{folder} is incomplete and is skipped.")
    _say(f"prime-rl starts with {' '.join(arguments)}.")
    _follow(directory, settings, ["@", str(toml), *arguments], plan)


def _follow(
    directory: Path, settings: PrimeRlSettings, arguments: list[str], plan: LaunchPlan
) -> None:
    """Run prime-rl to its end; whatever happens, none of its processes survives."""
    steps, log = settings.steps, plan.output_dir / "rl.log"
    log.unlink(missing_ok=True)
    metrics = MergedMetrics(plan.run_dir, plan.output_dir / "metrics.jsonl", steps)
    command = [str(rl_program(directory)), *arguments]
    errors: int | None = subprocess.STDOUT
    if isinstance(settings, SlurmNodes):  # a program that runs as long as the job does
        command = [sys.executable, "-m", "text2sql.training.prime_rl.slurm", str(plan.output_dir)]
        command += [str(settings.poll_seconds), *arguments]
        errors = None  # its standard error is this program's own log
    grace = _GRACE_SECONDS
    try:
        with log.open("ab") as output:
            child = subprocess.Popen(
                command,
                cwd=directory,
                env=rl_environment(directory),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
            )
        _say(f"prime-rl runs as process group {child.pid}; its output is in {log}.")
        while (status := child.poll()) is None:
            time.sleep(POLL_SECONDS)
            for line in metrics.poll():
                _say(shown(line, steps))
        grace = _CRASH_SECONDS
        if status != 0:
            raise failure(status, log, plan.run_dir)
    finally:
        with signals_blocked():
            if left := _end_all(grace):
                _say(f"error: these processes could not be ended: {', '.join(left)}")
        for line in metrics.close():
            _say(shown(line, steps))


def _finish(plan: LaunchPlan, settings: PrimeRlSettings) -> dict[str, Any]:
    """Assemble the policy from the newest weights and remove those that are no longer needed."""
    step = checkpoints.stable_weights(plan.run_dir)
    if step != settings.steps:
        raise Text2SqlError(
            f"prime-rl ended without an error, but the newest weights in "
            f"{plan.run_dir / 'broadcasts'} are of step {step}, not {settings.steps}."
        )
    broadcast = plan.run_dir / "broadcasts" / f"step_{step}"
    agent = settings.agent_settings(AgentSettings(**plan.agent))
    provenance = {"prime_rl": read_if_there(plan.output_dir / _PROVENANCE)}
    record = assemble(broadcast, Path(plan.policy_dir), plan.policy, agent, provenance)
    removed = checkpoints.prune_broadcasts(plan.run_dir, step)
    _say(f"The policy of step {step} is in {plan.policy}; {len(removed)} older ones were removed.")
    return record


def _end_all(grace: float) -> list[str]:
    """End every process below this one; return the names of those that survive even SIGKILL.

    SIGTERM first, SIGKILL after ``grace`` seconds. Survivors hang in the kernel, as a process does
    when its GPU or disk does not respond.
    """
    alive = signal_descendants(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while alive and time.monotonic() < deadline:
        time.sleep(0.05)
        reap()
        alive = descendants(os.getpid())
    deadline = time.monotonic() + 5.0
    while signal_descendants(signal.SIGKILL) and time.monotonic() < deadline:
        time.sleep(0.05)
        reap()
    return [described(process) for process in descendants(os.getpid())]


def _say(sentence: str) -> None:
    print(sentence, flush=True)


def main(arguments: list[str]) -> int:
    """Run the program; an error that the user can fix is one sentence on stderr."""
    status = check_usage(arguments, "text2sql.training.prime_rl.launch", "CONFIG.json")
    if status is not None:
        return status
    stop_on_signals()
    # On Linux the processes that a child leaves behind become this one's, which can end them.
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    try:
        file = Path(arguments[0])
        found = launch(read_values(LaunchPlan, read_object(file), f"{file} is not a plan of a run"))
    except Stopped as stopped:
        print(f"Stopped by {stopped}: checkpoints are kept, run it again to resume.", flush=True)
        return STOPPED
    except Text2SqlError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"error: the run could not be started or followed: {error}", file=sys.stderr)
        return 1
    report_to_dagster(found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
