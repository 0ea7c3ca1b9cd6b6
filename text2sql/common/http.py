"""Requests that go where they were meant to go, or nowhere."""

from __future__ import annotations

import urllib.request
from typing import Any


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: keys and reports must not travel to another server."""

    def redirect_request(self, *_: Any) -> None:
        """Leave the answer as it is."""
