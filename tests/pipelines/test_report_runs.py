"""Days whose run fails, is repeated or is killed: no answer is lost, half or there twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
from click.testing import CliRunner

from assets.reporting.answers import report_answers
from assets.reporting.questions import report_questions
from benchmarks import report_kills
from pipelines.definitions import defs
from pipelines.home import open_instance
from pipelines.jobs import daily_answers
from tests.assets.report_place import COUNT, DAY, FINE, checks, place
from tests.support.reporting_databases import empty_reporting_url, postgresql_server
from tests.support.scripted_server import submits
from text2sql.cli.main import cli

__all__ = ["empty_reporting_url", "place", "postgresql_server"]


def job() -> dg.JobDefinition:
    """The job of the daily answers, its steps in the process of the test."""
    small = dg.Definitions(
        assets=[report_questions, report_answers],
        jobs=[daily_answers],
        resources=defs.resources,
        executor=dg.in_process_executor,
    )
    return small.resolve_job_def("daily_answers")


_REFUSE_C = """
CREATE TRIGGER refuse_c BEFORE INSERT ON answers WHEN NEW.question_id = 'c'
BEGIN SELECT RAISE(ABORT, 'the disk is full'); END
"""


def test_a_failed_run_is_executed_again_from_its_failure_twice(place, monkeypatch):
    """What is answered stays, the rest is asked, and nothing of the failed run is read back.

    The owner of the tables refuses one answer: the others are there after the first run.
    """
    monkeypatch.setenv("TEXT2SQL_ROOT", str(place.root))
    monkeypatch.setenv("DAGSTER_HOME", "")
    place.ask(**dict.fromkeys("abcde", COUNT))
    place.load()
    place.change(_REFUSE_C)
    config = {
        "report_questions": {"file": str(place.file), "databases": str(place.databases)},
        "report_answers": {"concurrency": 1},
    }
    run = {
        "job": dg.reconstructable(job),
        "run_config": {"ops": {name: {"config": values} for name, values in config.items()}},
        "tags": {"dagster/partition": DAY},
    }
    with open_instance(place.root) as instance:
        results = [dg.execute_job(instance=instance, **run)]
        for _ in range(2):
            if len(results) == 2:
                place.change("DROP TRIGGER refuse_c")
            options = dg.ReexecutionOptions.from_failure(results[-1].run_id, instance)
            results.append(dg.execute_job(instance=instance, reexecution_options=options, **run))
            steps = {event.step_key for event in results[-1].all_events if event.step_key}
            assert steps == {"report_answers"}
    assert [result.success for result in results] == [False, False, True]
    rows = place.query("SELECT question_id, status, dagster_run_id FROM answers ORDER BY 1")
    runs = dict.fromkeys("abde", results[0].run_id) | {"c": results[2].run_id}
    assert rows == [(id, "answered", runs[id]) for id in "abcde"]
    assert len(place.server.requests) == 5 * 8  # candidates of c that were drawn are not asked for


def test_a_process_that_answers_and_is_killed_leaves_whole_answers_once(
    tmp_path, empty_reporting_url
):
    found = report_kills.measure(tmp_path, empty_reporting_url, kills=4, count=16, votes=2)
    assert found["answers_at_each_kill"] == sorted(found["answers_at_each_kill"])
    for name in ("missing", "half", "twice", "lost", "rewritten"):
        assert found[name] == 0, found
    assert found["half_at_the_end"] == found["twice_at_the_end"] == 0


def test_an_answer_is_traced_to_the_run_and_the_code_that_gave_it(place, monkeypatch):
    monkeypatch.setenv("TEXT2SQL_ROOT", str(place.root))
    place.ask(shops=COUNT)
    place.load()
    place.answer()
    done = CliRunner().invoke(cli, ["lineage", "1", "--json"])
    found = json.loads(done.output)
    ((run,),) = place.query("SELECT dagster_run_id FROM answers")
    answer = found["links"][0]["facts"]
    assert (answer["Dagster run"], answer["database now"]) == (run, "unchanged")
    assert answer["commit"]
    (problem,) = found["problems"]  # the champion of this place was never trained
    assert "is missing, so the chain of this training run ends here" in problem
    assert done.exit_code == 3


def test_a_day_is_answered_from_the_command_line(place, tmp_path):
    """As the schedule does it: a real run in processes of its own, then again with nothing new."""
    place.ask(shops=COUNT)
    place.load()
    place.change("UPDATE questions SET seed = NULL, seed_file = NULL")  # made by hand
    command = [sys.executable, "-m", "text2sql", "answers", "run", "--day", DAY]
    path = str(Path(__file__).parents[2])
    environment = os.environ | {"TEXT2SQL_ROOT": str(place.root), "PYTHONPATH": path}
    options = {"capture_output": True, "text": True, "cwd": tmp_path, "env": environment}
    done = subprocess.run([*command, "--json"], **options, check=True)
    found = json.loads(done.stdout)
    assert [(one["question_id"], one["status"]) for one in found["answers"]] == [
        ("shops", "answered")
    ]
    assert place.query("SELECT shops FROM answer_shops") == [(2,)]
    assert place.query("SELECT id, day, asked FROM runs") == [(found["dagster_run"], DAY, 1)]
    assert Path(found["page"]).is_file()
    place.file.unlink()
    (place.root / "champion.json").unlink()
    refused = subprocess.run(command, **options, check=False)
    assert refused.returncode == 1
    assert "No champion below" in refused.stderr and refused.stderr.count("\n") == 1


_OTHER_RUN = """
import sys
from pathlib import Path
import dagster as dg
from tests.assets.report_place import Place, checks
place = Place.__new__(Place)
place.root, place.instance = Path(sys.argv[1]), dg.DagsterInstance.ephemeral()
assert all(checks(place.answer()).values())
"""


def test_of_two_runs_of_a_day_at_once_the_second_finds_what_the_first_answered(place):
    """Two daemons, or a person beside one: nothing is asked twice, and no question fails."""
    place.ask(**dict.fromkeys("abcd", COUNT))
    place.load()

    def reply_once_both_run(body):
        deadline = time.monotonic() + 120
        while place.query("SELECT COUNT(*) FROM runs") != [(2,)] and time.monotonic() < deadline:
            time.sleep(0.05)
        return submits(COUNT)

    place.reply = reply_once_both_run
    path = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", _OTHER_RUN, str(place.root)]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}) as other:
        assert checks(place.answer()) == FINE
    assert other.returncode == 0
    assert len(place.server.requests) == 4 * 8
    assert place.query("SELECT COUNT(*), MAX(attempts) FROM answers") == [(4, 1)]
    assert sorted(place.query("SELECT asked, reused FROM runs")) == [(0, 4), (4, 0)]
