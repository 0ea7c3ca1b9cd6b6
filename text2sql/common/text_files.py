"""Text files of people and other programs: UTF-8, or what PowerShell and spreadsheets write."""

from __future__ import annotations

import json
from pathlib import Path

from text2sql.errors import Text2SqlError

_PACKED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"\xfd7zXZ": "xz", b"(\xb5/\xfd": "zstd"}
"""How compressed files begin."""

_OTHERS = {
    b"version https://git-lfs": "it is Git LFS's pointer to the file; get that with git lfs pull",
    **dict.fromkeys(
        (b"<!doctype html", b"<html"),
        "it is a web page, as a download without its login leaves one; download it again",
    ),
}
"""How other files begin that people have in a text's place, in small letters."""

_HEAD = 200  # bytes


def read_text(file: Path, what: str) -> str:
    """Return a file's text with plain line ends, be it in UTF-8, UTF-16 or UTF-32.

    ``what`` names the file's part in messages. A byte order mark decides, without one the zero
    bytes at the beginning, which must be ASCII. Raises Text2SqlError for any other encoding,
    for a compressed file, and for what else a download may leave.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise Text2SqlError(f"Cannot read {what} {file}: {error.strerror}.") from error
    if form := next((form for start, form in _PACKED.items() if data.startswith(start)), ""):
        raise Text2SqlError(f"Cannot read {what} {file}: it is compressed ({form}); unpack it.")
    head = data[:_HEAD].lstrip().lower()
    if other := next((words for start, words in _OTHERS.items() if head.startswith(start)), ""):
        raise Text2SqlError(f"Cannot read {what} {file}: {other}.")
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise Text2SqlError(
            f"Cannot read {what} {file}: it is not UTF-8 ({error}); save it in UTF-8."
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")
