"""Text files of people and other programs: UTF-8, or what PowerShell and spreadsheets write."""

from __future__ import annotations

import json
from pathlib import Path

from text2sql.errors import Text2SqlError

_PACKED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"\xfd7zXZ": "xz", b"(\xb5/\xfd": "zstd"}
"""How compressed files begin."""


def read_text(file: Path, what: str) -> str:
    """Return a file's text with plain line ends, be it in UTF-8, UTF-16 or UTF-32.

    ``what`` names the file's part in messages. A byte order mark decides, without one the zero
    bytes at the beginning, which must be ASCII. Raises Text2SqlError for any other encoding,
    and for a compressed file.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise Text2SqlError(f"Cannot read {what} {file}: {error.strerror}.") from error
    if form := next((form for start, form in _PACKED.items() if data.startswith(start)), ""):
        raise Text2SqlError(f"Cannot read {what} {file}: it is compressed ({form}); unpack it.")
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise Text2SqlError(
            f"Cannot read {what} {file}: it is not UTF-8 ({error}); save it in UTF-8."
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")
