"""Training with prime-rl from Dagster's web interface: watched, cancelled, continued to its end.

Stand-ins take the places of prime-rl's programs and of two GPUs.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.browser.screen import (
    RUN_SECONDS,
    add_partition,
    cancel_by,
    launch,
    open_launchpad,
    watch,
    write,
)
from tests.browser.small_project import SmallProject
from tests.support.prime_rl_place import FULL, Place
from tests.support.waiting import wait_until
from text2sql.policy.weights import directory_revision
from text2sql.training.runs import training_record

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUN = "on-gpus"


def config_of(trainer: Place) -> str:
    """The launchpad's text for a short run."""
    settings = trainer.settings(**{name: FULL[name] for name in FULL if name != "backend"})
    training = {"trainer": {"prime_rl": settings}, "stall_seconds": 300}
    return yaml.safe_dump({"ops": {"grpo_policy": {"config": training}}})


def at_work(trainer: Place, before: set[int]) -> list[bytes]:
    """The command lines of what was started since; the code server keeps its own tracker."""
    found = []
    for pid in set(trainer.processes()) - before:
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    return [line for line in found if b"resource_tracker" not in line]


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
        page.get_by_text(words).first.wait_for(timeout=RUN_SECONDS * 1000)
    assert len(trainer.busy_ports()) == 3 and len(at_work(trainer, before)) > 8
    page.get_by_role("button", name="Terminate").click()
    cancel_by(page, page.get_by_role("button", name="Terminate 1 run"))
    watch(page, "Canceled")
    assert wait_until(lambda: not at_work(trainer, before), 60)
    assert not trainer.busy_ports() and not training_record(project.root, RUN)
    trainer.behave()
    cancelled = page.url
    page.get_by_role("button", name="Re-execute").click()
    page.wait_for_url(lambda url: "/runs/" in url and url != cancelled)
    watch(page, "Success")
    page.get_by_text("--resume.step 4").first.wait_for()
    record = training_record(project.root, RUN)
    assert record["reported"]["weights of step"] == "6"
    assert record["policy_revision"] == directory_revision(Path(record["policy"]))
    assert not trainer.busy_ports()
