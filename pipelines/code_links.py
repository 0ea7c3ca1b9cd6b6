"""Links from each asset to the code that makes it: to the file here, or to a Git host.

``TEXT2SQL_GIT_URL`` names the repository on GitHub or GitLab, such as
https://github.com/ORGANISATION/REPOSITORY, and ``TEXT2SQL_GIT_BRANCH`` the branch (main). Without
it the links name the files of this checkout, which Dagster's UI opens in an editor.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from text2sql.common.checkout import CHECKOUT
from text2sql.errors import Text2SqlError

URL_VARIABLE, BRANCH_VARIABLE = "TEXT2SQL_GIT_URL", "TEXT2SQL_GIT_BRANCH"
_ANCHOR = "pyproject.toml"


def with_code_links(assets: Sequence[Any]) -> Sequence[Any]:
    """Return the assets with links to their code.

    Raises Text2SqlError if ``TEXT2SQL_GIT_URL`` is neither on GitHub nor on GitLab.
    """
    url = git_url()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        linked = [_linked(asset) for asset in assets]
        return _on_git_host(linked, url) if url else linked


def git_url() -> str:
    """Return the repository that ``TEXT2SQL_GIT_URL`` names, empty if it is not set.

    Raises Text2SqlError for one that is neither on GitHub nor on GitLab.
    """
    url = os.environ.get(URL_VARIABLE, "").rstrip("/")
    if url and not any(host in url for host in ("github.", "gitlab.")):
        raise Text2SqlError(
            f"{URL_VARIABLE} is {url!r}: it must be a repository on GitHub or GitLab, such as "
            "https://github.com/ORGANISATION/REPOSITORY."
        )
    return url


def _linked(asset: dg.AssetsDefinition) -> dg.AssetsDefinition:
    """Return an asset with a link to its function, even if a decorator wraps that.

    Dagster's own ``with_source_code_references`` would name the decorator's file.
    """
    function = inspect.unwrap(_function(asset.node_def))
    file, line = inspect.getsourcefile(function), inspect.getsourcelines(function)[1]
    link = dg.LocalFileCodeReference(file_path=str(Path(str(file)).resolve()), line_number=line)
    links = {"dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[link])}
    return asset.map_asset_specs(lambda spec: spec.merge_attributes(metadata=links))


def _function(node: Any) -> Callable[..., Any]:
    """Return the function that an asset, or the graph behind it, was written as."""
    written: Any = node.compute_fn if isinstance(node, dg.OpDefinition) else node.composition_fn
    function: Callable[..., Any] = getattr(written, "decorated_fn", written)
    return function


def _on_git_host(linked: Sequence[Any], url: str) -> Sequence[Any]:
    return dg.link_code_references_to_git(
        linked,
        git_url=url,
        git_branch=os.environ.get(BRANCH_VARIABLE) or "main",
        file_path_mapping=dg.AnchorBasedFilePathMapping(
            local_file_anchor=CHECKOUT / _ANCHOR, file_anchor_path_in_repository=_ANCHOR
        ),
        platform="github" if "github." in url else "gitlab",
    )
