"""Stands in for Slurm's programs: ``python slurm.py NAME STATE_FOLDER ARGUMENTS...``.

``slurmctld`` is started by the test and runs what ``sbatch`` submits as a process of this machine,
one job at a time; its state is in ``job-N.json``. ``behaviour.json`` says what else happens:

``refuse``: what sbatch says. ``end``: [step, state]: once so many steps are done the job is ended
in this state, as by a time limit. ``purge``: squeue forgets jobs that have ended.
``no_accounting``: sacct knows nothing. While the file ``full`` exists, jobs wait in the queue;
while ``deaf`` exists, neither squeue nor scancel answers.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from text2sql.common import guard

KILL_WAIT = 2.0
STATE = Path(sys.argv[2])


def behaviour():
    return json.loads((STATE / "behaviour.json").read_text())


def record(job, **changes):
    """Read a job's record, or change it."""
    file = STATE / f"job-{job}.json"
    known = json.loads(file.read_text()) if file.exists() else {"id": job}
    if changes:
        part = file.with_suffix(".part")
        part.write_text(json.dumps(known | changes))
        part.rename(file)
    return known | changes


def sbatch(arguments):
    if "refuse" in behaviour():
        sys.exit(f"sbatch: error: {behaviour()['refuse']}")
    assert arguments[:2] == ["--parsable", "--no-requeue"], arguments
    job = str(101 + len(list(STATE.glob("job-*.json"))))
    environment = dict(os.environ)
    record(job, state="PENDING", script=arguments[2], code="0:0", environment=environment)
    print(f"{job};cluster")


def slurmctld(_arguments):
    """Run the jobs that are submitted, one at a time."""
    guard.prctl(guard.PR_SET_CHILD_SUBREAPER, 1)
    running = None
    while True:
        for file in sorted(STATE.glob("job-*.json")):
            job = file.stem.partition("-")[2]
            state = record(job)["state"]
            if state == "PENDING" and is_cancelled(job):
                record(job, state="CANCELLED by 1000")
            elif state == "PENDING" and not (STATE / "full").exists():
                running = start(job)
            elif state == "RUNNING":
                follow(job, running)
        time.sleep(0.05)


def start(job):
    known = record(job)
    script = Path(known["script"])
    with (script.parent / f"job_{job}.log").open("w") as log:
        child = subprocess.Popen(
            ["bash", str(script)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=known["environment"],
        )
    record(job, state="RUNNING")
    return child


def follow(job, child):
    limit = behaviour().get("end")
    if is_cancelled(job):
        finish(job, "CANCELLED by 1000", "0:15")
    elif limit and steps_done(Path(record(job)["script"])) >= limit[0]:
        finish(job, limit[1], "0:15")
    elif (status := child.poll()) is not None:
        finish(job, "FAILED" if status else "COMPLETED", f"{max(0, status)}:0")


def finish(job, state, code):
    """End all that a job started, wherever it hangs in the tree, as Slurm does by its cgroup."""
    record(job, state="COMPLETING")
    guard.sweep(KILL_WAIT)
    record(job, state=state, code=code)


def is_cancelled(job):
    return (STATE / f"cancel-{job}").exists()


def steps_done(script):
    metrics = script.parent / "metrics.trainer.jsonl"
    lines = metrics.read_text().splitlines() if metrics.exists() else []
    return max((json.loads(line)["step"] for line in lines), default=0)


def squeue(arguments):
    options = dict(one.partition("=")[::2] for one in arguments)
    if (STATE / "deaf").exists():
        sys.exit("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    if not (STATE / f"job-{options['--jobs']}.json").exists():
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    job = record(options["--jobs"])
    state = job["state"].split()[0]
    ended = state not in ("PENDING", "RUNNING", "COMPLETING")
    if ended and behaviour().get("purge"):
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    assert options["--format"] == "%T|%r" and "--states" in options
    print(f"{state}|{'Resources' if state == 'PENDING' else 'None'}")


def sacct(arguments):
    options = dict(one.partition("=")[::2] for one in arguments)
    assert options["--format"] == "State,ExitCode" and "--parsable2" in options
    if behaviour().get("no_accounting"):
        sys.exit("Slurm accounting storage is disabled")
    job = record(options["--jobs"])
    print(f"{job['state']}|{job['code']}")


def scancel(arguments):
    if (STATE / "deaf").exists():
        sys.exit("scancel: error: Unable to contact slurm controller")
    (STATE / f"cancel-{arguments[0]}").touch()


if __name__ == "__main__":
    programs = (slurmctld, sbatch, squeue, sacct, scancel)
    {program.__name__: program for program in programs}[sys.argv[1]](sys.argv[3:])
