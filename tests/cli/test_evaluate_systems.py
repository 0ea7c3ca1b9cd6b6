"""``text2sql evaluate`` with several prediction files: a table, and every two compared."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tests.support.agent_databases import make_database
from text2sql.cli.main import cli
from text2sql.evaluation.statistics import holm, mcnemar

COUNT = 12
# In a process of its own: when ours closes the file, it would drop its locks.
_LOCKS = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path):
    """Questions whose gold is the number itself, and a folder for systems."""
    make_database(tmp_path / "dbs" / "shop" / "shop.sqlite")
    rows = [
        {"question_id": n, "db_id": "shop", "question": f"{n}?", "SQL": f"SELECT {n}"}
        for n in range(COUNT)
    ]
    (tmp_path / "dev.json").write_text(json.dumps(rows))
    (tmp_path / "systems").mkdir()
    return tmp_path


def write(place, name, right):
    sql = {str(n): f"SELECT {n if n < right else -1}" for n in range(COUNT)}
    path = place / "systems" / name
    path.write_text(json.dumps(sql))
    return path


def evaluate(place, *words):
    files = ["--questions", place / "dev.json", "--databases", place / "dbs", "--no-cache"]
    return CliRunner().invoke(cli, ["evaluate", *map(str, files), *map(str, words)])


def test_systems_are_ranked_and_every_two_compared(place):
    a, b, c = (
        write(place, f"{name}.json", right) for name, right in (("a", 12), ("b", 2), ("c", 3))
    )
    done = evaluate(place, "--predictions", a, b, c, "--json", place / "out.json")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [["a", "100.00%"], ["c", "25.00%"],
                                                         ["b", "16.67%"]]  # fmt: skip
    found = json.loads((place / "out.json").read_text())
    assert found["systems"]["b"]["execution_accuracy"] == pytest.approx(2 / 12)
    assert [v["verdict"] for v in found["systems"]["b"]["verdicts"]].count("match") == 2
    pairs = {(one["first"], one["second"]): one for one in found["pairs"]}
    assert set(pairs) == {("a", "b"), ("a", "c"), ("b", "c")}
    ab = pairs["a", "b"]
    assert (ab["won"], ab["lost"], ab["n"]) == (0, 10, 12)
    assert ab["p"] == mcnemar(0, 10) and ab["p_holm"] == pytest.approx(3 * mcnemar(0, 10))
    assert pairs["b", "c"]["p_holm"] == 1
    folder = evaluate(place, "--predictions", place / "systems", "--json", "-")
    assert json.loads(folder.stdout)["pairs"] == found["pairs"]


def test_what_cannot_be_paired_is_said_of_each_system(place):
    write(place, "a.json", 12)
    (place / "systems" / "b.json").write_text(json.dumps({"0": "SELECT x", "99": "SELECT 1"}))
    done = evaluate(place, "--predictions", place / "systems", "--json", place / "o.json")
    assert "missing: 11 questions have no prediction (b)" in done.stderr
    assert "unknown: 1 prediction matches no question (b)" in done.stderr
    assert "note: 1 prediction fails (b); the first is dev/0: no such column: x" in done.stderr
    found = json.loads((place / "o.json").read_text())["systems"]["b"]
    assert (found["without_prediction"], found["unknown_predictions"]) == (11, 1)


def test_lists_of_predictions_are_for_a_vote(place):
    file = place / "systems" / "a.json"
    file.write_text(json.dumps({str(n): ["SELECT 1", "SELECT 2"] for n in range(COUNT)}))
    assert "with text2sql vote" in str(evaluate(place, "--predictions", file).exception)


def test_one_file_is_scored_as_ever(place):
    only = write(place, "a.json", 6)
    for words in ((only,), (place / "systems",)):
        done = evaluate(place, "--predictions", *words)
        assert done.stdout.startswith("execution accuracy 50.00% of 12 (official; ")


@pytest.mark.parametrize(
    "words, status, sentence",
    [
        (["{a}", "{a}"], 1, "a.json is given twice"),
        (["{empty}"], 1, "has no prediction files: their names end with .json"),
        (["{a}", "{b}", "--efficiency", "1"], 2, "are for one prediction file"),
        (["{a}", "{missing}"], 1, "missing.json"),
    ],
)
def test_what_cannot_be_compared_is_named(place, words, status, sentence):
    (place / "empty").mkdir()
    names = {"a": write(place, "a.json", 1), "b": write(place, "b.json", 2)}
    names |= {"empty": place / "empty", "missing": place / "missing.json"}
    done = evaluate(place, "--predictions", *(word.format(**names) for word in words))
    assert done.exit_code == status or done.exception.exit_code == status
    assert sentence in done.output + str(done.exception)


@pytest.fixture
def by_rules(place):
    """Two systems by all rules: the second repeats each row, which only sets forgive."""
    write(place, "a.json", 12)
    twice = {str(n): f"SELECT {n} UNION ALL SELECT {n}" for n in range(COUNT)}
    (place / "systems" / "b.json").write_text(json.dumps(twice))
    out = place / "out.json"
    done = evaluate(place, "--predictions", place / "systems", "--all-rules", "--json", out)
    assert "the same by multiset, ordered, soft_f1" in done.stdout
    assert any(one.split()[:3] == ["b", "0.00%", "0.00%"] for one in done.stdout.splitlines())
    return out


def compare(*words):
    return CliRunner().invoke(cli, ["compare", *map(str, words)])


def test_an_edited_value_of_a_rule_is_named(by_rules):
    found = json.loads(by_rules.read_text())
    found["systems"]["a"]["verdicts"][0]["rules"]["multiset"] = "x"
    by_rules.write_text(json.dumps(found))
    done = compare(f"{by_rules}:a", f"{by_rules}:b", "--rule", "multiset")
    assert "a value by the rule multiset is invalid" in str(done.exception)


def test_where_nothing_could_be_judged_no_rule_has_a_table(place, monkeypatch):
    monkeypatch.setenv("TEXT2SQL_LOCK_SECONDS", "0.05")
    sql = "SELECT id FROM city"  # one that reads the locked file
    rows = [{"question_id": 0, "db_id": "shop", "question": "?", "SQL": sql}]
    (place / "dev.json").write_text(json.dumps(rows))
    one, two = (place / "systems" / name for name in ("a.json", "b.json"))
    for path in (one, two):
        path.write_text(json.dumps({"0": sql}))
    locker = [sys.executable, "-c", _LOCKS, str(place / "dbs" / "shop" / "shop.sqlite")]
    with subprocess.Popen(locker, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        done = evaluate(place, "--predictions", one, two, "--all-rules")
        other.communicate()
    assert done.exception.exit_code == 6 and "the first: " in str(done.exception)
    assert "execution accuracy (official" in done.stdout and "the same by" not in done.stdout


def test_a_system_may_have_a_colon_in_its_name(place):
    one, two = write(place, "a:1.json", 12), write(place, "b.json", 3)
    out = place / "out.json"
    evaluate(place, "--predictions", one, two, "--json", out)
    assert "A 100.0 %, B 25.0 %" in compare(f"{out}:a:1", f"{out}:b").stdout


def test_any_rule_can_be_compared(by_rules):
    verdicts = json.loads(by_rules.read_text())["systems"]["b"]["verdicts"]
    assert verdicts[3]["rules"] | {"soft_f1": 0} == {
        "official": 1.0, "multiset": 0.0, "ordered": 0.0, "soft_f1": 0,
    }  # fmt: skip
    official = compare(f"{by_rules}:a", f"{by_rules}:b")
    assert "execution accuracy: A 100.0 %, B 100.0 %, n = 12" in official.stdout
    multiset = compare(f"{by_rules}:a", f"{by_rules}:b", "--rule", "multiset")
    assert "multiset: A 100.0 %, B 0.0 %, n = 12" in multiset.stdout


def test_a_system_or_rule_that_a_file_lacks_is_named(by_rules, place):
    one = place / "one.json"
    evaluate(place, "--predictions", write(place, "a.json", 12), "--json", one)
    for words, sentence in (
        ((by_rules, one), f"has several systems: name one of a, b, as in {by_rules}:a."),
        ((f"{by_rules}:c", one), "has no system 'c'"),
        ((f"{one}:a", one), "has one system: leave out ':a'."),
        ((one, one, "--rule", "ordered"), "evaluate again with --all-rules"),
        (("r1", "r2", "--rule", "ordered"), "and r1 is none"),
        ((f"{place}/none.json:a", one), f"There is no file {place}/none.json."),
    ):
        assert sentence in str(compare(*words).exception)


def test_gold_that_leaves_its_answer_open_is_listed(place):
    golds = [
        "SELECT n FROM (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3) LIMIT 1",
        "SELECT nothing", "SELECT 1 WHERE 0", "SELECT 4",
    ]  # fmt: skip
    rows = [
        {"question_id": n, "db_id": "shop", "question": f"{n}?", "SQL": sql}
        for n, sql in enumerate(golds)
    ]
    (place / "dev.json").write_text(json.dumps(rows))
    files = ["--questions", place / "dev.json", "--databases", place / "dbs"]
    listed = CliRunner().invoke(cli, ["gold", "flags", *map(str, files)])
    found = [line.split()[:2] for line in listed.stdout.splitlines()[:-1]]
    assert found == [["dev/0", "limit_without_order"], ["dev/1", "gold_fails"],
                     ["dev/2", "gold_empty"]]  # fmt: skip
    assert listed.stdout.splitlines()[-1] == "3 of 4 gold queries flagged"
    as_json = CliRunner().invoke(cli, ["gold", "flags", *map(str, files), "--json"])
    assert [json.loads(line)["key"] for line in as_json.stdout.splitlines()] == [
        "dev/0", "dev/1", "dev/2",
    ]  # fmt: skip

    predictions = write(place, "a.json", 12)
    done = evaluate(place, "--predictions", predictions, "--gold-flags", "--json", "-")
    assert "1 gold query has a flag (limit_without_order 1); text2sql gold flags" in done.stderr
    verdicts = json.loads(done.stdout)["verdicts"]
    assert [one.get("gold_flags") for one in verdicts] == [
        ["limit_without_order"],
        None,
        None,
        None,
    ]


def test_p_values_are_adjusted_as_holm_says():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0] and holm([]) == []
