"""Lists of questions as YAML files, and what a question may be."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from text2sql.errors import Text2SqlError
from text2sql.reporting.model.question import Expectations, ReportQuestion, find_database
from text2sql.reporting.model.values import result_table
from text2sql.reporting.tables.question_file import read_questions, write_questions


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "questions.yaml"
    path.write_text(text)
    return path


def ask(**fields) -> ReportQuestion:
    return ReportQuestion("q", "How many shops?", "shop", **fields)


def test_questions_are_read_from_yaml(tmp_path):
    text = """
- id: 17
  question: How many shops?
  database: shop
  evidence:
  minimum_share: 1
- {id: b, question: q, database: d, votes: 3, timezone: Asia/Tokyo, group: weekly}
"""
    first, second = read_questions(write(tmp_path, text))
    assert first == ReportQuestion("17", "How many shops?", "shop", minimum_share=1.0)
    assert (second.votes, second.timezone, second.group) == (3, "Asia/Tokyo", "weekly")


FULL = """
questions:
- id: revenue
  question: "Net revenue: 'all' shops? 100% & <b>"
  database: /data/shop.sqlite
  evidence: |
    net is without tax
    stores are shops
  votes: 16
  minimum_share: 0.75
  timezone: Europe/Berlin
  group: weekdays
  owner: finance@example.org
  verified_sql: SELECT sum(net) AS net FROM sale
  expectations: {columns: [net], least_rows: 1, most_rows: 1, not_empty: true}
  enabled: false
