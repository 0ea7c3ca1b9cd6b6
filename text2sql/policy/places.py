"""Whether a policy is a directory of weights or a server's URL, and what to call it."""

from __future__ import annotations

from pathlib import Path


def is_served(policy: str) -> bool:
    """Say whether a policy is a server's URL."""
    return policy.lower().startswith(("http://", "https://"))


def policy_name(directory: Path) -> str:
    """Return the name of the policy in a directory: the directory's.

    ``policy`` says nothing, so the folder above counts instead, or the training run: training
    writes weights to ``training/RUN/VERSION/policy``, and the pocket policy is ``pocket/policy``.
    """
    if directory.name != "policy":
        return directory.name
    above = directory.parent
    is_run = above.parent.parent.name == "training"
    return (above.parent.name if is_run else above.name) or directory.name


def is_there(policy: str) -> bool:
    """Say whether a policy's directory exists; a server is not asked."""
    return is_served(policy) or Path(policy).is_dir()
