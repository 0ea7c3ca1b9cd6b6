"""What a person sees first in Dagster's web interface: the graph, and the forms of its stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.definitions import defs
from tests.browser.screen import help_on, open_launchpad, picture

if TYPE_CHECKING:
    from playwright.sync_api import Page

STORY = ("bird", "difficulty", "training", "evaluation", "reporting")
"""The groups, as the README tells what runs."""

WIDE = {"width": 1600, "height": 900}
"""A window for the whole graph."""


def test_graph_reads_as_the_story(page: Page) -> None:
    page.set_viewport_size(WIDE)
    page.goto("/asset-groups")
    places = []
    for group in STORY:
        box = page.locator("foreignObject").get_by_text(group, exact=True)
        box.wait_for()
        places.append(box.bounding_box()["x"])
    assert places == sorted(places)
    page.get_by_text("Hide navigation").click()
    page.locator("input[placeholder^=Jump]").locator("xpath=following::button[1]").click()
    page.keyboard.press("Alt+KeyE")
    for key in defs.resolve_asset_graph().get_all_asset_keys():
        page.locator("foreignObject").get_by_text(key.to_user_string(), exact=True).wait_for()
    picture(page, "graph", rest=5.0)  # until every box has its colour


def test_launchpad_shows_defaults_bounds_and_help(page: Page) -> None:
    offered = open_launchpad(page, "training_prompts")
    assert "least_solved: 1" in offered and "most_solved: 0" in offered
    words = help_on(page, "least_solved")
    assert "Keep questions that are solved at least so often." in words
    assert "(at least 1, at most 128)" in words
    offered = open_launchpad(page, "grpo_policy")
    assert "learning_rate: 0.00015" in offered
    words = help_on(page, "learning_rate")
    assert "Learning rate. In YAML write 0.0001: 1e-4 is a text there. (more than 0," in words
    picture(page, "launchpad")