"""


def test_every_field_survives_a_file(tmp_path):
    questions = read_questions(write(tmp_path, FULL))
    assert questions[0].expectations == Expectations(("net",), 1, 1, True)
    assert questions[0].owner == "finance@example.org"
    assert not questions[0].enabled
    again = write(tmp_path, write_questions([*questions, ask()]))
    assert read_questions(again) == [*questions, ask()]
    assert again.read_text().splitlines()[-3:] == [
        "- id: q",
        "  question: How many shops?",
        "  database: shop",
    ]


WHOLE = "- {id: a, question: q, database: d"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- id: a\n  question: q\n", r"yaml:1: the field 'database' is missing"),
        (f"\n{WHOLE}, vote: 3}}", r"yaml:2: unknown field 'vote'"),
        (
            "- id: a\n  question: q\n  database: d\n  votes: many",
            r"yaml:4: .*votes must be a whole",
        ),
        (f"{WHOLE}, votes: true}}", "votes must be a whole number from 1 to 128, not True"),
        (f"{WHOLE}, votes: 0}}", "votes must be a whole number from 1 to 128, not 0"),
        (f"{WHOLE}, minimum_share: 80}}", "minimum_share must be a number from 0 to 1, not 80"),
        (f"{WHOLE}, minimum_share: .nan}}", "minimum_share must be a number from 0 to 1"),
        (f"{WHOLE}, timezone: Mars/X}}", "timezone must be the name of a time zone"),
        (f"{WHOLE}, timezone: ../../etc/passwd}}", "timezone must be the name of a time zone"),
        (f"{WHOLE}, timezone: 2}}", "timezone must be the name of a time zone"),
        (f"{WHOLE}, enabled: 'no'}}", "enabled must be true or false, not 'no'"),
        (
            f"{WHOLE}, group: ' '}}",
            "group must be daily, weekdays, weekly, monthly, or any other name",
        ),
        (f"{WHOLE}, group: weeekly}}", "names no other interval, not 'weeekly'"),
        (f"{WHOLE}, group: Quarterly}}", "names no other interval, not 'Quarterly'"),
        (f"{WHOLE}, owner: [me]}}", "owner must be text"),
        (f"{WHOLE}, verified_sql: ''}}", "verified_sql must be one SQL query"),
        ("- {id: 'a b', question: q, database: d}", "id must be 1 to 100 letters"),
        ("- {id: 2026-01-01, question: q, database: d}", "id must be 1 to 100 letters"),
        ("- {id: a, question: no, database: d}", "question must be text that is not empty, not Fa"),
        (f"{WHOLE}}}\n- {{id: a, question: r, database: d}}", "yaml:2: .*also at line 1"),
        (f"{WHOLE}, votes: 3, votes: 5}}", "the field 'votes' is given twice"),
        (f"{WHOLE},\n evidence: 2026-13-45}}", r"yaml:2: the field 'evidence': month must be"),
        (f"{WHOLE}, evidence: !!python/name:os.system x}}", r"yaml:1: not YAML: could not deter"),
        (f"{WHOLE}, expectations: 3}}", "expectations must be a mapping"),
        (f"{WHOLE}, expectations: {{rows: 3}}}}", "expectations has no field 'rows'"),
        (f"{WHOLE}, expectations: {{most_rows: -1}}}}", "most_rows must be a whole number from 0"),
        (f"{WHOLE}, expectations: {{columns: net}}}}", "columns must be a list of column names"),
        (f"{WHOLE}, expectations: {{not_empty: 1}}}}", "not_empty must be true or false, not 1"),
        (f"{WHOLE}, expectations: {{least_rows: 3, most_rows: 2}}}}", "is above most_rows"),
        ("- just text", "yaml:1: each question is a mapping"),
        ("questions: 3", "must be a YAML or JSON list"),
        ("", "must be a YAML or JSON list"),
        ("- id: a\n- {id: a", r"yaml:3: not YAML|yaml:2: not YAML"),
        ("- id: a\n\tquestion: q", r"yaml:2: not YAML"),
        ("[a]: b\n", "must be a YAML or JSON list"),
        ("[" * 5000, "cannot be read: maximum recursion depth"),
    ],
)
def test_a_malformed_file_is_named_with_its_line(tmp_path, text, message):
    with pytest.raises(Text2SqlError, match=message) as caught:
        read_questions(write(tmp_path, text))
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_id_of_digits_stays_as_it_is_written(tmp_path):
    text = "".join(f"- {{id: {id}, question: q, database: d}}\n" for id in ("007", "1_0", "17"))
    assert [one.id for one in read_questions(write(tmp_path, text))] == ["007", "1_0", "17"]


def test_characters_that_no_database_holds_are_replaced(tmp_path):
    text = (
        r'- {id: a, question: "x\ud800", database: d, evidence: "\0",'
        r' expectations: {columns: ["a\0", "\ud800"]}}'
    )
    found = read_questions(write(tmp_path, text))[0]
    assert (found.question, found.evidence) == ("x\ufffd", "\u2400")
    assert found.expectations.columns == ("a\u2400", "\ufffd")


def test_a_binary_file_is_named(tmp_path):
    (tmp_path / "q.yaml").write_bytes(b"\xff\xfe\x00")
    for name in ("q.yaml", "nowhere.yaml", "."):
        with pytest.raises(Text2SqlError, match="cannot be read"):
            read_questions(tmp_path / name)


def test_a_database_is_found_by_name(tmp_path):
    (tmp_path / "shop").mkdir()
    file = tmp_path / "shop" / "shop.sqlite"
    file.touch()
    assert find_database("shop", [tmp_path / "other", tmp_path]) == file
    assert find_database(str(file), [tmp_path]) == file
    with pytest.raises(Text2SqlError, match=r"No database 'nowhere' below"):
        find_database("nowhere", [tmp_path])


# -- when a question is due


@pytest.mark.parametrize(
    "group", ["finance", "family", "board", "week 1 review", "ops-emea", "Weekly "]
)
def test_other_groups_keep_their_names(group):
    assert ask(group=group).group == group


def test_a_group_is_due_on_its_days():
    week = [date(2026, 6, day) for day in range(1, 8)]  # the first is a Monday

    def due(group):
        return [day.day for day in week if ask(group=group).due_on(day)]

    assert due("daily") == due("finance") == [1, 2, 3, 4, 5, 6, 7]
    assert due("Weekdays") == due("weekdays") == [1, 2, 3, 4, 5]
    assert due("weekly") == due("monthly") == [1]


@pytest.mark.parametrize(
    "zone",
    ["UTC", "Europe/Berlin", "Africa/Cairo", "America/Havana", "Asia/Beirut", "Pacific/Apia"],
)
def test_every_day_of_a_year_has_an_instant_of_its_own(zone):
    """Clocks change at midnight in Cairo, Havana and Beirut: a day begins at 1, or twice at 0."""
    first = date(2026, 1, 1)
    instants = [ask(timezone=zone).scheduled_at(first + timedelta(n)) for n in range(365)]
    assert all(at.tzinfo is UTC for at in instants)
    hours = {(after - before) / timedelta(hours=1) for before, after in pairwise(instants)}
    assert hours <= {23, 24, 25}


def test_a_day_begins_when_the_clock_jumps_over_midnight():
    at = ask(timezone="Africa/Cairo").scheduled_at(date(2026, 4, 24))
    assert at == datetime(2026, 4, 23, 22, tzinfo=UTC)


# -- what is expected of an answer


def broken(expectations, labels=("n",), rows=((1,),), total=None) -> list[str]:
    rows = list(rows)
    return expectations.broken_by(result_table(labels, rows, total or len(rows)))


def test_broken_expectations_are_listed():
    fine = Expectations(("COUNT(*)",), 1, 5, True)
    assert broken(fine, ["count(*)"], [(1,)]) == []
    assert broken(fine, ["n"], [(1,)]) == ["its columns are n, expected count"]
    assert broken(fine, ["count"], [(1,)], 6) == ["it has 6 rows, expected at most 5"]
    assert broken(fine, ["count"], [(None,)]) == ["it has no value, expected at least one"]
    assert broken(fine, ["count"], [(None,)], 2) == [], "a row that is not kept may have one"
    assert len(broken(Expectations(("a", "b"), 2), ["b", "a"], [(1, 2)])) == 2
    assert not Expectations()
    assert Expectations().to_dict() == {}
    assert Expectations(not_empty=True).to_dict() == {"not_empty": True}
