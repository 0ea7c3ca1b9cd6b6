"""Runs that a person fixes, repeats and cancels in Dagster's web interface."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.browser.screen import (
    cancel_by,
    change,
    launch,
    launch_and_follow,
    open_launchpad,
    steps_of,
    watch,
)
from tests.browser.small_project import SmallProject, instance_of
from tests.support.interface import REPO
from tests.support.lifecycle_tools import commands, processes_below
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page


DAY = "2026-03-05"


def re_execute_from_failure(page: Page) -> str:
    """Re-execute the failed run whose page is open, to its success; return the new run's id."""
    failed = page.url.rpartition("/")[2]
    page.get_by_role("button", name="Re-execute").locator("xpath=following::button[1]").click()
    page.get_by_text("From failure").click()
    page.wait_for_url(lambda url: "/runs/" in url and failed not in url)
    watch(page, "Success")
    return page.url.rpartition("/")[2]


def test_failed_run_is_fixed_and_re_executed_from_its_failure(
    page: Page, project: SmallProject
) -> None:
    project.stop("champion")
    page.goto("/locations/pipelines.definitions/jobs/daily_answers")
    page.get_by_role("button", name="Materialize all").click()
    page.get_by_role("button", name="Latest").click()
    failed = launch_and_follow(page, page.get_by_role("button", name="Launch 1 run"))
    watch(page, "Failure")
    assert steps_of(project, failed) == {"report_questions": True, "report_answers": False}
    page.get_by_text(f"No policy server answers at {project.urls['champion']}").first.wait_for()
    project.start("champion")
    again = re_execute_from_failure(page)
    assert steps_of(project, again) == {"report_answers": True}


def test_run_of_a_command_is_in_the_history_and_is_re_executed_from_its_failure(
    page: Page, project: SmallProject
) -> None:
    project.stop("champion")
    command = [sys.executable, "-m", "text2sql", "answers", "run", "--day", DAY]
    named = os.environ | {"TEXT2SQL_ROOT": str(project.root), "DAGSTER_HOME": ""}
    failed = subprocess.run(command, cwd=REPO, env=named, capture_output=True, text=True)
    assert failed.returncode == 1 and "No policy server answers" in failed.stderr, failed.stderr
    with instance_of(project.root) as instance:
        run = instance.get_runs(limit=1)[0].run_id
    page.goto("/locations/pipelines.definitions/jobs/daily_answers/runs")
    page.get_by_text(run[:8]).first.wait_for()
    page.goto("/runs/")
    page.get_by_text(run[:8]).first.wait_for()
    project.start("champion")
    page.goto(f"/runs/{run}")
    watch(page, "Failure")
    again = re_execute_from_failure(page)
    assert steps_of(project, again) == {"report_answers": True}


def test_cancelled_run_leaves_no_process(page: Page, project: SmallProject) -> None:
    before = set(processes_below(project.root))
    project.policies["base"].seconds = 0.5
    open_launchpad(page, "base_rollouts")
    change(page, base=project.urls["base"], temperature=0.7, shards=1, concurrency=4)
    launch(page)
    asked = len(project.servers["base"].requests)
    assert wait_until(lambda: len(project.servers["base"].requests) > asked + 4, 180)
    assert len(set(processes_below(project.root)) - before) > 2
    page.get_by_role("button", name="Terminate").click()
    cancel_by(page, page.get_by_role("button", name="Terminate 1 run"))
    watch(page, "Canceled")
    gone = wait_until(lambda: not set(processes_below(project.root)) - before, 60)
    assert gone, commands(set(processes_below(project.root)) - before)
