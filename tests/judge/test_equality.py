"""Outside scoring floats that differ by rounding are one value; in scoring they are not."""

import itertools
import math
import sqlite3
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text2sql.judge.equality import alike, groups_of, same
from text2sql.judge.voting import Submission, vote
from text2sql.sandbox.results import rounded

FLOATS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


def on_both(value):
    return {(down, rounded(value, down=down)) for down in (False, True)}


@given(FLOATS, st.floats(-1e-9, 1e-9))
def test_two_floats_within_a_billionth_share_a_number_on_one_grid(value, off):
    if abs(value) > 1e-290:
        assert on_both(value) & on_both(value + value * off * 0.999)


@given(FLOATS, st.sampled_from([1e-8, -1e-8, 1e-6, 0.5]))
def test_two_floats_further_apart_share_none(value, off):
    if abs(value) > 1e-290:
        assert not on_both(value) & on_both(value * (1 + off))


def test_numbers_at_the_edges():
    assert rounded(28.000000000000004) == 28 and type(rounded(28.0)) is int
    assert rounded(0.0) == rounded(-0.0) == 0
    assert rounded(1e-17) != 0
    assert math.isinf(rounded(math.inf))
    largest = sys.float_info.max
    assert rounded(largest) == largest and rounded(-largest, down=True) == -largest
    assert rounded(math.nextafter(1.0, 0.0)) == 1


@pytest.fixture
def run(sandbox, tmp_path):
    path = tmp_path / "t.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (x INTEGER)")
        database.executemany("INSERT INTO t VALUES (?)", [(n < 7,) for n in range(25)])
    return lambda sql: sandbox.execute(path, sql)


FIRST = "SELECT SUM(x) * 100.0 / COUNT(*) FROM t"
SECOND = "SELECT 100.0 * (SUM(x) * 1.0 / COUNT(*)) FROM t"


@pytest.mark.parametrize(
    "one, other, alike_too",
    [
        (FIRST, SECOND, True),
        ("SELECT 28", SECOND, True),
        ("SELECT 'a', 28.0 UNION ALL SELECT 'b', 1", f"SELECT 1, 2 WHERE 0 UNION ALL {FIRST[:6]} "
         "'b', 1.0 UNION ALL SELECT 'a', 28.000000000000004", True),
        ("SELECT 0.1 + 0.2 UNION ALL SELECT 1.5", "SELECT 1.5 UNION ALL SELECT 0.3", True),
        ("SELECT 1234567890.25", "SELECT 1234567890.2500002", True),
        ("SELECT 300000001, 28.0", "SELECT 300000001.0, 28.000000000000004", True),
        ("SELECT 1000000001", "SELECT 1000000001.0000001", True),
        ("SELECT 0.3", "SELECT 0.30000001", False),
        ("SELECT 1000000001.0", "SELECT 1000000002", False),
        ("SELECT 1000000001", "SELECT 1000000002", False),
        ("SELECT '28.0'", "SELECT 28.0", False),
        ("SELECT 0.0", "SELECT 1e-12", False),
        ("SELECT 1e308 * 10", "SELECT 1e308", False),
    ],
)  # fmt: skip
def test_results_that_differ_by_rounding(run, one, other, alike_too):
    first, second = run(one), run(other)
    assert alike(first, second) == alike(first.near, second.near) == alike_too
    assert alike(first, second, "multiset") == alike_too
    assert not same(first, second) and not same(first.near, second.digest)
    assert same(first.near, first) and alike(first, first)


def test_how_often_a_row_occurs_counts_in_a_multiset(run):
    once, twice = run("SELECT 0.3"), run("SELECT 0.1 + 0.2 UNION ALL SELECT 0.3")
    assert not alike(once, twice, "multiset")


def test_a_query_that_failed_is_like_nothing(run):
    failed = run("SELECT nope FROM t")
    assert not alike(failed, failed) and not alike(None, failed) and not alike("", "")


def test_a_vote_counts_forms_that_differ_by_rounding_as_one(run):
    found = [run(sql) for sql in (FIRST, SECOND, "SELECT 3", SECOND)]
    votes = [Submission(n, str(n), one.near, one.row_count, True) for n, one in enumerate(found)]
    assert found[0].digest != found[1].digest
    winner = vote(votes)
    assert (winner.votes, winner.groups, winner.members) == (3, 2, {0, 1, 3})


def test_groups_do_not_depend_on_the_order():
    """The middle one is alike to both others, which are not alike."""
    kept = ["x~a~p", "y~a~q", "z~b~q", "w~c~r"]
    for order in itertools.permutations(range(4)):
        groups = groups_of([kept[place] for place in order])
        by_result = dict(zip(order, groups, strict=True))
        assert by_result[0] == by_result[1] == by_result[2] != by_result[3]
        assert groups[0] == 0
