"""Schemas that do not fit: an overview first, detail on request, all within the budget."""

import asyncio
import csv

import pytest

from tests.support.agent_databases import ask, make_database
from text2sql.agent.schema.tables import describe
from text2sql.agent.settings import AgentSettings
from text2sql.agent.tools import Tools
from text2sql.common.render import Budget

CHARS = AgentSettings().output_chars
HEADER = ["original_column_name", "column_name", "column_description", "data_format"]


@pytest.fixture
def inspect(tmp_path, sandbox):
    """Inspect tables of a database with such tables and descriptions; None is the overview."""

    def run(script, *wanted, descriptions=None):
        database = make_database(tmp_path / "big" / "big.sqlite", f"BEGIN; {script} COMMIT;")
        folder = database.parent / "database_description"
        folder.mkdir(exist_ok=True)
        for table, rows in (descriptions or {}).items():
            with (folder / f"{table}.csv").open("w", newline="") as file:
                csv.writer(file).writerows([HEADER, *rows])
        tools = Tools(ask(database), sandbox, AgentSettings())

        async def all_():
            return [await tools.call("inspect_schema", {"table": name}) for name in wanted]

        shown = asyncio.run(all_())
        assert max(map(len, shown)) <= CHARS
        return shown

    return run


def table(name, columns, *more):
    return f"CREATE TABLE {name}({', '.join(['id INTEGER PRIMARY KEY', *columns, *more])});"


HUNDREDS = "".join(
    table(f"customer_table_{n}", [f"some_long_name_{n} TEXT", *(f"c{k} REAL" for k in range(15))])
    + f"INSERT INTO customer_table_{n}(id) VALUES (1), (2);"
    for n in range(300)
)


def test_300_tables_are_all_named_with_their_row_counts(inspect):
    overview, detail = inspect(HUNDREDS, None, "customer_table_299")
    assert overview.startswith("customer_table_0 (2), customer_table_1 (2),")
    assert "customer_table_299 (2)" in overview
    assert overview.splitlines()[-1] == (
        "(all 300 tables shown, with row counts; inspect_schema with a table shows its columns)"
    )
    assert "some_long_name_299 TEXT" in detail
    assert "  id: e.g. 1, 2" in detail


def test_2000_tables_say_how_to_find_the_rest(inspect):
    script = "".join(f"CREATE TABLE table_with_a_long_name_{n}(a);" for n in range(2000))
    (overview,) = inspect(script, None)
    assert "of 2000 tables shown, with row counts" in overview
    assert "SELECT name FROM sqlite_master WHERE name LIKE '%word%' finds others" in overview


def test_a_wrong_name_is_answered_with_those_like_it(inspect):
    script = HUNDREDS + "CREATE TABLE fiscal_years(a); CREATE TABLE Invoices_2024(a);"
    found = inspect(script, "invoices", "fiscal_year", "nothing.like it")
    assert found[0].startswith("error: no table named invoices; tables: Invoices_2024, ")
    assert found[1].startswith("error: no table named fiscal_year; tables: fiscal_years, ")
    assert found[2].startswith("error: no table named nothing.like it; tables: ")


def test_types_are_left_out_before_columns(inspect):
    script = "".join(
        table(f"t{n}", [f"a_column_{k} VARCHAR(255)" for k in range(20)]) for n in range(20)
    )
    (overview,) = inspect(script, None)
    assert "t19(id PK, a_column_0, a_column_1," in overview
    assert overview.splitlines()[-1].startswith("(shortened to fit; inspect_schema with a table")


def test_a_wide_table_does_not_cost_the_small_ones_their_columns(inspect):
    wide = [f"measurement_{n} REAL" for n in range(1990)]
    script = table("station", ["name TEXT"]) + table(
        "reading", ["station_id INTEGER REFERENCES station", *wide]
    )
    (overview,) = inspect(script, None)
    assert overview.splitlines()[:2] == [
        "station(id INTEGER PK, name TEXT) 0 rows",
        "reading(id PK, station_id -> station.id, 1990 more columns) 0 rows",
    ]


