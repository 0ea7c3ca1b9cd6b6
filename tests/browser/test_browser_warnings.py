"""What a check found, and the schedule's switch, in Dagster's web interface."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.browser.screen import picture
from tests.browser.small_project import SmallProject, instance_of, run_assets
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

SCHEDULE = "/locations/pipelines.definitions/schedules/daily_answers_schedule"
STATE = """{scheduleOrError(scheduleSelector: {scheduleName: "daily_answers_schedule",
  repositoryName: "__repository__", repositoryLocationName: "pipelines.definitions"}) {
  ... on Schedule {scheduleState {status}}}}"""


def test_check_shows_its_failing_rows(page: Page, project: SmallProject, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as aside:  # this thread has the browser's event loop
        assert not aside.submit(ingest, project.root, doubtful_dataset(tmp_path)).result()
    page.goto("/assets/bird_questions?view=checks")
    page.get_by_text("questions_valid").first.click()
    for text in (
        "Failed",
        "no two questions share an id",
        "How many stores are open?",
        "failing rows",
    ):
        page.get_by_text(text).first.wait_for()
    picture(page, "check")


def ingest(root: Path, folder: Path) -> bool:
    """Ingest a dataset; return whether nothing stopped it."""
    source = {"source": str(folder), "splits": ["dev"]}
    with instance_of(root) as instance:
        names = ("bird_archive", "bird_questions")
        return run_assets(instance, names, bird_archive=source).success


def doubtful_dataset(folder: Path) -> Path:
    """Write a dataset in which two questions share an id and one has no SQL."""
    database = folder / "dev_databases" / "stores" / "stores.sqlite"
    database.parent.mkdir(parents=True)
    database.touch()
    asked = ("How many stores are open?", "How many stores are closed?", "Which is the largest?")
    rows = [
        {"question_id": max(1, number), "db_id": "stores", "question": question, "evidence": ""}
        | {"SQL": "" if number == 2 else "SELECT 1", "difficulty": "simple"}
        for number, question in enumerate(asked)
    ]
    (folder / "dev.json").write_text(json.dumps(rows))
    return folder


def test_schedule_is_turned_on_and_off(page: Page, project: SmallProject) -> None:
    def status() -> str:
        found = project.interface.ask(STATE)["scheduleOrError"]["scheduleState"]
        return found["status"]

    page.goto(SCHEDULE)
    switch = page.locator("table input[type=checkbox]").first
    switch.wait_for(state="attached")
    assert status() == "STOPPED"
    switch.dispatch_event("click")
    page.get_by_text("Next tick").first.wait_for()
    assert wait_until(lambda: status() == "RUNNING")
    switch.dispatch_event("click")
    assert wait_until(lambda: status() == "STOPPED")
