"""Tool calls written as text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text2sql.policy.calls import parse_calls

NAMES = ("inspect_schema", "sample_rows", "run_sql", "submit")


def written(name, **arguments):
    parameters = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in arguments.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def read(text):
    found, rest = parse_calls(text, NAMES)
    return [(call.name, json.loads(call.arguments)) for call in found], rest


def test_one_call():
    assert read(written("run_sql", sql="SELECT 1")) == ([("run_sql", {"sql": "SELECT 1"})], "")


def test_several_calls_keep_their_order_and_the_text_between():
    text = f"First.\n{written('run_sql', sql='SELECT 1')}\n{written('submit', sql='SELECT 2')} End."
    found, rest = read(text)
    assert found == [("run_sql", {"sql": "SELECT 1"}), ("submit", {"sql": "SELECT 2"})]
    assert rest.split() == ["First.", "End."]
    identifiers = [call.id for call in parse_calls(text, NAMES)[0]]
    assert len(set(identifiers)) == 2


def test_the_opening_tag_is_missing():
    text = "I'll count.\n\n" + written("run_sql", sql="SELECT 1").removeprefix("<tool_call>\n")
    assert read(text) == ([("run_sql", {"sql": "SELECT 1"})], "I'll count.")


@pytest.mark.parametrize(
    "text",
    [
        "Use <function=foo> in your code.",
        'The literal token "<tool_call>" means a call.',
        "Nothing at all.",
        "",
        '<tool_call>\n{"name": "run_sql", "arguments"',
        "<think>\nshould I <function=run_sql>",
        "<think>a</think>\n<think>\n" + written("submit", sql="DRAFT"),
        "Then I write <function=run_sql> and the query.",
        "The tag `<function=run_sql>` with `<parameter=sql>` is how.",
        "Use <function=run_sql>...</function> for that.",
        '{"name": "execute_sql", "arguments": {"sql": "SELECT 1"}}',
        '{"name": "submit", "sql": "SELECT 1"}',
        '<think>\n{"name": "run_sql", "arguments": {"sql": "SELECT 1"}}',
        "<tool_call>[1, 2]</tool_call>",
        "<tool_call>" + "{" * 5000,
        "<tool_call>" + "[" * 100_000,
    ],
)
def test_text_that_holds_no_call_comes_back_unchanged(text):
    assert parse_calls(text, NAMES) == ([], text)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT '</parameter>' AS x, '<parameter=y>' AS z",
        "SELECT '</function>', '</tool_call>'",
        "SELECT '<tool_call>' || '<function=submit>'",
        "SELECT '</think>'",
        "SELECT '\n</function>\n'",
        "SELECT '</parameter' AS x",
        "SELECT '</parameter>\n</parameter>' -- </parameter>",
        "SELECT '```', '<|im_end|>', '\n</tool_call>\n'",
        "SELECT '\n<parameter' WHERE 1 < 2 AND 3 > 2 AND '&lt;' <> '<'",
        "SELECT a\n\nFROM t  -- two\n",
        "  SELECT 1  ",
    ],
)
def test_markers_within_sql_are_part_of_it(sql):
    assert read(written("run_sql", sql=sql)) == ([("run_sql", {"sql": sql})], "")


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>\n<function=run_sql>\n<parameter=sql>\nSELECT 1\n</function>\n</tool_call>",
        "<tool_call>\n<function=run_sql>\n<parameter=sql>\nSELECT 1\n</parameter>\n</tool_call>",
        "<tool_call>\n<function=run_sql>\n<parameter=sql>\nSELECT 1\n</parameter>\n</function>",
        "<tool_call>\n<function=run_sql>\n<parameter=sql>\nSELECT 1\n</tool_call>",
        "<tool_call><function=run_sql><parameter=sql>SELECT 1</parameter></function></tool_call>",
        '<tool_call><function="run_sql" ><parameter="sql" >SELECT 1</parameter></function>',
        "<tool_call>\r\n<function=run_sql>\r\n<parameter=sql>\r\nSELECT 1\r\n</parameter>\r\n"
        "</function>\r\n</tool_call>",
        '<tool_call>\n{"name": "run_sql", "arguments": {"sql": "SELECT 1"}}\n</tool_call>',
        '<function=run_sql>{"sql": "SELECT 1"}</function>',
        '<tool_call>\n<function=run_sql>\n{"sql": "SELECT 1"}\n</function>\n</tool_call>',
        '<function=run_sql>{"sql": "SELECT 1"}',
        '<tool_call>{"name": "run_sql", "parameters": {"sql": "SELECT 1"}}</tool_call>',
        '<tool_call>{"name": "run_sql", "arguments": "{\\"sql\\": \\"SELECT 1\\"}"}</tool_call>',
    ],
)
def test_missing_tags_and_the_other_dialect(text):
    assert read(text) == ([("run_sql", {"sql": "SELECT 1"})], "")


IN_TAG = "<tool_call>\n{}\n</tool_call>"
JSON_CALL = '{"name": "run_sql", "arguments": {"sql": "SELECT 1"}}'


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>\n<function=run_sql\n<parameter=sql\nSELECT 1\n</parameter>\n</function>",
        '<function name="run_sql">\n<parameter name="sql">\nSELECT 1\n</parameter>\n</function>',
        "<function= run_sql >\n<parameter= sql >\nSELECT 1\n</parameter>\n</function>",
        written("run_sql", sql="SELECT 1").replace("</function>", "</function>\n</function>"),
        written("run_sql", sql="SELECT 1").replace("</tool_call>", "</function_invocation>"),
        written("run_sql", sql="SELECT 1").replace("</tool_call>", "<|im_end|>"),
        written("run_sql", sql="SELECT 1") + "\n</tool_call><|im_end|>",
        *(
            written("run_sql", sql="SELECT 1").replace("</parameter>", end)
            for end in ("</parameter/>", "</parameter=sql>", "</parameter1>", "</parameter")
        ),
        written("run_sql", sql="SELECT 1").replace("</parameter>", "</parameter>\n</parameter>"),
        written("run_sql", sql="SELECT 1").replace("</function>", "</function=run_sql>"),
        IN_TAG.format(f"```json\n{JSON_CALL}\n```"),
        IN_TAG.format(f"{{{JSON_CALL}}}"),
        IN_TAG.format(f"{JSON_CALL}}}"),
        IN_TAG.format(JSON_CALL[:-1]),
        IN_TAG.format(f"[{JSON_CALL}]"),
        IN_TAG.format(f'{{"type": "function", "function": {JSON_CALL}}}'),
        JSON_CALL,
        f"```json\n{JSON_CALL}\n```",
    ],
)
def test_drifted_forms_are_read(text):
    assert read(text) == ([("run_sql", {"sql": "SELECT 1"})], "")


def test_several_calls_in_one_tag():
    expected = [("run_sql", {"sql": "SELECT 1"}), ("submit", {"sql": "SELECT 2"})]
    second = '{"name": "submit", "arguments": {"sql": "SELECT 2"}}'
    for body in (f"{JSON_CALL}\n{second}", f"{JSON_CALL}; {second}", f"[{JSON_CALL}, {second}]"):
        assert read(IN_TAG.format(body)) == (expected, "")
        assert read(body) == read(f"```json\n{body}\n```") == (expected, "")
        assert read(f"<think>\n{body}\n</think>\n{body}")[0] == expected
        assert read(f"I call {body}")[0] == read(f"{body} now")[0] == []
    inner = [written(*call[:1], **call[1]).split("\n", 1)[1] for call in expected]
    text = "<tool_call>\n" + inner[0].removesuffix("</tool_call>") + inner[1]
    assert read(text) == (expected, "")


@pytest.mark.parametrize("arguments", ["null", "{}", '""', '"{}"'])
def test_no_arguments_in_json(arguments):
    text = IN_TAG.format(f'{{"name": "inspect_schema", "arguments": {arguments}}}')
    assert read(text) == ([("inspect_schema", {})], "")


def test_a_missing_close_does_not_swallow_the_next_call():
    text = "<tool_call>\n<function=run_sql>\n<parameter=sql>\nSELECT 1\n"
    found, _ = read(text + written("submit", sql="SELECT 2"))
    assert found == [("run_sql", {"sql": "SELECT 1"}), ("submit", {"sql": "SELECT 2"})]


def test_a_call_that_was_cut_keeps_its_raw_text():
    text = "<tool_call>\n<function=run_sql>\n<parameter=sql>\nDELETE FROM t WHERE"
    (call,), _ = parse_calls(text, NAMES)
    assert call.name == "run_sql"
    with pytest.raises(ValueError):
        json.loads(call.arguments)


@pytest.mark.parametrize("body", ['{"sql": "SELECT', '[{"sql": 1}]', '"SELECT 1"', "{sql: 1}"])
def test_only_a_json_object_is_taken_as_arguments(body):
    (call,), _ = parse_calls(f"<function=run_sql>{body}</function>", NAMES)
    assert json.loads(call.arguments) == {}


def test_a_model_that_repeats_an_opening_tag_is_read_to_its_end():
    calls, _ = parse_calls("<tool_call>\n<function=run_sql>\n" * 3000, NAMES)
    assert len(calls) == 3000


def test_values_stay_strings_and_unknown_tools_are_calls_within_the_tag():
    found, _ = read(written("sample_rows", table="03106", limit="1e9"))
    assert found == [("sample_rows", {"table": "03106", "limit": "1e9"})]
    assert read(written("execute_sql", query="x"))[0] == [("execute_sql", {"query": "x"})]
    assert read(written("inspect_schema"))[0] == [("inspect_schema", {})]


def test_nothing_in_thinking_is_a_call():
    drafted = "<think>\n" + written("submit", sql="DRAFT") + "\n</think>\n\n"
    found, rest = read(drafted + written("submit", sql="SELECT 1"))
    assert found == [("submit", {"sql": "SELECT 1"})]
    assert "DRAFT" in rest
    again = f"{drafted}Hm.\n{drafted}"
    found, rest = read(again + written("submit", sql="SELECT '\n<think>\n'"))
    assert found == [("submit", {"sql": "SELECT '\n<think>\n'"})]
    assert rest.count("DRAFT") == 2


@given(st.text(max_size=60))
def test_any_text_is_read_without_failing(text):
    parse_calls(f"<tool_call>\n<function=run_sql>\n{text}", NAMES)
    parse_calls(text, NAMES)


@given(st.text(st.characters(exclude_characters="<\r", codec="utf-8"), max_size=60))
def test_any_value_survives(value):
    assert read(written("run_sql", sql=value)) == ([("run_sql", {"sql": value})], "")
