"""Retraining in Dagster's web interface alone: is it better, who is champion, where from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.browser.screen import (
    RUN_SECONDS,
    add_partition,
    change,
    launch,
    launch_and_follow,
    materialize_button,
    open_job_launchpad,
    picture,
    watch,
)
from tests.browser.small_project import FIRST_RUN, SmallProject
from text2sql.evaluation.promotion.champion import champion_record

if TYPE_CHECKING:
    from playwright.sync_api import Page

NOT_BETTER = re.compile("within the noise|has the same outcome")
TINY = {"steps": 2, "groups_per_step": 2, "group_size": 4, "save_every": 1}
FEW = {"shards": 1, "minimum_prompts": 1, "max_questions": 16, "sampled_per_subset": 4}


def test_retrained_policy_is_judged_and_the_champion_stays(
    page: Page, project: SmallProject
) -> None:
    open_job_launchpad(page, "training")
    add_partition(page, "slower")
    change(page, learning_rate="0.00005", single_turn="false", **TINY, **FEW)
    launch(page)
    page.get_by_text("exact_match").last.wait_for(timeout=RUN_SECONDS * 1000)
    picture(page, "run")
    watch(page, "Success")
    page.goto("/assets/grpo_policy?view=events")
    page.get_by_text("learning_rate 5e-05").first.wait_for()
    page.goto("/assets/dev_scores?view=events")
    page.get_by_text(NOT_BETTER).first.wait_for()
    launch_and_follow(page, materialize_button(page, "champion_policy"))
    watch(page, "Failure")
    page.get_by_text("slower cannot take over. Not better beyond noise").first.wait_for()
    assert champion_record(project.root)["training_run"] == FIRST_RUN
