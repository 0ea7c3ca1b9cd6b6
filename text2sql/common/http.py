"""Synchronous HTTP clients, and the proxies that the environment names for servers."""

from __future__ import annotations

import re
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from text2sql.errors import Text2SqlError

if TYPE_CHECKING:
    import urllib3


def client_for(url: str) -> urllib3.PoolManager:
    """Return a client for a server, through the proxy that ``proxy_for`` gives, if any."""
    import urllib3

    proxy = proxy_for(url)
    if proxy is None:
        return urllib3.PoolManager()
    login = urllib3.util.parse_url(proxy).auth
    headers = urllib3.make_headers(proxy_basic_auth=unquote(login)) if login else None
    return urllib3.ProxyManager(proxy, proxy_headers=headers)


def is_loopback(url: str) -> bool:
    """Say whether a server runs on this machine, so that no proxy belongs in between."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "0.0.0.0", "::", "::1") or host.startswith("127.")


def proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for a server (HTTPS_PROXY, NO_PROXY, ...)."""
    parts = urlsplit(url)
    if is_loopback(url) or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    known = urllib.request.getproxies()
    proxy = known.get(parts.scheme) or known.get("all")
    if proxy and "://" not in proxy:
        proxy = f"http://{proxy}"
    if proxy and not proxy.startswith(("http://", "https://")):
        proxy = re.sub(r"//.*@", "//", proxy)  # hides its password
        raise Text2SqlError(
            f"The proxy {proxy!r} for {parts.hostname} cannot be used: it must be an HTTP proxy; "
            "set NO_PROXY to go without."
        )
    return proxy or None
