"""The thoughts that a server without a reasoning parser leaves in a reply's text."""

from __future__ import annotations

import re

# The end of a thought is never inside a string; its beginning stands first on a line.
_END = re.compile(r"</think(?:ing)?>(?!['\"%])")
_BEGINNING = re.compile(r"^[ \t]*<think(?:ing)?>", re.MULTILINE)


def split_thinking(text: str) -> tuple[str, str]:
    """Return the thinking with which a text begins, its tags included, and the rest.

    The opening tag may be missing, since chat templates write it; without the closing one all
    is thinking.
    """
    if end := _END.search(text):
        return text[: end.end()], text[end.end() :]
    return (text, "") if _BEGINNING.match(text.lstrip()) else ("", text)


def thinking_until(text: str, start: int, end: int) -> int:
    """Return where the thinking ends that is begun within ``start`` and ``end``; 0 where none is.

    What is begun and ended within is none.
    """
    begun = [match.start() for match in _BEGINNING.finditer(text[start:end])]
    if not begun or _END.search(text[start:end], begun[-1]):
        return 0
    closing = _END.search(text, end)
    return closing.end() if closing else len(text)


def spoken(text: str) -> str:
    """Return a text without its thoughts, nor what stands before a closing tag alone."""
    said: list[str] = []
    rest = split_thinking(text)[1]
    while beginning := _BEGINNING.search(rest):
        said.append(rest[: beginning.start()])
        end = _END.search(rest, beginning.end())
        rest = rest[end.end() :] if end else ""
    left = "".join([*said, rest])
    ends = [match.end() for match in _END.finditer(left)]
    return left[ends[-1] :] if ends else left
