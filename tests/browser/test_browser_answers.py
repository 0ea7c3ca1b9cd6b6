"""A backfill of the daily answers, launched in Dagster's web interface and found in SQL."""

from __future__ import annotations

import sqlite3
from datetime import date, timedelta
from typing import TYPE_CHECKING

from screen import RUN_SECONDS, materialize_button, picture, saved
from small_project import FIRST_RUN, SmallProject

from pipelines.partitions import today

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_backfill_of_two_days_is_in_the_reporting_tables(page: Page, project: SmallProject) -> None:
    last = date.fromisoformat(today()) - timedelta(days=1)
    days = [(last - timedelta(days=1)).isoformat(), last.isoformat()]
    materialize_button(page, "report_answers").click()
    chosen = page.get_by_placeholder("No matching partitions")
    chosen.fill(f"[{days[0]}...{days[1]}]")
    chosen.press("Enter")
    page.get_by_text("2 partitions", exact=True).wait_for()
    picture(page, "backfill")
    page.get_by_role("button", name="Launch backfill").click()
    page.get_by_text("Launching").wait_for(state="detached")
    page.goto("/runs")
    page.locator("a[href*='/runs/b/']").first.click()
    page.get_by_text("100% completed").wait_for(timeout=RUN_SECONDS * 1000)
    assert answered(project) == dict.fromkeys(days, 6)
    page.goto("/assets/report_answers?view=events")
    page.get_by_text(f"training run {FIRST_RUN}, revision").first.wait_for()
    saved(page, project.root / "reports" / f"{days[1]}.html")
    page.get_by_text("aggregate net revenue across stores").first.wait_for()
    picture(page, "daily-report")


def answered(project: SmallProject) -> dict[str, int]:
    """Count the answers of each day with plain SQL."""
    connection = sqlite3.connect(project.root / "reporting.sqlite")
    rows = connection.execute(
        "SELECT substr(scheduled_at, 1, 10), COUNT(*) FROM answers GROUP BY 1"
    )
    found = dict(rows.fetchall())
    connection.close()
    return found


def test_evaluation_report_opens(page: Page, project: SmallProject) -> None:
    saved(page, project.root / "evaluation" / FIRST_RUN / "report.html")
    page.get_by_text("dev questions").first.wait_for()
    picture(page, "evaluation-report")
