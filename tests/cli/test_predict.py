"""``text2sql predict``: a policy behind a real server answers a file of questions."""

import json
import signal
import sqlite3

import pytest
from click.testing import CliRunner

from tests.support.agent_databases import make_database
from tests.support.scripted_server import ScriptedServer, calls, fails, says, submits
from text2sql.cli.main import cli

CITIES = "SELECT name FROM city"
COUNT = "SELECT COUNT(*) FROM city"


@pytest.fixture
def place(tmp_path):
    """A folder with two questions that have no gold, and their database."""
    (tmp_path / "dbs" / "shop").mkdir(parents=True)
    make_database(tmp_path / "dbs" / "shop" / "shop.sqlite")
    asked = ("Which cities?", "How many cities?")
    write(tmp_path, [row(n, question) for n, question in enumerate(asked, 40)])
    return tmp_path


def row(number, question, **more):
    return {"question_id": number, "db_id": "shop", "question": question, **more}


def write(place, rows):
    (place / "dev.json").write_text(json.dumps(rows))


def by_question(body):
    """Submit the right query, in a fence as models do."""
    text = json.dumps(body["messages"])
    return submits(f"```sql\n{COUNT if 'How many' in text else CITIES}\n```")


def predict(place, script, *more):
    """Call ``predict`` with a server that replays a script; returns the result and the server."""
    files = ["--questions", place / "dev.json", "--databases", place / "dbs"]
    words = [*files, "--out", place / "out" / "predict_dev.json", *more]
    with ScriptedServer(script) as server:
        words += ["--policy", server.url]
        result = CliRunner().invoke(cli, ["predict", *map(str, words)])
    return result, server


def predicted(place):
    return json.loads((place / "out" / "predict_dev.json").read_text())


def entry(sql):
    return f"{sql}\t----- bird -----\tshop"


def test_greedy_predictions_need_no_gold_and_can_be_scored(place):
    result, server = predict(place, by_question, "--out", place / "out" / "predict.sql")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("2 of 2 questions answered by one greedy rollout each\n")
    assert predicted(place) == {"0": entry(CITIES), "1": entry(COUNT)}
    assert (place / "out" / "predict.sql").read_text() == f"{CITIES}\n{COUNT}\n"
    assert {request["temperature"] for request in server.requests} == {0}

    gold = [row(40, "Which cities?", SQL=CITIES), row(41, "How many cities?", SQL="SELECT 0")]
    write(place, gold)
    files = ["--questions", place / "dev.json", "--databases", place / "dbs", "--predictions"]
    words = ["evaluate", *files, place / "out" / "predict_dev.json", "--no-cache", "--json", "-"]
    scored = CliRunner().invoke(cli, list(map(str, words)))
    assert json.loads(scored.stdout)["execution_accuracy"] == 0.5


def test_votes_are_reported_and_more_votes_only_draw_the_missing_rollouts(place):
    write(place, [row(1, "Which cities?")])
    replies = [
        submits(COUNT),
        submits(CITIES),
        submits(CITIES),
        submits("SELECT name FROM nowhere"),
    ]
    result, server = predict(place, replies, "--votes", 4, "--json", "-", "--concurrency", 1)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["predictions"] == [
        {
            "question_id": 1,
            "sql": CITIES,
            "rollouts": {"ok": 3, "error": 1},
            "votes": 2,
            "share": 0.5,
            "tie": False,
        }
    ]
    assert {request["temperature"] for request in server.requests} == {1.0}

    result, server = predict(place, by_question, "--votes", 6, "--json", place / "votes.json")
    assert result.exit_code == 0, result.output
    assert len(server.requests) == 2
    assert json.loads((place / "votes.json").read_text())["predictions"][0]["votes"] == 4
    assert "share of the votes: 67% on average; 0 ties" in result.stdout
    assert "resuming: 4 rollouts of 6 already stored\n" in result.stderr

    result, server = predict(place, by_question, "--votes", 2, "--temperature", 0.7)
    assert [request["temperature"] for request in server.requests] == [0.7, 0.7]
    assert "kept" not in result.stderr


def test_a_vote_without_results_is_reported(place):
    write(place, [row(1, "Which cities?")])
    result, _ = predict(place, lambda body: submits(f"{CITIES} WHERE 0"), "--votes", 2)
    assert "the first is dev/1 (rollouts: 2 without rows)" in result.stderr


def test_ctrl_c_says_how_to_resume(place):
    def interrupts(body):
        signal.raise_signal(signal.SIGINT)
        return submits(CITIES)

    write(place, [row(1, "Which cities?")])
    result, _ = predict(place, interrupts)
    assert result.exit_code != 0
    assert "interrupted: the same command resumes from " in result.stderr


