"""Charts: what they show, for whom, and that they take a page's colours and characters."""

import io
import sys
from itertools import pairwise
from math import nan
from xml.etree import ElementTree

import pytest

from text2sql.common.charts import (
    FIRST,
    Bars,
    Intervals,
    Line,
    bars,
    intervals,
    lines,
    short_number,
    shown_ks,
)
from text2sql.errors import Text2SqlError

TWO = [
    Intervals("base", [(0.2, 0.1, 0.4), None], FIRST),
    Intervals("trained", [(0.5, 0.4, 0.7), (1.0, 0.4, 1.0)]),
]


def texts(svg: str) -> list[str]:
    return [text.text for text in ElementTree.fromstring(svg).iter("text")]


def test_intervals_are_described_for_those_who_do_not_see_them():
    svg = intervals(["greedy", "vote@4"], TWO).svg("Accuracy <in percent>")
    root = ElementTree.fromstring(svg)
    assert root.find("title").text == "Accuracy <in percent>"
    assert root.find("desc").text == (
        "greedy: base 20.0 (10.0 to 40.0), trained 50.0 (40.0 to 70.0); "
        "vote@4: base nothing, trained 100.0 (40.0 to 100.0)"
    )
    assert {"greedy", "vote@4", "base", "trained", "20.0", "50.0", "100.0"} <= set(texts(svg))


def test_bars_show_every_text_and_grey_the_muted_ones():
    chart = bars(["0", "1"], [Bars([5, 3], ["5 of 9", "3 of 9"], muted=[0])], "questions")
    svg = chart.svg("t")
    assert {"5 of 9", "3 of 9", "questions"} <= set(texts(svg))
    assert svg.count("fill: var(--dim)") == svg.count("fill: var(--second)") == 1
    assert chart.description == "0 5 of 9; 1 3 of 9"


def test_labels_at_the_ends_of_lines_do_not_cover_each_other():
    drawn = [Line([0.2, 0.5], "a"), Line([0.4, 0.5], "b"), Line([0.5, nan], "c")]
    svg = lines([1, 2], drawn, {1: "1"}, {0: "0", 1: "100"}).svg("t")
    heights = sorted(
        float(text.get("y"))
        for text in ElementTree.fromstring(svg).iter("text")
        if text.text in "abc"
    )
    assert [b - a >= 12 for a, b in pairwise(heights)] == [True, True]


def test_a_page_can_hold_several_charts():
    """Only what a chart refers to has an id, and one id is always one thing."""
    meaning: dict[str, bytes] = {}
    for svg in (intervals(["a"], [one]).svg("t") for one in TWO):
        for element in ElementTree.fromstring(svg).iter():
            if name := element.get("id"):
                assert f"#{name}" in svg
                whole = ElementTree.tostring(element)
                assert meaning.setdefault(name, whole) == whole
        assert "http" not in svg and "<style" not in svg
    assert meaning


def test_characters_that_no_document_may_hold_are_replaced():
    svg = bars(["a\x00b\nc", "\ud83d"], [Bars([1, 2], ["1", "2"])]).svg("\x1b[31m")
    assert {"a\ufffdb c", "\ufffd"} <= set(texts(svg))
    svg.encode()


def test_text_is_never_taken_for_markup():
    names = [
        "#0072b2",
        'x id="y" xlink:href',
        "'DejaVu Sans'",
        "<metadata>a</metadata>",
        "<!-- -->",
    ]
    svg = bars(names, [Bars([1, 2, 3, 4, 5], list("abcde"))]).svg("t")
    assert set(names) <= set(texts(svg))


def test_a_picture_is_small_and_opaque():
    from PIL import Image

    picture = Image.open(io.BytesIO(intervals(["greedy", "vote@4"], TWO).png()))
    assert picture.format == "PNG" and picture.mode == "P"
    assert picture.convert("RGB").getpixel((0, 0)) == (255, 255, 255)


def test_without_matplotlib_one_sentence_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Text2SqlError, match=r"text2sql-lifecycle\[reporting\]"):
        bars(["a"], [Bars([1], ["1"])]).svg("t")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((1_234_567_890_166.0, "1,234,567,890,166"), (0.5, "0.5"), (-3.0, "-3"), (2e20, "2e+20")),
        *((0.00012, "0.00012"), (-0.0, "0"), (10**18, "1,000,000,000,000,000,000")),
    ],
)
def test_numbers_in_labels(value, shown):
    assert short_number(value) == shown


def test_some_k_are_enough():
    assert shown_ks(12) == [1, 2, 4, 8, 12]
