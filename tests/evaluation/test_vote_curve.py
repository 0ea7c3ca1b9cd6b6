"""Voting at every k against a count of every subset in every order, and its intervals."""

from itertools import permutations

import pytest

from text2sql.evaluation.statistics import bootstrap, wilson
from text2sql.evaluation.vote_curve import ballots, curve, pass_shares, vote_shares
from text2sql.judge.voting import Submission, vote


def share_by_counting(letters: str, k: int) -> float:
    """Vote among the first k of every order; capital letters are right, a dot has no vote."""
    orders = list(permutations(letters))
    right = 0
    for order in orders:
        row = [Submission(i, x, x, 1, x != ".") for i, x in enumerate(order[:k])]
        right += vote(row).digest.isupper()
    return right / len(orders)


@pytest.mark.parametrize(
    "letters", ["A", "a", ".", "Aab", "AAabb.", "AAAbbb", "ABabc.", "AAbbc", "A.....", "AABBcc"]
)
def test_the_formula_is_the_mean_over_every_subset_and_order(letters):
    counted = ballots([("" if x == "." else x, x.isupper()) for x in letters])
    shares = vote_shares(counted.right, counted.wrong, counted.silent)
    expected = [share_by_counting(letters, k) for k in range(1, len(letters) + 1)]
    assert shares == pytest.approx(expected)


def test_all_rollouts_without_a_tie_are_the_plain_vote():
    assert vote_shares((17,), (15,), 0)[-1] == 1.0
    assert vote_shares((15,), (17,), 0)[-1] == 0.0
    assert vote_shares((16,), (16,), 0)[-1] == 0.5
    assert vote_shares((), (3,), 29) == (0.0,) * 32


def test_pass_is_the_ceiling_of_voting():
    for right, wrong in [((3,), (9, 9, 2)), ((8,), (8, 8)), ((1,), (1,) * 20), ((30,), ())]:
        n = sum(right) + sum(wrong) + 2
        votes = vote_shares(right, wrong, 2)
        ceilings = pass_shares(n, sum(right))
        assert all(v <= c + 1e-12 for v, c in zip(votes, ceilings, strict=True))
        assert votes[0] == pytest.approx(sum(right) / n)


def test_an_empty_result_that_matches_passes_and_has_no_vote():
    counted = ballots([("", True), ("x", False)])
    (one, two) = curve("p", "all", "", [counted]).points
    assert (one.vote, one.ceiling, two.vote, two.ceiling) == (0.0, 0.5, 0.0, 1.0)


def test_curve_of_many_questions():
    questions = [ballots([("x", True)] * right + [("y", False)] * (4 - right)) for right in (1, 3)]
    found = curve("p", "all", "", questions * 20)
    assert (found.n, len(found.points)) == (40, 4)
    assert found.points[3].vote == 0.5
    assert all(p.vote_low <= p.vote <= p.vote_high for p in found.points)
    assert found == curve("p", "all", "", questions * 20)
    assert curve("p", "all", "", []).points == ()


def test_bootstrap_is_like_the_normal_interval_and_wilson_for_shares():
    values = [0.25, 0.75] * 200
    ((low, high),) = bootstrap([values])
    assert (low, high) == pytest.approx((0.5 - 0.0245, 0.5 + 0.0245), abs=0.004)
    assert bootstrap([[1.0] * 9 + [0.0]]) == [wilson(9, 10)]
    assert bootstrap([[0.5]]) == [(0.0, 1.0)]
    assert bootstrap([]) == [] and bootstrap([[]]) == [wilson(0, 0)]
