"""The trainer: real children that work, fail, hang, and leave processes behind."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import dagster as dg
import pytest

from assets.training.grpo import observer
from resources.trainer import TrainerResource, TrainingMonitor
from tests.support.waiting import alive, wait_until
from text2sql.common.processes import last_lines
from text2sql.errors import Text2SqlError
from text2sql.training.backends import Program
from text2sql.training.metrics import MetricsFile, MetricsTail, read_metrics

REPO = Path(__file__).resolve().parents[2]
WORKING = """
import json, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
with (folder / "metrics.jsonl").open("a") as file:
    for step in (1, 2, 3):
        print(json.dumps({"step": step, "reward": step / 10}), file=file, flush=True)
print("done")
"""
PIPES = """
from dagster_pipes import open_dagster_pipes
with open_dagster_pipes() as pipes:
    pipes.log.info("hello from " + str(pipes.asset_key))
    pipes.report_asset_materialization(metadata={"device": "cpu"})
"""
CRASHING = "import sys; print('loading'); sys.exit('the weights are not there')"
HANGING = """
import sys, time
from pathlib import Path
print('{"step": 1}', file=(Path(sys.argv[1]) / "metrics.jsonl").open("a"), flush=True)
time.sleep(600)
"""
BREEDING = """
import signal, subprocess, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
children = [subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)]
import os
pids = [os.getpid(), os.getppid(), *(child.pid for child in children)]
(Path(sys.argv[1]) / "pids.part").write_text(" ".join(map(str, pids)))
(Path(sys.argv[1]) / "pids.part").rename(Path(sys.argv[1]) / "pids")
time.sleep(600)
"""
STEP = """
import sys
from pathlib import Path
import dagster as dg
from resources.trainer import TrainerResource
from text2sql.training.backends import Program

FOLDER = Path(__file__).parent

@dg.asset
def trained(context: dg.AssetExecutionContext, trainer: TrainerResource):
    (FOLDER / "step.pid").write_text(str(__import__("os").getpid()))
    command = [sys.executable, str(FOLDER / "child.py"), str(FOLDER)]
    trainer.run(context, Program(command), FOLDER, 600)
    return dg.MaterializeResult()

