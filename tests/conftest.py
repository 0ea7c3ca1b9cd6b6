"""What tests share: how they run, the real material where it is there, a sandbox, a root."""

import signal
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from text2sql.sandbox import Sandbox

REPO = Path(__file__).resolve().parent.parent

settings.register_profile("text2sql", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("text2sql")  # a busy machine is slow, and nothing is wrong with the tests


def pytest_configure() -> None:
    """Take interrupts and hang-ups, also where a shell (``&``) or nohup started the tests without.

    Programs that tests start would inherit that, and Dagster makes SIGTERM what SIGINT is.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


class FileScheduling(LoadScopeScheduling):
    """One file in one process; and all files of the browser, which share an interface."""

    def _split_scope(self, nodeid: str) -> str:
        file = PurePosixPath(nodeid.partition("::")[0])
        return str(file.parent if file.parent.name == "browser" else file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    """Keep each file's tests in one process (xdist's groups do nothing under pytest 9.2)."""
    return FileScheduling(config, log)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real BIRD and Spider material beside the checkout; skips without it."""
    folder = REPO.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("real BIRD and Spider material is not beside this checkout")
    return folder


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An artifact root of its own, which is not made yet, and nobody's instance of Dagster."""
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    return tmp_path / "root"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox with two workers, for tests that need no other."""
    with Sandbox(2) as shared:
        yield shared