def test_a_question_that_the_server_refuses_costs_no_other_its_answer(place):
    def half(body):
        right = "How many" not in json.dumps(body["messages"])
        return submits(CITIES) if right else fails(400, "content_filter")

    result, _ = predict(place, half, "--json", place / "found.json", "--concurrency", 1)
    sentence = str(result.exception)
    assert sentence.startswith("1 rollout of 1 question could not be asked (dev/41): ")
    assert "content_filter" in sentence and "run the same command again" in sentence
    assert result.exception.exit_code == 6
    assert predicted(place) == {"0": entry(CITIES), "1": entry("")}
    found = json.loads((place / "found.json").read_text())
    assert found["missing"] == 1 and found["predictions"][1]["missing"] == 1
    assert "content_filter" in found["predictions"][1]["error"]

    result, server = predict(place, by_question)
    assert result.exit_code == 0, result.output
    assert len(server.requests) == 1
    assert predicted(place) == {"0": entry(CITIES), "1": entry(COUNT)}


def test_a_vote_names_the_rollouts_that_it_lost(place):
    write(place, [row(1, "Which cities?")])
    replies = iter([submits(CITIES), submits(CITIES)])
    result, _ = predict(
        place, lambda body: next(replies, fails(500, "down")), "--votes", 3, "--concurrency", 1,
        "--json", place / "votes.json",
    )  # fmt: skip
    found = json.loads((place / "votes.json").read_text())["predictions"][0]
    assert result.exception.exit_code == 6
    assert (found["votes"], found["missing"]) == (2, 1)
    assert found["share"] == pytest.approx(2 / 3)


def test_without_a_single_reply_nothing_is_written(place):
    result, _ = predict(place, lambda body: fails(400, "odd"))
    assert "failed 3 times, one of dev/4" in str(result.exception)
    assert result.exception.exit_code == 6
    assert not (place / "out" / "predict_dev.json").exists()


def test_weights_that_a_server_does_not_name_are_drawn_anew_on_request(place):
    write(place, [row(1, "Which cities?")])
    files = ["--questions", place / "dev.json", "--databases", place / "dbs"]
    files += ["--out", place / "out" / "predict_dev.json"]

    def run(server, *more):
        words = [*files, "--policy", server.url, *more]
        result = CliRunner().invoke(cli, ["predict", *map(str, words)])
        assert result.exit_code == 0, result.output
        return result.stderr

    with ScriptedServer([submits(CITIES), submits(COUNT)], roots=False) as server:
        assert "does not say which weights" not in run(server)
        assert "does not say which weights it serves as scripted" in run(server)
        assert predicted(place) == {"0": entry(CITIES)}
        run(server, "--again")
        assert predicted(place) == {"0": entry(COUNT)}
    assert len(list((place / "out" / "rollouts").glob("*.jsonl"))) == 2


def test_rollouts_of_another_database_or_setting_are_not_mixed_in(place):
    predict(place, by_question)
    with sqlite3.connect(place / "dbs" / "shop" / "shop.sqlite") as database:
        database.execute("CREATE TABLE added (id)")
    _, server = predict(place, by_question)
    assert len(server.requests) == 2
    _, server = predict(place, by_question)
    assert server.requests == []
    result, server = predict(place, [says(f"```sql\n{CITIES}\n```")] * 2, "--single-turn")
    assert result.exit_code == 0, result.output
    assert [request.get("tools") for request in server.requests] == [None, None]
    assert predicted(place)["1"] == entry(CITIES)


def test_every_row_has_an_entry_and_missing_answers_are_reported(place):
    rows = [row(1, "Which cities?"), row(1, "Which cities?"), row(2, "What else?", db_id="none")]
    write(place, [*rows, row(3, "How many?")])
    script = {"Which": submits(CITIES), "How many": says("I do not know.")}

    def scripted(body):
        text = json.dumps(body["messages"])
        return next(step for words, step in script.items() if words in text)

    result, _ = predict(place, scripted)
    assert result.exit_code == 0, result.output
    assert predicted(place) == {
        "0": entry(CITIES),
        "1": entry(CITIES),
        "2": "\t----- bird -----\tnone",
        "3": entry(""),
    }
    assert "left out: 1 question (db_missing" in result.stderr
    assert (
        "warning: 1 question has no SQL and will not match; the first is dev/3 "
        "(rollouts: 1 no_action)" in result.stderr
    )
    assert "1 of 2 questions answered" in result.stdout


def test_a_greedy_rollout_that_attempted_a_write_is_reported(place):
    write(place, [row(1, "Which cities?")])
    script = [calls(("run_sql", {"sql": "DROP TABLE city"})), submits(CITIES)]
    result, _ = predict(place, script)
    assert predicted(place) == {"0": entry(CITIES)}
    assert "warning: 1 greedy rollout attempted a write" in result.stderr


@pytest.mark.parametrize(
    ("more", "status", "sentence"),
    [
        (("--temperature", 0.5), 2, "--temperature is for rollouts that vote"),
        (("--out", "p.csv"), 2, "p.csv must end with .json for BIRD's form"),
        (("--json", "nowhere/at/all.json"), 1, "Cannot write nowhere/at/all.json"),
        (("--databases", "."), 1, "No question of"),
    ],
)
def test_impossible_requests_are_refused_before_anything_is_asked(place, more, status, sentence):
    (place / "empty").mkdir()
    words = [place / "empty" if word == "." else word for word in more]
    result, server = predict(place, by_question, *words)
    printed = str(result.exception) + result.stderr
    assert sentence in printed
    assert getattr(result.exception, "exit_code", result.exit_code) == status
    assert server.requests == []
