"""Addresses that people set: of chats and of mail servers."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def address_parts(address: str, schemes: tuple[str, ...]) -> SplitResult | None:
    """Return the parts of an address of one of these schemes; None for what cannot be one.

    That is one without a host, with a port that is no number, or with blanks, line breaks and
    other characters that libraries refuse later, in words that repeat the whole secret address.
    """
    try:
        parts = urlsplit(address)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        return None
    written = address.isascii() and address.isprintable() and " " not in address
    fine = port_is_fine and written and parts.hostname and parts.scheme in schemes
    return parts if fine else None
