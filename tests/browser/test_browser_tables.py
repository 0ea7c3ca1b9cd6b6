"""What a backfill from Dagster's web interface leaves: tables, a report, and where it is from.

The backfill was launched before the other tests: Dagster looks for new ones twice a minute.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from tests.browser.screen import RUN_SECONDS, picture, saved
from tests.browser.small_project import FIRST_RUN, SmallProject

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_answers_of_a_backfill_are_in_the_tables(
    page: Page, project: SmallProject, backfill: list[str]
) -> None:
    page.goto("/runs")
    page.locator("a[href*='/runs/b/']").first.click()
    page.get_by_text("100% completed").wait_for(timeout=RUN_SECONDS * 1000)
    found = answered(project)
    assert {day: found.get(day) for day in backfill} == dict.fromkeys(backfill, 6)
    saved(page, project.root / "reports" / f"{backfill[-1]}.html")
    page.get_by_text("aggregate net revenue across stores").first.wait_for()
    picture(page, "daily-report")


def test_day_says_who_answered_and_from_which_data(page: Page, backfill: list[str]) -> None:
    page.goto(f"/assets/report_answers?view=partitions&partition={backfill[-1]}")
    page.get_by_text(f"training run {FIRST_RUN}, revision").first.wait_for()
    page.get_by_text("judged on dataset").first.wait_for()


def answered(project: SmallProject) -> dict[str, int]:
    """Count the answers of each day with plain SQL."""
    connection = sqlite3.connect(project.root / "reporting.sqlite")
    days = "SELECT substr(scheduled_at, 1, 10), COUNT(*) FROM answers GROUP BY 1"
    found = dict(connection.execute(days).fetchall())
    connection.close()
    return found