defs = dg.Definitions(
    assets=[trained],
    jobs=[dg.define_asset_job("train")],
    resources={"trainer": TrainerResource(grace_seconds=1)},
)
"""


def train(folder: Path, program: str, stall_seconds: float = 60.0, seen: list | None = None):
    """Run a child program in a real Dagster step of this process."""
    (folder / "child.py").write_text(program)
    command = [sys.executable, str(folder / "child.py"), str(folder)]

    @dg.asset
    def trained(context: dg.AssetExecutionContext, trainer: TrainerResource):
        metadata = trainer.run(
            context, Program(command), folder, stall_seconds, ([] if seen is None else seen).append
        )
        return dg.MaterializeResult(metadata=metadata | {"path": str(folder)})

    return dg.materialize([trained], resources={"trainer": TrainerResource(grace_seconds=1)})


def read_pids(folder: Path) -> list[int]:
    """Wait for the breeding child and return the ids of it, its guard and its children."""
    assert wait_until((folder / "pids").exists, 120)  # a busy machine starts Dagster slowly
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def test_metrics_arrive_in_order(tmp_path):
    seen = []
    assert train(tmp_path, WORKING, seen=seen).success
    assert [line["step"] for line in seen] == [1, 2, 3]
    assert last_lines(tmp_path / "train.log") == "done"


def test_child_reports_through_pipes(tmp_path, capfd):
    result = train(tmp_path, PIPES)
    (event,) = result.asset_materializations_for_node("trained")
    assert event.metadata["device"].value == "cpu"
    assert event.metadata["path"].value == str(tmp_path)
    assert "hello from trained" in capfd.readouterr().err


def test_numbers_that_are_not_finite_are_no_metadata():
    """JSON has none, and one such value keeps a browser from showing the whole page."""

    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["demo"]))
    def trained(context: dg.AssetExecutionContext):
        observer(context)({"step": 1, "reward": 0.5, "loss": float("inf"), "kl": float("nan")})

    [event] = dg.materialize([trained], partition_key="demo").get_asset_observation_events()
    shown = event.event_specific_data.asset_observation.metadata
    assert {name: one.value for name, one in shown.items()} == {"step": 1, "reward": 0.5}


def test_last_lines_have_no_colours(tmp_path):
    (tmp_path / "log").write_bytes(b"\x1b[1;36m(pid=1)\x1b[0;0m \x1b[31mERROR\x1b[0m no room\n")
    assert last_lines(tmp_path / "log") == "(pid=1) ERROR no room"


def test_crash_shows_the_last_lines(tmp_path):
    with pytest.raises(Text2SqlError, match=r"status 1; .*(?s:.*)the weights are not there"):
        train(tmp_path, CRASHING)


def test_missing_program_is_one_failure(tmp_path):
    (tmp_path / "child.py").unlink(missing_ok=True)
    with pytest.raises(Text2SqlError, match="ended with status 2"):
        train(tmp_path, "import os, sys; os.execv(sys.executable, [sys.executable, 'nowhere.py'])")


def test_a_killed_child_is_reported_as_killed(tmp_path):
    with pytest.raises(Text2SqlError, match=r"status 137 \(killed, by somebody or by the kernel"):
        train(tmp_path, "import os; os.kill(os.getpid(), 9)")


def test_stall_ends_the_child(tmp_path):
    with pytest.raises(Text2SqlError, match="no progress for 2 s and was ended; the last step was"):
        train(tmp_path, HANGING, stall_seconds=2)


def test_stall_reaches_grandchildren_that_ignore_it(tmp_path):
    with pytest.raises(Text2SqlError, match="no step was finished"):
        train(tmp_path, BREEDING, stall_seconds=2)
    assert not any(map(alive, read_pids(tmp_path)))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_step_leaves_nothing(tmp_path, number):
    (tmp_path / "child.py").write_text(BREEDING)
    (tmp_path / "step.py").write_text(
        STEP + '\ndg.materialize([trained], resources={"trainer": TrainerResource()})\n'
    )
    step = subprocess.Popen(
        [sys.executable, tmp_path / "step.py"],
        env=os.environ | {"PYTHONPATH": str(REPO)},
        stderr=subprocess.DEVNULL,
    )
    pids = read_pids(tmp_path)
    step.send_signal(number)
    step.wait()
    assert wait_until(lambda: not any(map(alive, pids)))


def test_killed_run_leaves_nothing(tmp_path):
    (tmp_path / "child.py").write_text(BREEDING)
    (tmp_path / "step.py").write_text(STEP)
    (tmp_path / "home").mkdir()
    run = subprocess.Popen(
        [
            Path(sys.executable).with_name("dagster"),
            "job",
            "execute",
            "-f",
            "step.py",
            "-j",
            "train",
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPO), "DAGSTER_HOME": str(tmp_path / "home")},
        stderr=subprocess.DEVNULL,
    )
    pids = [*read_pids(tmp_path), int((tmp_path / "step.pid").read_text())]
    assert run.pid not in pids
    run.kill()
    run.wait()
    assert wait_until(lambda: not any(map(alive, pids)))


def test_tail_waits_for_complete_lines(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n')
    tail = MetricsTail(path)
    assert tail.poll() == []
    with path.open("a") as file:
        file.write('{"step": 2}\n{"st')
    assert tail.poll() == [{"step": 2}]
    with path.open("a") as file:
        file.write('ep": 3}\n')
    assert tail.poll() == [{"step": 3}]


def test_tail_follows_a_rewritten_file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": step}) + "\n" for step in range(5)))
    tail = MetricsTail(path)
    path.write_text('{"step": 3}\n')
    assert tail.poll() == [{"step": 3}]


def test_tail_leaves_out_what_a_crash_tore(tmp_path):
    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path)
    path.write_bytes(b'{"step": 1}\n{"st\n\xff\x00\n\n7\n{"step": 2}\n')
    assert tail.poll() == [{"step": 1}, {"step": 2}]


def test_tail_takes_much_in_pieces_and_a_long_line_whole(tmp_path):
    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path)
    path.write_text(f'{{"step": 1, "text": "{"x" * 600_000}"}}\n' + '{"step": 2}\n' * 50_000 + "{")
    found = [line["step"] for line in tail.poll()]
    assert found == [1] and tail.more
    while tail.more:
        found += [line["step"] for line in tail.poll()]
    assert found == [1] + 50_000 * [2]
    path.write_text("x" * (1 << 18))
    assert tail.poll() == [] and not tail.more


def test_tail_reads_nothing_but_a_file(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")  # to open it would wait for somebody who writes
    assert MetricsTail(tmp_path / "metrics.jsonl").poll() == []
    assert MetricsTail(tmp_path).poll() == []


def test_a_run_that_goes_on_after_a_torn_line_is_described(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "loss": 2.5}\n{"step": 2, "lo')
    file = MetricsFile(path)
    file.append({"step": 2, "loss": 1.5})
    file.close()
    assert read_metrics(tmp_path / "metrics.jsonl") == [
        {"step": 1, "loss": 2.5},
        {"step": 2, "loss": 1.5},
    ]


def test_a_line_without_a_step_is_left_out_of_what_is_described(tmp_path):
    lines = '{"step": 1, "reward": 0.5}\n{"reward": 1}\n{"step": null}\n{"step": 1, "loss": 2}\n'
    (tmp_path / "metrics.jsonl").write_text(lines)
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 1, "reward": 0.5, "loss": 2}]


def test_files_may_disappear_while_they_are_read(tmp_path):
    """The program removes what it waits for, and what an earlier run wrote, at any moment."""
    said, ended = [], threading.Event()

    def come_and_go():
        while not ended.is_set():
            for name in ("waiting", "metrics.jsonl"):
                (tmp_path / name).write_text("the queue is long")
                (tmp_path / name).unlink()

    monitor = TrainingMonitor(tmp_path, 60.0, lambda metrics: None, said.append)
    program = threading.Thread(target=come_and_go)
    program.start()
    try:
        deadline = time.monotonic() + 60  # on a busy machine the thread may start late
        polls = 0
        while polls < 3000 or (not said and time.monotonic() < deadline):
            monitor.poll()
            polls += 1
    finally:
        ended.set()
        program.join()
    assert set(said) == {"the queue is long"}
