"""What tests share: where the real material lies, when it is there."""

from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real BIRD and Spider material beside the checkout; skips without it."""
    folder = REPO.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("real BIRD and Spider material is not beside this checkout")
    return folder
