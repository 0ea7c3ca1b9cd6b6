"""Where a policy is: in a directory of weights, or behind a server's URL."""

from __future__ import annotations

from pathlib import Path


def is_served(policy: str) -> bool:
    """Say whether a policy is named by a server's URL; the server holds its weights itself."""
    return policy.lower().startswith(("http://", "https://"))


def is_there(policy: str) -> bool:
    """Say whether a policy's directory is there; of a server nothing is asked."""
    return is_served(policy) or Path(policy).is_dir()
