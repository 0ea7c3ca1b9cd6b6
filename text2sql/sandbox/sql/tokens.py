"""SQL split as SQLite's own tokenizer does: comments, quotes and NUL bytes hide nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\n\f\r][ \t\n\v\f\r]* | \ufeff
      | --[^\n\x00]* | /\*(?:(?!\*/)[^\x00])*(?:\*/|(?=\x00)|\Z))
  | (?P<string>'(?:[^'\x00]|'')*'?)
  | (?P<quoted>"(?:[^"\x00]|"")*"? | `(?:[^`\x00]|``)*`? | \[[^\]\x00]*\]?)
  | (?P<variable>[$@:#](?:::)*[\w$\x80-\U0010ffff](?:::|[\w$\x80-\U0010ffff])*
      (?:\([^\x00 \t\n\v\f\r)]*\)?)?)
  | (?P<word>[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)
  | (?P<number>0[xX][0-9a-fA-F]+ | [0-9][\w.$]*)
  | (?P<symbol>[\s\S])
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """A token: ``kind`` is word, string, quoted (an identifier), or symbol."""

    kind: str
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Whether this is one of these keywords."""
        return self.kind == "word" and self.text.upper() in words


def tokens_of(sql: str) -> Iterator[Token]:
    """Yield the tokens in order, without spaces and comments."""
    for found in _TOKEN.finditer(sql):
        kind = found.lastgroup or "symbol"
        if kind != "space":
            yield Token(kind, found.group(), found.start(), found.end())
