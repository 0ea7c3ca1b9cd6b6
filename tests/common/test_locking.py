"""Locks on a file system without any, as Lustre without ``-o flock`` or NFS without its daemon."""

import errno
import fcntl
import os

import pytest

from assets.checks.view import publish_checks
from text2sql.common.locking import locked
from text2sql.errors import Text2SqlError
from text2sql.evaluation.held_out import Use, note_use
from text2sql.rollouts.store import Rollout, RolloutStore

FINISHED = Rollout(
    *("q", 0, "p", "1", "1", "agentic", {}, [], [], None, "", "", "", 0, None),
    *(0, 0, 0, 0, 0.0, "submit"),
)


@pytest.fixture
def lockless(monkeypatch):
    """Let the system refuse every lock as such a file system does."""

    def refuse(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", refuse)


def _hold(folder):
    with locked(folder / "a.lock"):
        pytest.fail("there is no lock to hold")


@pytest.mark.parametrize(
    "work",
    [
        _hold,
        lambda folder: RolloutStore(folder / "a.jsonl").append(FINISHED),
        lambda folder: publish_checks(folder, "a", {}),
        lambda folder: note_use(folder, Use("test", "d", "r", "v", "p")),
    ],
)
def test_a_file_system_without_locks_is_an_error(lockless, tmp_path, work):
    (tmp_path / "checks").mkdir()
    with pytest.raises(Text2SqlError, match=r"cannot be locked \(Function not implemented\)"):
        work(tmp_path)