WIDE = table(
    "wide",
    [f"measurement_number_{n} REAL" for n in range(1997)],
    "summary TEXT",
    "owner INTEGER REFERENCES wide(id)",
)
VALUES = "INSERT INTO wide(id, measurement_number_1500, summary) VALUES (1, 7.5, 'fine');"
NOTES = {"wide": [["measurement_number_1500", "", "pressure at noon", ""]]}


def test_2000_columns_show_keys_first_and_how_to_find_the_rest(inspect):
    (detail,) = inspect(WIDE + VALUES, "wide")
    assert detail.splitlines()[0] == "wide(id PK, owner -> wide.id, 1998 more columns) 1 row"
    assert "id INTEGER PK, owner INTEGER -> wide.id, measurement_number_0 REAL, " in detail
    assert "of 2000 columns shown; inspect_schema with wide.word shows those with" in detail


@pytest.mark.parametrize("word", ["number_1500", "NOON", '"measurement_number_1500"'])
def test_columns_are_found_by_a_word_of_their_name_or_description(inspect, word):
    (detail,) = inspect(WIDE + VALUES, f"wide.{word}", descriptions=NOTES)
    assert detail.splitlines()[1:] == ["  measurement_number_1500 REAL: pressure at noon; e.g. 7.5"]


def test_a_word_that_no_column_has(inspect):
    (text,) = inspect(WIDE, "wide.nothing")
    assert text == "error: no column of wide has 'nothing' in it"


def test_a_word_that_all_columns_have_stays_within_the_budget(inspect):
    (text,) = inspect(WIDE, "wide.measurement")
    assert "; columns with 'measurement': 1997" in text
    assert "of 1997 columns shown" in text


def test_a_table_whose_name_has_a_dot_is_that_table(inspect):
    (text,) = inspect('CREATE TABLE "a.b"(c); CREATE TABLE a(b);', "a.b")
    assert text.splitlines()[0] == '"a.b"(c) 0 rows'


def test_long_descriptions_are_cut_so_that_every_column_has_one(inspect):
    columns = [f"c{n}" for n in range(60)]
    notes = {"t": [[name, "", f"what {name} means: " + "words " * 100, ""] for name in columns]}
    (detail,) = inspect(table("t", [f"{c} TEXT" for c in columns]), "t", descriptions=notes)
    assert "  c0: what c0 means: words" in detail
    assert "  c59: what c59 means: words" in detail
    assert detail.splitlines()[-1].startswith("(shortened to fit; inspect_schema with t.word")
    (whole,) = inspect("", "t.c59", descriptions=notes)
    assert len(whole) > 400


def test_every_table_of_a_large_schema_stays_within_the_budget(inspect):
    script = "".join(
        table(f"t{size}", [f"column_with_a_name_{n} VARCHAR(255)" for n in range(size)])
        for size in (1, 30, 60, 90, 120, 150, 300, 600, 1200)
    )
    names = [f"t{size}" for size in (1, 30, 60, 90, 120, 150, 300, 600, 1200)]
    for text in inspect(script, None, *names)[1:]:
        assert "column_with_a_name_0" in text


def test_a_single_turn_prompt_of_a_large_schema_fits(tmp_path, sandbox):
    from text2sql.agent.prompts import schema_budget
    from text2sql.agent.schema.text import render_full

    database = make_database(tmp_path / "big.sqlite", f"BEGIN; {HUNDREDS + WIDE} COMMIT;")
    text = render_full(describe(database, sandbox), schema_budget(AgentSettings()))
    assert len(text) <= 2 * CHARS
    assert "customer_table_299" in text
    for budget in (2 * CHARS, 6_000, 1_000):  # there are no tools to speak of
        text = render_full(describe(database, sandbox), Budget(budget, 50, 200))
        assert "inspect_schema" not in text and "sqlite_master" not in text


def test_views_that_take_long_to_compile_do_not_hold_up_the_schema(inspect, monkeypatch):
    monkeypatch.setattr("text2sql.agent.schema.tables._VIEW_SECONDS", -1.0)
    (overview,) = inspect("CREATE TABLE t (a); CREATE VIEW v AS SELECT a FROM t;", None)
    broken = "v broken: not looked at; the views before it took too long"
    assert sorted(overview.splitlines()) == ["t(a) 0 rows", broken]
