"""Intervals, paired test and pass@k against published values and brute force."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text2sql.evaluation.scores import Score
from text2sql.evaluation.statistics import (
    mcnemar,
    mean_interval,
    p_equals,
    p_text,
    paired_difference,
    pass_at_k,
    wilson,
)


def test_wilson_agrees_with_newcombes_worked_examples():
    """Newcombe, Statistics in Medicine 17 (1998), table I, method 3."""
    for successes, n, low, high in [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ]:
        assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(0, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_contains_the_share_and_stays_between_zero_and_one(case):
    successes, n = case
    low, high = wilson(successes, n)
    assert 0.0 <= low <= high <= 1.0
    if n:
        assert low <= successes / n <= high


def test_mcnemar_is_the_two_sided_binomial_test():
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(5, 5) == 1.0
    assert mcnemar(1, 9) == pytest.approx(2 * 11 / 1024)
    assert mcnemar(9, 1) == mcnemar(1, 9)


def test_the_paired_interval_follows_the_formula():
    # Approval asked twice of 1,600 people: 86 came to approve, 150 no longer did.
    low, high = paired_difference(86, 150, 1600)
    assert low == pytest.approx(-64 / 1602 - 1.959964 * 15.311538 / 1602, abs=1e-7)
    assert high == pytest.approx(-64 / 1602 + 1.959964 * 15.311538 / 1602, abs=1e-7)
    # By hand: 1/6 plus and minus 1.959964 times sqrt(4 - 1/6) / 6.
    assert paired_difference(2, 1, 4) == pytest.approx((-0.4729, 0.8062), abs=1e-4)
    assert paired_difference(0, 0, 4) == pytest.approx((-0.32666, 0.32666), abs=1e-5)
    assert paired_difference(30, 0, 30) == pytest.approx((0.83365, 1.0), abs=1e-4)
    assert paired_difference(0, 0, 0) == (-1.0, 1.0)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_the_paired_interval_flips_with_the_sides_and_contains_the_difference(won, lost, same):
    n = won + lost + same
    low, high = paired_difference(won, lost, n)
    assert -1 <= low <= high <= 1
    assert paired_difference(lost, won, n) == pytest.approx((-high, -low))
    assert not n or low <= (won - lost) / n <= high


def test_pass_at_k_equals_the_share_of_all_subsets():
    for n, correct, k in [(8, 3, 2), (8, 0, 8), (6, 6, 1), (5, 1, 4)]:
        subsets = list(combinations([True] * correct + [False] * (n - correct), k))
        assert pass_at_k(n, correct, k) == pytest.approx(
            sum(any(s) for s in subsets) / len(subsets)
        )


def test_impossible_counts_are_refused():
    paired = (lambda: paired_difference(3, 2, 4), lambda: paired_difference(-1, 2, 4))
    for call in (lambda: wilson(3, 2), lambda: pass_at_k(4, 1, 5), lambda: mcnemar(-1, 0), *paired):
        with pytest.raises(ValueError, match=r"impossible|needs|negative"):
            call()


def test_equal_values_do_not_make_a_mean_certain():
    assert mean_interval([1.0] * 64) == pytest.approx(wilson(64, 64))
    assert mean_interval([0.0, 0.0]) == pytest.approx(wilson(0, 2))
    assert mean_interval([0.5] * 8) == pytest.approx(wilson(4, 8))
    assert mean_interval([2.0] * 4, 2.0) == pytest.approx((2 * wilson(4, 4)[0], 2.0))
    most = 24.20799404411362  # 199 times it, by it, is more than 199 in floats
    assert mean_interval([most] * 199, most) == pytest.approx((most * wilson(199, 199)[0], most))
    assert mean_interval([1.0]) == pytest.approx(wilson(1, 1))
    assert mean_interval([]) == (0.0, 1.0)


def test_a_p_value_is_never_written_as_zero_or_on_the_wrong_side_of_its_bound():
    assert [p_equals(p) for p in (1.0, 0.3632, 1.7e-15)] == ["p = 1", "p = 0.36", "p = 1.7e-15"]
    assert p_equals(mcnemar(1600, 0)) == "p < 1e-300"
    assert (p_text(0.0499), p_text(0.05), p_text(0.0501)) == ("0.0499", "0.05", "0.0501")
    assert (p_text(0.04999996), p_text(0.05000004)) == ("0.04999996", "0.05000004")


def test_a_score_prints_percent_interval_and_n():
    score = Score("trained", "greedy", "all", "", 81 / 263, *wilson(81, 263), 263)
    assert str(score) == "30.8 [25.5, 36.6] n=263"
