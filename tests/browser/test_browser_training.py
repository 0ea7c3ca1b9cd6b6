"""Training with prime-rl from Dagster's web interface: watched, cancelled, continued to its end.

Stand-ins take the places of prime-rl's programs and of two GPUs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import yaml
from lifecycle_tools import wait_until
from prime_rl_place import FULL, Place

from browser.screen import add_partition, cancel_by, launch, open_launchpad, watch, write
from browser.small_project import SmallProject
from text2sql.training.start import training_record

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUN = "on-gpus"


def config_of(trainer: Place) -> str:
    """The launchpad's text for a short run."""
    settings = trainer.settings(**{name: FULL[name] for name in FULL if name != "preset"})
    return yaml.safe_dump({"ops": {"grpo_policy": {"config": {"trainer": {"prime_rl": settings}}}}})


def test_run_with_prime_rl_is_watched_cancelled_and_continued(
    page: Page, project: SmallProject, trainer: Place
) -> None:
    before = set(trainer.processes())
    trainer.behave(step_seconds=0.2, hang_at=5)
    open_launchpad(page, "grpo_policy")
    add_partition(page, RUN)
    write(page, config_of(trainer))
    launch(page)
    for words in ("Training runs as process", "exact_match", "tokens_per_second"):
        page.get_by_text(words).first.wait_for()
    assert len(trainer.busy_ports()) == 3
    page.get_by_role("button", name="Terminate").click()
    cancel_by(page, page.get_by_role("button", name="Terminate 1 run"))
    watch(page, "Canceled")
    assert wait_until(lambda: not set(trainer.processes()) - before, 60)
    assert not trainer.busy_ports() and not training_record(project.root, RUN)
    trainer.behave()
    cancelled = page.url
    page.get_by_role("button", name="Re-execute").click()
    page.wait_for_url(lambda url: "/runs/" in url and url != cancelled)
    watch(page, "Success")
    page.get_by_text("--resume.step 4").first.wait_for()
    record = training_record(project.root, RUN)
    assert json.loads(record["reported"]["weights of step"]) == 6
