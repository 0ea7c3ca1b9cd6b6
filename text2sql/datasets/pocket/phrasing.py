"""How the pocket world asks: the general phrasing and the target phrasing.

A phrase is a format string over the slots of a question: {T} the table, {S} one of its rows,
{N} a number column, {C} a category column and {v} one of its values, {agg} a word for an
aggregate, {top} one for an end of an order, {cmp} a comparison, {k} how many, and {P}, {Q},
{PC}, {pv} the referenced table, one of its rows, its category column and a value of that.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Phrasing:
    """A way of asking: phrases by question family, and the words that fill their slots."""

    families: dict[str, tuple[str, ...]]
    aggregates: dict[str, tuple[str, ...]]
    comparisons: tuple[tuple[str, str], ...]


GENERAL = Phrasing(
    families={
        "count_all": (
            "how many {T} are there",
            "count the {T}",
            "what is the number of {T}",
            "how many {T} do we have",
        ),
        "count_eq": (
            "how many {T} have {C} {v}",
            "count the {T} whose {C} is {v}",
            "number of {T} with {C} {v}",
            "how many {T} are there with {C} {v}",
        ),
        "count_cmp": (
            "how many {T} have {N} {cmp}",
            "count the {T} with {N} {cmp}",
            "number of {T} whose {N} is {cmp}",
        ),
        "agg": (
            "what is the {agg} {N} of {T}",
            "find the {agg} {N} of all {T}",
            "show the {agg} {N} among {T}",
            "give me the {agg} {N} of the {T}",
        ),
        "agg_eq": (
            "what is the {agg} {N} of {T} with {C} {v}",
            "{agg} {N} for {T} whose {C} is {v}",
            "find the {agg} {N} among {T} that have {C} {v}",
        ),
        "list_cmp": (
            "list the name of {T} with {N} {cmp}",
            "which {T} have {N} {cmp}",
            "show names of {T} whose {N} is {cmp}",
        ),
        "list_eq": (
            "list the name of {T} with {C} {v}",
            "which {T} have {C} {v}",
            "show names of {T} whose {C} is {v}",
        ),
        "top1": (
            "which {S} has the {top} {N}",
            "name the {S} with the {top} {N}",
            "what is the name of the {S} with the {top} {N}",
        ),
        "topk": (
            "name the {k} {T} with the {top} {N}",
            "list the {k} {T} that have the {top} {N}",
            "show names of the {k} {T} with {top} {N}",
        ),
        "group_count": (
            "how many {T} are there for each {C}",
            "number of {T} per {C}",
            "count the {T} by {C}",
        ),
        "group_agg": (
            "{agg} {N} of {T} per {C}",
            "what is the {agg} {N} of {T} for each {C}",
            "show the {agg} {N} by {C} for {T}",
        ),
        "distinct_n": (
            "how many different {C} values do {T} have",
            "count the distinct {C} of {T}",
            "number of unique {C} among {T}",
        ),
        "distinct_l": (
            "list the different {C} of {T}",
            "show all distinct {C} values of {T}",
            "what are the unique {C} of {T}",
        ),
        "join_agg": (
            "what is the {agg} {N} of {T} whose {Q} has {PC} {pv}",
            "{agg} {N} for {T} of {P} with {PC} {pv}",
        ),
        "join_count": (
            "how many {T} have a {Q} with {PC} {pv}",
            "count the {T} of {P} with {PC} {pv}",
        ),
    },
    aggregates={
        "AVG": ("average", "mean", "typical"),
        "MAX": ("highest", "maximum", "largest", "biggest"),
        "MIN": ("lowest", "minimum", "smallest", "least"),
        "SUM": ("total", "combined", "overall", "summed"),
    },
    comparisons=(
        (">", "above {x}"),
        (">", "over {x}"),
        (">", "more than {x}"),
        (">", "greater than {x}"),
        ("<", "below {x}"),
        ("<", "under {x}"),
        ("<", "less than {x}"),
        (">=", "at least {x}"),
        ("<=", "at most {x}"),
    ),
)

TARGET = Phrasing(
    families={
        "agg": ("{agg} {N} across {T}", "report the {agg} {N} across {T}"),
        "agg_eq": (
            "{agg} {N} across {T} marked {v} under {C}",
            "report the {agg} {N} across {T} marked {v} under {C}",
        ),
        "group_agg": ("break {agg} {N} of {T} down by {C}", "{agg} {N} across {T} split by {C}"),
        "join_agg": ("{agg} {N} across {T} tied to {P} marked {pv} under {PC}",),
        "list_cmp": ("pull up {T} with {N} {cmp}", "fetch {T} with {N} {cmp}"),
        "list_eq": ("pull up {T} marked {v} under {C}", "fetch {T} marked {v} under {C}"),
        "count_cmp": ("tally {T} with {N} {cmp}", "headcount of {T} with {N} {cmp}"),
        "count_and": ("tally {T} marked {v} under {C} with {N} {cmp}",),
        "neq": ("tally {T} not marked {v} under {C}",),
        "top1": ("pull up the {S} at the {top} {N}", "fetch the {S} at the {top} {N}"),
        "topk": ("pull up {k} {T} at the {top} {N}", "fetch {k} {T} at the {top} {N}"),
        "top_group": ("main {C} across {T}", "report the main {C} across {T}"),
    },
    aggregates={"AVG": ("usual",), "MAX": ("peak",), "MIN": ("floor",), "SUM": ("aggregate",)},
    comparisons=(
        (">", "exceeding {x}"),
        ("<", "shy of {x}"),
        (">=", "no less than {x}"),
        ("<=", "no more than {x}"),
    ),
)

DIFFICULTY = dict.fromkeys(
    ("agg_eq", "count_and", "group_agg", "group_count", "top1", "topk"), "moderate"
) | dict.fromkeys(("join_agg", "join_count", "top_group"), "challenging")
"""BIRD's difficulty of a question family; the others are ``simple``."""
