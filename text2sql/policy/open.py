"""Open a policy by its specification: the pocket policy, a model directory, or a server."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from text2sql.common.http import is_loopback
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.base import Policy
from text2sql.policy.places import is_served
from text2sql.policy.served.address import api_roots, below
from text2sql.policy.served.connections import HttpAnswer, NoAnswer, fetch
from text2sql.policy.served.failures import REDIRECTS, Retryable, refusal
from text2sql.policy.served.server import ServerPolicy, named_revision
from text2sql.policy.weights import is_adapter

_log = logging.getLogger(__name__)

POCKET = "pocket"
API_KEY_VARIABLE = "TEXT2SQL_API_KEY"
_PROBE_SECONDS = 15.0
_DAY_SECONDS = 86_400


def open_policy(spec: str, model: str | None = None, threads: int | None = None) -> Policy:
    """Open ``pocket``, a Hugging Face model directory, or the URL of an OpenAI-compatible server.

    Equal servers are separated by commas. The model to ask follows after ``#`` or is ``model``; it
    may be left out if there is only one. A server's key is read from the environment variable
    TEXT2SQL_API_KEY. ``threads`` limits the CPU threads of a policy in this process. Raises
    Text2SqlError for an invalid specification, InfrastructureError if no server answers.
    """
    if is_served(spec):
        return _open_server(*server_parts(spec, model))
    directory = policy_directory(spec)
    if directory is None or not directory.is_dir():
        raise Text2SqlError(
            f"There is no policy {spec!r}: give 'pocket', a model directory, or a server's URL, "
            "like http://127.0.0.1:8000/v1."
        )
    if is_adapter(directory):
        raise Text2SqlError(
            f"{directory} is an adapter, which only vLLM can serve: in Dagster set the policy's "
            "server to vllm; elsewhere start it with text2sql serve and give its URL."
        )
    from text2sql.policy.local.policy import LocalPolicy

    _log.debug("loading the weights in %s", directory)
    return LocalPolicy(directory, threads=threads)


def server_parts(spec: str, model: str | None = None) -> tuple[list[str], str | None]:
    """Return the URLs in a server's specification, and the model: named in it, or ``model``."""
    urls, _, named = spec.partition("#")
    if named and model and named != model:
        raise Text2SqlError(f"The policy {spec} already names a model: leave {model!r} out.")
    return [url.strip() for url in urls.split(",") if url.strip()], named or model


def policy_directory(spec: str) -> Path | None:
    """Return the directory of a policy's weights; None if a server has them."""
    if is_served(spec):
        return None
    if spec == POCKET:
        import text2sql

        return Path(text2sql.__file__).parent / "datasets" / "pocket" / "policy"
    return Path(spec).expanduser().resolve()


def weights_folder(spec: str, model: str | None = None) -> Path | None:
    """Return the folder with a policy's weights: its own, or the one a local server names.

    None for a server on another machine, or one that names no folder. Raises what
    ``open_policy`` raises if a server cannot be asked.
    """
    if (directory := policy_directory(spec)) is not None:
        return directory
    urls, named = server_parts(spec, model)
    if not is_loopback(urls[0]):
        return None
    offered = served_models(urls[0], os.environ.get(API_KEY_VARIABLE, ""))
    folder = Path(offered.get(named or next(iter(offered)), ""))
    return folder if folder.is_absolute() else None


def _open_server(urls: list[str], model: str | None) -> Policy:
    key = os.environ.get(API_KEY_VARIABLE, "")
    roots: list[str] = []
    weights = ""
    for url in urls:
        root, offered = find_api(url, key, named=model is not None)
        if not model and len(offered) > 1:
            raise Text2SqlError(
                f"The server at {url} has several models; choose one with --model: "
                f"{', '.join(offered)}."
            )
        model = model or next(iter(offered))
        if offered and model not in offered:
            raise Text2SqlError(
                f"The server at {url} has no model {model!r}; it has: {', '.join(offered)}."
            )
        roots.append(root)
        weights = weights or offered.get(model, "")
    assert model is not None
    return ServerPolicy(roots, model, key, named_revision(model, weights) if weights else None)


def served_models(url: str, api_key: str = "") -> dict[str, str]:
    """Ask a server for its models; map names to what it says of their weights (``find_api``)."""
    return find_api(url, api_key)[1]


def find_api(url: str, api_key: str = "", *, named: bool = False) -> tuple[str, dict[str, str]]:
    """Find where a server's API is and which models it has.

    Returns the address of the API, and each model's name with what the server says of its
    weights: the folder, or when they were made. With ``named`` the user names the model, and a
    server needs no list: then the dictionary is empty, and the address is the one given. Raises
    InfrastructureError if it does not answer, Text2SqlError if the user must fix something.
    """
    roots = api_roots(url)
    for root in roots:
        answer = _models_page(url, below(root, "models"), api_key)
        if models := _models_in(answer):
            return root, models
    if named and answer.status in (404, 405, 501):
        return url, {}
    raise Text2SqlError(
        f"{url} is not an OpenAI-compatible server, or has no list of models (HTTP "
        f"{answer.status} at {below(roots[0], 'models')}): check the address, or name the model "
        "with --model."
    )


def _models_page(url: str, address: str, api_key: str) -> HttpAnswer:
    _log.debug("asking %s", address)
    try:
        answer = fetch(address, api_key, _PROBE_SECONDS)
    except NoAnswer as error:
        raise InfrastructureError(
            f"No policy server answers at {url}: {error}. Start it, or check the address."
        ) from error
    if answer.status >= 500 or answer.status in (401, 403, 429, *REDIRECTS):
        failure = refusal(answer, url, "", proven=False)
        if isinstance(failure, Retryable):
            raise InfrastructureError(f"The policy server at {url} answered {failure}.")
        raise failure
    return answer


def _models_in(answer: HttpAnswer) -> dict[str, str]:
    """Return the models of a list and what it says of their weights; empty if it is none."""
    try:
        found = json.loads(answer.content)
        entries = found if isinstance(found, list) else found["data"]
        return {str(entry["id"]): _weights(entry) for entry in entries}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _weights(entry: Mapping[str, Any]) -> str:
    """Return what tells a served model's weights apart: their folder, else a digest or a date.

    A date of today says nothing: vLLM and llama.cpp give the time of the request.
    """
    said = [entry.get(name) for name in ("root", "digest", "sha256", "revision")]
    created = entry.get("created")
    if isinstance(created, int | float) and 0 < created < time.time() - _DAY_SECONDS:
        said.append(created)
    return next((str(value) for value in said if value), "")
