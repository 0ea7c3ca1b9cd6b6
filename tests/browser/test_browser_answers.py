"""A backfill of the daily answers is launched in Dagster's web interface, and reports open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browser.screen import picture, saved
from tests.browser.small_project import FIRST_RUN, SmallProject

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_backfill_of_two_days_is_launched(page: Page, backfill: list[str]) -> None:
    page.goto("/runs")
    page.locator("a[href*='/runs/b/']").first.click()
    page.get_by_text("...".join(backfill)).first.wait_for()


def test_evaluation_report_opens(page: Page, project: SmallProject) -> None:
    saved(page, project.root / "evaluation" / FIRST_RUN / "report.html")
    page.get_by_text("dev questions").first.wait_for()
    picture(page, "evaluation-report")
