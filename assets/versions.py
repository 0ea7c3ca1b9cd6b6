"""Versions made from content: of code, of files, of whatever a result depends on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from resources.paths import CHECKOUT

LENGTH = 16


def fingerprint(**parts: Any) -> str:
    """Return 16 hexadecimal digits that change when any of the named parts does."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def code_version(*paths: str) -> str:
    """Return a version of source files and packages, named relative to the checkout."""
    digest = hashlib.sha256()
    for path in paths:
        place = CHECKOUT / path
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(f"{file.relative_to(CHECKOUT)}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:LENGTH]


def file_version(*paths: Path) -> str:
    """Return a version of the contents of files."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:LENGTH]


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; an empty one where there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
