"""Links from each asset to the code that makes it: to the file here, or to a Git host.

``TEXT2SQL_GIT_URL`` names the repository on GitHub or GitLab, such as
https://github.com/ORGANISATION/REPOSITORY, and ``TEXT2SQL_GIT_BRANCH`` the branch (main). Without
it the links name the files of this checkout, which Dagster's UI opens in an editor.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import dagster as dg

from resources.paths import CHECKOUT
from text2sql.errors import Text2SqlError

URL_VARIABLE, BRANCH_VARIABLE = "TEXT2SQL_GIT_URL", "TEXT2SQL_GIT_BRANCH"
_ANCHOR = "pyproject.toml"


def with_code_links(assets: Sequence[Any]) -> Sequence[Any]:
    """Return the assets with links to their code.

    Raises Text2SqlError where ``TEXT2SQL_GIT_URL`` is neither on GitHub nor on GitLab.
    """
    url = os.environ.get(URL_VARIABLE, "").rstrip("/")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        linked = dg.with_source_code_references(assets)
        return _on_git_host(linked, url) if url else linked


def _on_git_host(linked: Sequence[Any], url: str) -> Sequence[Any]:
    if not any(host in url for host in ("github.", "gitlab.")):
        raise Text2SqlError(
            f"{URL_VARIABLE} is {url!r}: it must be a repository on GitHub or GitLab, such as "
            "https://github.com/ORGANISATION/REPOSITORY."
        )
    return dg.link_code_references_to_git(
        linked,
        git_url=url,
        git_branch=os.environ.get(BRANCH_VARIABLE) or "main",
        file_path_mapping=dg.AnchorBasedFilePathMapping(
            local_file_anchor=CHECKOUT / _ANCHOR, file_anchor_path_in_repository=_ANCHOR
        ),
        platform="github" if "github." in url else "gitlab",
    )
