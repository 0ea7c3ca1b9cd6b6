"""Voting: the largest group of equal results, whatever the order they came in."""

import random

from hypothesis import given
from hypothesis import strategies as st

from text2sql.judge.voting import Submission, vote


def candidates(letters):
    """One candidate a letter: equal letters agree, ``-`` is empty, ``!`` is invalid."""
    return [
        Submission(n, f"SELECT {n}", letter, 0 if letter == "-" else 1, letter != "!")
        for n, letter in enumerate(letters)
    ]


def test_the_largest_group_wins_with_its_first_sql():
    result = vote(candidates("ABBAB"))
    assert (result.sql, result.index, result.digest) == ("SELECT 1", 1, "B")
    assert (result.votes, result.k, result.share) == (3, 5, 0.6)
    assert (result.tie, result.groups, result.consensus) == (False, 2, True)


def test_a_tie_goes_to_the_lowest_rollout_index_and_is_marked():
    result = vote(candidates("ABABAB--"))
    assert (result.digest, result.index, result.tie) == ("A", 0, True)
    assert (result.votes, result.k, result.share) == (3, 8, 3 / 8)
    assert vote(candidates("BABA")).digest == "B"


def test_errors_writes_and_empty_results_do_not_vote():
    result = vote(candidates("---!!!A"))
    assert (result.digest, result.votes, result.tie) == ("A", 1, False)
    assert result.share == 1 / 7


def test_equal_sql_is_not_merged():
    same = [Submission(n, "SELECT 1", "A", 1, True) for n in range(3)]
    assert vote([*same, *[Submission(3, "x", "B", 1, True)]]).votes == 3


def test_equal_indices_do_not_make_the_order_count():
    twice = [Submission(0, "SELECT 1", "B", 1, True), Submission(0, "SELECT 2", "A", 1, True)]
    assert vote(twice) == vote(twice[::-1])


def test_without_a_group_there_is_no_answer():
    for given_ in ([], candidates("-!-")):
        result = vote(given_)
        assert (result.sql, result.digest, result.index, result.votes) == ("", "", -1, 0)
        assert (result.share, result.tie, result.groups) == (0.0, False, 0)
        assert not result.consensus


@given(st.text("ABC-!", max_size=40), st.randoms(use_true_random=False))
def test_the_order_of_completion_has_no_influence(letters, chance: random.Random):
    ordered = candidates(letters)
    shuffled = list(ordered)
    chance.shuffle(shuffled)
    assert vote(shuffled) == vote(ordered)


@given(st.text("ABC-!", max_size=40))
def test_the_vote_agrees_with_counting(letters):
    result = vote(candidates(letters))
    counts = {letter: letters.count(letter) for letter in set(letters) - set("-!")}
    assert result.groups == len(counts)
    if counts:
        best = [letter for letter, n in counts.items() if n == max(counts.values())]
        assert result.digest == min(best, key=letters.index)
        assert result.tie == (len(best) > 1)
        assert result.votes == max(counts.values())
        assert result.share == result.votes / len(letters)
