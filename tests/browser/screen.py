"""What a person does in Dagster's web interface: look, fill in a launchpad, watch a run."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dagster import DagsterEventType

from tests.browser.small_project import SmallProject, instance_of
from tests.support.interface import REPO

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Response

PICTURES = REPO / "docs" / "images"
SCREENSHOTS = "TEXT2SQL_SCREENSHOTS"
LARGEST = 200_000
"""Bytes of a picture."""

EDITOR = "[...document.querySelectorAll('.CodeMirror')].at(-1).CodeMirror"
"""The launchpad's: a field that filters a graph is an editor, too."""
RUN_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
RUN_SECONDS = 600
"""How long a run may take on a busy machine."""


def picture(page: Page, name: str, rest: float = 1.5) -> None:
    """Take a screenshot for the docs where they are asked for, once what moves has come to rest.

    ``rest`` is that time in seconds.
    """
    if not os.environ.get(SCREENSHOTS):
        return
    page.wait_for_timeout(1000 * rest)
    data = page.screenshot()
    assert len(data) <= LARGEST, f"{name} has {len(data)} bytes"
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.png").write_bytes(data)


def materialize_button(page: Page, asset: str) -> Locator:
    """Open an asset's page; return its button once its definition is there."""
    page.goto(f"/assets/{asset}")
    page.get_by_text("Code location").first.wait_for()
    return page.get_by_role("button", name="Materialize").first


def open_launchpad(page: Page, asset: str) -> str:
    """Open an asset's launchpad; return the config that it offers."""
    return _launchpad_beside(page, materialize_button(page, asset))


def open_job_launchpad(page: Page, job: str) -> str:
    """Open a job's launchpad; return the config that it offers."""
    page.goto(f"/locations/pipelines.definitions/jobs/{job}")
    return _launchpad_beside(page, page.get_by_role("button", name="Materialize all").first)


def _launchpad_beside(page: Page, button: Locator) -> str:
    """Choose the launchpad in the menu beside a button."""
    button.locator("xpath=following::button[1]").click()
    page.get_by_text("Open launchpad").click()
    page.locator(".CodeMirror-line").filter(has_text="ops:").wait_for()
    page.get_by_text("No errors").wait_for()
    return page.evaluate(f"{EDITOR}.getValue()")


def add_partition(page: Page, name: str) -> None:
    """Add a partition in a launchpad, and choose it."""
    page.get_by_role("button", name="Add new partition").click()
    page.get_by_placeholder("name").fill(name)
    page.get_by_role("button", name="Save").click()
    page.get_by_text(f"partition: {name}").wait_for()  # it brings its config with it


def change(page: Page, **values: object) -> None:
    """Change values in the launchpad's editor, wherever they have this name."""
    lines = page.evaluate(f"{EDITOR}.getValue()").splitlines()
    for name, value in values.items():
        places = [i for i, line in enumerate(lines) if line.strip().startswith(f"{name}:")]
        assert places, f"there is no {name} in the launchpad"
        for place in places:
            lines[place] = f"{lines[place].partition(':')[0]}: {value}"
    write(page, "\n".join(lines))


def write(page: Page, config: str) -> None:
    """Write a config into the launchpad's editor; Dagster must accept it."""
    with page.expect_response(lambda answer: "PreviewConfigQuery" in _body(answer)):
        page.evaluate(f"text => {EDITOR}.setValue(text)", config)
    page.get_by_text("No errors").wait_for()


def _body(answer: Response) -> str:
    return answer.request.post_data or ""


def help_on(page: Page, name: str) -> str:
    """Put the cursor on a field in the editor; return what the help beside it says of its form."""
    page.locator(".CodeMirror-line").filter(has_text=f"{name}:").first.click()
    pane = page.locator("[class*=ConfigEditorHelp]").first
    pane.get_by_text(name, exact=True).wait_for()
    return " ".join(pane.inner_text().split())


def launch(page: Page) -> None:
    """Launch what the launchpad says; the run's page follows."""
    page.get_by_role("button", name="Materialize").last.click()
    page.wait_for_url(lambda url: "/runs/" in url)


def launch_by(page: Page, button: Locator) -> str:
    """Click what launches a run or a backfill where one stays; return what Dagster answers."""
    with page.expect_response(lambda answer: "mutation Launch" in _body(answer)) as answered:
        button.click()
    return answered.value.text()


def cancel_by(page: Page, button: Locator) -> None:
    """Click what cancels a run; look at its page anew once Dagster has answered."""
    with page.expect_response(lambda answer: "mutation Terminate" in _body(answer)):
        button.click()
    page.reload()


def launch_and_follow(page: Page, button: Locator) -> str:
    """Click what launches a run; go to the run's page, and return its id."""
    found = RUN_ID.search(launch_by(page, button))
    assert found
    page.goto(f"/runs/{found[0]}")
    return found[0]


def steps_of(project: SmallProject, run: str) -> dict[str, bool]:
    """Return the steps that a run executed, and whether each succeeded."""
    kinds = {DagsterEventType.STEP_SUCCESS: True, DagsterEventType.STEP_FAILURE: False}
    with instance_of(project.root) as instance:
        events = instance.all_logs(run, of_type=set(kinds))
    return {entry.step_key or "": kinds[entry.get_dagster_event().event_type] for entry in events}


def watch(page: Page, status: str) -> None:
    """Wait on a run's page until it has ended; it must have ended like this."""
    ends = re.compile("^(Success|Failure|Canceled)$")
    tag = page.locator("[class*=Tag]").get_by_text(ends).first
    tag.wait_for(timeout=RUN_SECONDS * 1000)
    assert tag.inner_text() == status


def saved(page: Page, file: Path) -> None:
    """Open a page that was written to a file."""
    page.goto(file.resolve().as_uri())
