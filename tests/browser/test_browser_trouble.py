"""Runs that a person mends, repeats and cancels in Dagster's web interface."""

from __future__ import annotations

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
from tests.browser.small_project import SmallProject
from tests.support.lifecycle_tools import commands, processes_below
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_failed_run_is_mended_and_repeated_from_its_failure(
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
    again = page.get_by_role("button", name="Re-execute")
    again.locator("xpath=following::button[1]").click()
    page.get_by_text("From failure").click()
    page.wait_for_url(lambda url: "/runs/" in url and failed not in url)
    watch(page, "Success")
    assert steps_of(project, page.url.rpartition("/")[2]) == {"report_answers": True}


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
