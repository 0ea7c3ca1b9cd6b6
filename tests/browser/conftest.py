"""What the tests in a browser share: one small project, one ``dagster dev``, one Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipelines.partitions import today
from tests.browser.screen import SCREENSHOTS, launch_by, materialize_button, picture
from tests.browser.small_project import PICTURED, SmallProject
from tests.support.interface import Interface
from tests.support.lifecycle_tools import SIZES, processes_below
from tests.support.prime_rl_place import Place
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NEUTRAL_ROOT = Path("/srv/text2sql")
"""Where the project lies while screenshots are made: pictures show paths."""

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
SIZE = {"width": 1440, "height": 900}
SECONDS = 60
"""How long a text may take to appear."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="package")
def chromium() -> str:
    """The program; skips where it is not."""
    pytest.importorskip("playwright", reason="playwright is not installed: make setup")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine: make browser")
    return found


@pytest.fixture(scope="package")
def root(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An artifact root of its own, at a neutral place where screenshots are made."""
    if not os.environ.get(SCREENSHOTS):
        yield tmp_path_factory.mktemp("browser") / "text2sql"
        return
    NEUTRAL_ROOT.mkdir(parents=True)
    yield NEUTRAL_ROOT
    shutil.rmtree(NEUTRAL_ROOT)


@pytest.fixture(scope="package")
def trainer(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Stand-ins for prime-rl and for two GPUs, which the project's steps find."""
    return Place(tmp_path_factory.mktemp("prime-rl"))


@pytest.fixture(scope="package")
def project(
    root: Path, trainer: Place, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SmallProject]:
    """A small project, and ``make ui`` on it; no process of it is left."""
    log = tmp_path_factory.mktemp("interface") / "ui.log"
    found = {name: trainer.environment[name] for name in ("PRIME_RL_DIR", "PATH")}
    interface = Interface(log, {"TEXT2SQL_ROOT": str(root), "DAGSTER_HOME": ""} | found)
    try:
        with SmallProject(root, interface) as project:
            project.make(PICTURED if os.environ.get(SCREENSHOTS) else SIZES)
            assert wait_until(interface.repositories, 240), log.read_text()
            yield project
    finally:
        interface.stop()
    assert wait_until(lambda: not processes_below(root), 30)


@pytest.fixture(scope="package")
def browser(chromium: str, project: SmallProject) -> Iterator[Browser]:
    """Chromium, which reaches this machine only."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def backfill(browser: Browser, project: SmallProject) -> list[str]:
    """Launch a backfill of the two days before today; return its days."""
    last = date.fromisoformat(today())
    days = [(last - timedelta(days=back)).isoformat() for back in (2, 1)]
    page = _window(browser, project)
    materialize_button(page, "report_answers").click()
    chosen = page.get_by_placeholder("No matching partitions")
    chosen.fill(f"[{days[0]}...{days[1]}]")
    chosen.press("Enter")
    page.get_by_text("2 partitions", exact=True).wait_for()
    picture(page, "backfill")
    launch_by(page, page.get_by_role("button", name="Launch backfill"))
    page.context.close()
    return days


@pytest.fixture
def page(browser: Browser, project: SmallProject) -> Iterator[Page]:
    """A new window on the UI."""
    page = _window(browser, project)
    yield page
    page.context.close()


def _window(browser: Browser, project: SmallProject) -> Page:
    url = f"http://127.0.0.1:{project.interface.port}"
    context = browser.new_context(base_url=url, viewport=SIZE)
    context.set_default_timeout(SECONDS * 1000)
    return context.new_page()
