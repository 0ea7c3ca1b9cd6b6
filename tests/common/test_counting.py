"""Numbers of things in sentences."""

import pytest

from text2sql.common.counting import counted


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("row",), "0 rows"),
        (1, ("row",), "1 row"),
        (2, ("row",), "2 rows"),
        (1534, ("question",), "1,534 questions"),
        (1, ("query was", "queries were"), "1 query was"),
        (3, ("query was", "queries were"), "3 queries were"),
    ],
)
def test_counted_uses_the_singular_only_for_one(number, words, text):
    assert counted(number, *words) == text
