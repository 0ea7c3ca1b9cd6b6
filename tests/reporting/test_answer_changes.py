"""What changed between two answers, and the charts that suit some of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from text2sql.reporting.delivery.chart import MOST_POINTS, chart
from text2sql.reporting.model.diff import Difference, RowChanges, compare_rows
from text2sql.reporting.model.values import result_table


def rows(names: str, *values: tuple) -> list[dict]:
    return [dict(zip(names.split(), row, strict=True)) for row in values]


def test_rows_of_one_key_are_changed_and_others_come_and_go():
    old = rows("n city", (1, "Oslo"), (2, "Bonn"), (3, "Rome"))
    new = rows("n city", (1, "Oslo"), (7, "Bonn"), (4, "Lima"))
    found = compare_rows(old, new)
    assert found.key == ("city",)
    assert found.changed == ((old[1], new[1]),)
    assert (found.added, found.removed, found.unchanged) == ((new[2],), (old[2],), 1)
    assert str(found) == "1 row added, 1 removed, 1 changed"


def test_a_single_value_changes():
    found = compare_rows(rows("n", (3,)), rows("n", (4,)))
    assert (found.changed, found.counts) == ((({"n": 3}, {"n": 4}),), (0, 0, 1))


def test_two_columns_may_be_the_key():
    old = rows("year city n", (1, "a", 5), (1, "b", 5), (2, "a", 5))
    new = rows("year city n", (1, "a", 5), (1, "b", 6), (2, "a", 5))
    assert compare_rows(old, new).key == ("year", "city")
    assert compare_rows(old, new).counts == (0, 0, 1)


def test_without_a_key_rows_are_counted_with_their_multiplicity():
    found = compare_rows(rows("n", (1,), (1,), (2,)), rows("n", (1,), (2,), (2,)))
    assert (found.added, found.removed, found.changed) == (({"n": 2},), ({"n": 1},), ())


def test_amounts_and_nulls_are_no_keys():
    old = rows("x y", (0.5, 1.5), (1.5, 2.5))
    assert compare_rows(old, rows("x y", (0.5, 3.5), (1.5, 2.5))).counts == (1, 1, 0)
    old = rows("c n", (None, 1), ("a", 1))
    assert compare_rows(old, rows("c n", (None, 2), ("a", 1))).counts == (1, 1, 0)


def test_other_columns_make_other_rows():
    assert compare_rows(rows("a", (1,)), rows("b", (1,))).counts == (1, 1, 0)


def test_only_some_rows_are_listed_and_all_are_counted():
    found = compare_rows([], rows("n", *((i,) for i in range(50)))).first(20)
    assert (len(found.added), str(found)) == (20, "50 rows added")
    assert str(RowChanges()) == "no row differs"


@pytest.mark.parametrize(
    ("sql", "result", "data", "warning"),
    [
        (False, False, False, ""),
        (False, True, True, ""),
        (True, True, True, ""),
        (True, False, False, "changed while the data did not, and returns the same"),
        (True, True, False, "changed while the data did not, and returns a different"),
        (False, True, False, "not repeatable"),
    ],
)
def test_a_change_without_new_data_is_a_warning(sql, result, data, warning):
    found = Difference(datetime.now(UTC), RowChanges(), sql, result, data, True)
    assert warning in found.warning
    assert bool(found.warning) == bool(warning)


# -- charts


def draw(labels: list[str], *values: tuple, title: str = "t") -> str:
    table = result_table(labels, values, len(values))
    return chart(title, table.columns, table.rows)


def widths(svg: str) -> list[float]:
    """Return how wide the bars of a chart are."""
    paths = re.findall(r'<path d="([^"]*)"[^>]*style="fill: var\(--second\)"', svg)
    return [max(x) - min(x) for path in paths for x in [_xs(path)]]


def _xs(path: str) -> list[float]:
    return [float(x) for x in re.findall(r"[ML] ([\d.]+)", path)]


def test_names_and_amounts_are_bars_that_begin_at_zero():
    svg = draw(["city", "n"], ("Oslo", 10), ("Bonn", -5))
    root = ElementTree.fromstring(svg)
    oslo, bonn = widths(svg)
    assert oslo == pytest.approx(2 * bonn, abs=0.2)
    assert root.get("role") == "img"
    assert root.find("title").text == "t"
    assert root.find("desc").text == "n by city: Oslo 10; Bonn -5"


def test_large_numbers_are_shown_in_full():
    svg = draw(["city", "n"], ("Oslo", 1_234_567_890_166), ("Bonn", 7))
    root = ElementTree.fromstring(svg)
    (label,) = [text for text in root.iter("text") if text.text == "1,234,567,890,166"]
    width = float(root.get("viewBox").split()[2])
    assert float(label.get("x")) + len(label.text) * 12 * 0.5 < width


def test_a_chart_is_the_same_each_time_and_takes_the_colours_of_its_page():
    first, again = (draw(["city", "n"], ("$x$", 10), ("東京", 5)) for _ in range(2))
    assert first == again
    assert "#" not in re.sub(r"url\(#\w+\)", "", first) and "http" not in first
    assert ">$x$</text>" in first and "var(--ink)" in first


@pytest.mark.parametrize("names", [("2024", "2025", "2026"), (2024, 2025, 2026),
                                   ("2026-01", "2026-02", "2026-03")])  # fmt: skip
def test_moments_in_order_are_a_line(names):
    svg = draw(["when", "n"], *zip(names, (1, 2, 1.5), strict=True))
    assert svg.count("<use ") == 3  # a dot for each
    assert ">1</text>" not in svg and ">2</text>" in svg


def test_the_amount_may_stand_first():
    assert "Oslo" in draw(["n", "city"], (1, "Oslo"), (2, "Bonn"))


@pytest.mark.parametrize(
    ("labels", "values"),
    [
        (["n"], [(1,), (2,)]),
        (["city", "n"], [("Oslo", 1)]),
        (["city", "n"], [("Oslo", 1), ("Oslo", 2)]),
        (["city", "n"], [("Oslo", 1), (None, 2)]),
        (["city", "n"], [("Oslo", 1), ("Bonn", None)]),
        (["city", "n"], [("Oslo", 1.0), ("Bonn", float("inf"))]),
        (["city", "n"], [("Oslo", 1e308), ("Bonn", -1e308)]),
        (["city", "country"], [("Oslo", "no"), ("Bonn", "de")]),
        (["id", "n"], [(1, 2), (2, 3)]),
        (["a", "b", "n"], [("x", "y", 1), ("z", "w", 2)]),
        (["city", "n"], [(f"c{i}", i) for i in range(MOST_POINTS + 1)]),
    ],
)
def test_other_shapes_have_no_chart(labels, values):
    assert draw(labels, *values) == ""


def test_only_zeros_do_not_divide():
    assert widths(draw(["city", "n"], ("Oslo", 0), ("Bonn", 0))) == [0, 0]


def test_hostile_names_are_escaped():
    svg = draw(["<b>", "n"], ("</text><script>alert(1)</script>", 1), ('" onload="x', 2),
               title="</title><script>")  # fmt: skip
    ElementTree.fromstring(svg)
    assert "<script" not in svg
    assert "&lt;script&gt;alert(1)" in svg
