"""Invented words: names that a policy can only copy, never remember.

A small transformer that meets a few hundred words remembers them and writes one of those for
a word it has never seen. Very varied inventions make copying the cheaper way.
"""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise

from text2sql.datasets.pocket.words import PRETRAINING

_ONSET_TEXT = "b c d f g h j k l m n p r s t v w z bl br cl dr fl gr pl sk st tr"
_VOWEL_TEXT = "a e i o u ai ea oo ou"
_ONSETS, _VOWELS = _ONSET_TEXT.split(), _VOWEL_TEXT.split()
_CODAS = ("", "", "n", "r", "l", "s", "t")
_WORDS = PRETRAINING.words()

# SQLite's keywords, and the two columns that every table has.
_RESERVED_TEXT = """
    abort action add after all alter always analyze and as asc attach autoincrement before
    begin between by cascade case cast check collate column commit conflict constraint create
    cross current current_date current_time current_timestamp database default deferrable
    deferred delete desc detach distinct do drop each else end escape except exclude exclusive
    exists explain fail filter first following for foreign from full generated glob group groups
    having if ignore immediate in index indexed initially inner insert instead intersect into is
    isnull join key last left like limit match materialized natural no not nothing notnull null
    nulls of offset on or order others outer over partition plan pragma preceding primary query
    raise range recursive references regexp reindex release rename replace restrict returning
    right rollback row rows savepoint select set table temp temporary then ties to transaction
    trigger unbounded union unique update using vacuum values view virtual when where window with
    without id name"""
RESERVED = frozenset(_RESERVED_TEXT.split())


def _followers() -> dict[str, list[str]]:
    """Which letter follows which in real words; ``^`` and ``$`` mark start and end."""
    pairs: dict[str, list[str]] = defaultdict(list)
    for word in _WORDS:
        marked = f"^{word}$"
        for left, right in pairwise(marked):
            pairs[left].append(right)
    return pairs


_FOLLOWERS = _followers()


def _syllables(rng: random.Random) -> str:
    count = rng.choice((2, 2, 3))
    body = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(count))
    return body + rng.choice(_CODAS)


def _letter_chain(rng: random.Random) -> str:
    letters: list[str] = []
    current = "^"
    while len(letters) < 10:
        current = rng.choice(_FOLLOWERS[current])
        if current == "$":
            break
        letters.append(current)
    return "".join(letters)


def _splice(rng: random.Random) -> str:
    left, right = rng.choice(_WORDS), rng.choice(_WORDS)
    return left[: max(2, len(left) // 2)] + right[len(right) // 2 :]


def invent(rng: random.Random) -> str:
    """Draw an invented word of 4 to 10 letters that is no SQL keyword, nor is its plural."""
    while True:
        maker = rng.choices((_syllables, _letter_chain, _splice), weights=(6, 7, 7))[0]
        word = maker(rng)
        if 4 <= len(word) <= 10 and word not in RESERVED and word + "s" not in RESERVED:
            return word
