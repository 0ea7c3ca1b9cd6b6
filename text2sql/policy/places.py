"""Where a policy is: in a directory of weights, or behind a server's URL."""

from __future__ import annotations

from pathlib import Path


def is_served(policy: str) -> bool:
    """Say whether a policy is named by a server's URL; the server holds its weights itself."""
    return policy.lower().startswith(("http://", "https://"))


def policy_name(directory: Path) -> str:
    """Return what people call the policy in a directory: by the directory's name.

    Of one that is called ``policy``, which says nothing, by what it is the policy of: training
    leaves its weights in ``training/RUN/VERSION/policy``, and the pocket policy's are in
    ``pocket/policy``.
    """
    if directory.name != "policy":
        return directory.name
    above = directory.parent
    is_run = above.parent.parent.name == "training"
    return (above.parent.name if is_run else above.name) or directory.name


def is_there(policy: str) -> bool:
    """Say whether a policy's directory is there; of a server nothing is asked."""
    return is_served(policy) or Path(policy).is_dir()
