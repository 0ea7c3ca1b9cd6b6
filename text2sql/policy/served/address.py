"""The address of a policy server: what people give, and the places that it may mean."""

from __future__ import annotations

import re
import urllib.parse

from text2sql.errors import Text2SqlError


def api_roots(url: str) -> list[str]:
    """Return the places where the API may be, in the order in which they are tried.

    ``http://host:8000`` means ``/v1``. Another path is tried as given and then with ``/v1``, since
    some servers have their API elsewhere. The full address of the chat completions, the
    completions or the models means the API above it. A query may only have ``api-version``, which
    Azure requires. Raises Text2SqlError for anything else.
    """
    try:
        parts = urllib.parse.urlsplit(url.strip())
        at_host = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        query = re.fullmatch(r"(?:api-version=[\w.-]+)?", parts.query)
        valid = at_host and not parts.fragment and query is not None
    except ValueError:
        valid = False
    if not valid:
        shown = re.sub(r"//.*@", "//", re.split(r"[?#]", url)[0])  # the rest may hold a key
        raise Text2SqlError(
            f"{shown!r} is not the address of a server; give a host, with port and path if "
            "needed, like http://127.0.0.1:8000/v1."
        )
    if "@" in parts.netloc:
        raise Text2SqlError(
            f"The address of the server at {parts.hostname} contains a name or password, which "
            "would be logged; set a key in TEXT2SQL_API_KEY instead."
        )
    whole = parts.path.rstrip("/")
    path = re.sub(r"/(?:chat/completions|completions|models)\Z", "", whole)
    if path != whole or re.search(r"/v\d+\Z", path):
        paths = [path]
    else:
        paths = [path, f"{path}/v1"] if path else ["/v1"]
    return [urllib.parse.urlunsplit(parts._replace(path=one)) for one in paths]


def below(root: str, path: str) -> str:
    """Return the address of a part of the API, such as ``models``; a query stays at the end."""
    place, mark, query = root.partition("?")
    return f"{place}/{path}{mark}{query}"
