"""Comparing a text with the golden file that was agreed on, or writing that file anew."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
RENEW = "TEXT2SQL_RENEW_GOLDEN"


def is_golden(name: str, text: str) -> None:
    """Fail with the difference and the command that renews; renew if the environment says so."""
    file = GOLDEN / name
    if os.environ.get(RENEW):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    known = file.read_text(encoding="utf-8") if file.is_file() else ""
    if text == known:
        return
    place = f"tests/golden/{name}"
    old, new = known.splitlines(), text.splitlines()
    changes = difflib.unified_diff(old, new, place, "now", n=1, lineterm="")
    test = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]
    meant = f"If this is meant: {RENEW}=1 .venv/bin/python -m pytest {test}"
    pytest.fail("\n".join([*changes, "", meant]), pytrace=False)
