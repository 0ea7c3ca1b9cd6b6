"""What tests share: where the real material lies, when it is there."""

import signal
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Take interrupts, also where a shell started the tests in its background without them.

    Programs that tests start would inherit that, and Dagster makes SIGTERM what SIGINT is.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep each file's tests in one process, and those of the browser, which share an interface."""
    for item in items:
        together = item.path.parent if item.path.parent.name == "browser" else item.path
        item.add_marker(pytest.mark.xdist_group(str(together)))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real BIRD and Spider material beside the checkout; skips without it."""
    folder = REPO.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("real BIRD and Spider material is not beside this checkout")
    return folder
