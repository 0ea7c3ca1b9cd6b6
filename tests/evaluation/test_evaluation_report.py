"""The report of an evaluation: what it says, what it escapes, and where its numbers come from."""

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from assets.evaluation.dev_scores import dev_scores
from resources.artifact_root import ArtifactRoot
from resources.sandbox import SandboxResource
from text2sql.cli.main import cli
from text2sql.errors import Text2SqlError
from text2sql.evaluation.known_issues import Correction, Issue
from text2sql.evaluation.report.details import Evaluated, PreviousChampion, details_of
from text2sql.evaluation.report.files import PAGE, TABLE, TRACE, Grounds, read_details, write_report
from text2sql.evaluation.report.page import render_report
from text2sql.evaluation.report.tables import BIRD_DEV, is_bird_dev
from text2sql.evaluation.rollout_scores import PolicyRollouts, score_policies
from text2sql.evaluation.rule_scores import RuleResults
from text2sql.evaluation.scores import BASE, TRAINED, compare
from text2sql.evaluation.slices import Strengths, slices_of
from text2sql.questions import Question
from text2sql.rollouts.located import read_located
from text2sql.rollouts.store import Rollout, RolloutStore

GOLD = "SELECT name FROM shop WHERE id = 1"
SQL = {"m": GOLD, "w": "SELECT name FROM shop WHERE id = 2", "e": "SELECT nam FROM shop"}
VERDICTS = {"m": "match", "w": "wrong", "e": "error"}


def question(number: int) -> Question:
    """Make a question whose text is hostile HTML."""
    text = f"<script>alert({number})</script>?"
    return Question(f"dev/{number}", f"db<{number % 2}>", Path("x"), text, "", GOLD, "simple")


def rollout(number: int, letter: str, sample: int, mode: str = "agentic") -> Rollout:
    """Make a rollout from a letter: m match, w wrong, e error."""
    call = {"name": "run_sql", "arguments": "{}", "seconds": 0.1, "status": "ok"}
    return Rollout(
        key=f"dev/{number}",
        sample=sample,
        policy="p",
        policy_revision="1",
        prompt_revision="1",
        mode=mode,
        sampling={},
        messages=[{"role": "user", "content": "<img src=x> " + "long " * 900}],
        calls=[call],
        sql=SQL[letter],
        status="error" if letter == "e" else "ok",
        verdict=VERDICTS[letter],
        digest="" if letter == "e" else letter,
        row_count=int(letter != "e"),
        reward=0.0,
        write_attempts=0,
        turns=2,
        prompt_tokens=10,
        completion_tokens=5,
        seconds=0.5,
        stop_reason="submit",
        error="no such column: nam" if letter == "e" else "",
    )


def stored(root: Path, name: str, greedy: str, sampled: dict[int, str], once: str) -> Evaluated:
    """Write a policy's rollouts into real stores and read them back with their places."""
    groups: dict[str, list] = {"greedy": [(n, x, 0) for n, x in enumerate(greedy)]}
    groups["sampled"] = [(n, x, s) for n, row in sampled.items() for s, x in enumerate(row)]
    groups["single-turn"] = [(n, x, 0, "single_turn") for n, x in enumerate(once)]
    found = []
    for kind, rows in groups.items():
        store = RolloutStore(root / "rollouts" / f"{name}-{kind}.jsonl")
        for row in rows:
            store.append(rollout(*row))
        store.close()
        keys = {f"dev/{row[0]}" for row in rows}
        found.append(read_located([store.path], keys, 8))
    return Evaluated(name, *found)


@pytest.fixture
def made(tmp_path):
    """A report of two policies on four questions, written below a root."""
    asked = [question(number) for number in range(4)]
    base = stored(tmp_path, BASE, "mwwe", {0: "mmww", 1: "wwww", 2: "mwww", 3: "eeee"}, "wwww")
    trained = stored(tmp_path, TRAINED, "mmew", {0: "mmmm", 1: "mmww", 2: "mwww"}, "wmww")
    policies = [
        PolicyRollouts(
            p.name, "1", p.greedy.rollouts, p.sampled.rollouts, "", p.single_turn.rollouts
        )
        for p in (base, trained)
    ]
    scores = score_policies(asked, *policies, 4, {"dataset": "abc"}, empty={"dev/3"})
    values = {"dev/1": {"official": 0.0, "multiset": 0.0, "soft_f1": 0.5, "r_ves": 1.25**0.5}}
    rules = RuleResults({BASE: {}, TRAINED: values}, {BASE: [], TRAINED: ["dev/1"]}, 3)
    scores = replace(scores, scores=[*scores.scores, *rules.scores()])
    old, new = {"dev/0": 1.0, "dev/2": 1.0}, {"dev/0": 1.0, "dev/2": 0.0}
    before = PreviousChampion("june", compare("greedy", "all", "", old, new, old), [], ["dev/2"])
    details = details_of("july", asked, scores, [base, trained], tmp_path, before, rules)
    issue = Issue("2", "unclear", "us")
    grounds = Grounds(
        slices_of(asked, Strengths({"dev/0": 0.9, "dev/1": 0.1}, 0.5), {"dev/3"}),
        {"dev/2": Correction("dev/2", issue, ())},
        rules,
    )
    page = write_report(tmp_path / "july", details, [base, trained], asked, tmp_path, grounds)
    return page.read_text(), details


def test_the_page_answers_the_four_questions(made):
    page, _ = made
    assert '<h2>How good?</h2><p class="big">50.0 %</p>' in page
    assert "Greedy: 50.0 % [15.0, 85.0], n = 4" in page
    assert "The difference to the base is within the noise: 1 gained, 0 lost of 4" in page
    assert "champion (run june) is within the noise: 0 gained, 1 lost of 2" in page
    assert (
        "Questions without a match: 2. Most often: no such column 1; wrong filter value 1" in page
    )
    assert "trained vote@4, trained pass@4, trained mean@4: partial: 3 of 4 questions" in page
    assert (
        "The trained policy&#39;s greedy accuracy; the base has 25.0 %. A vote among 4 rollouts "
        "gives 66.7 % on 3 of the questions, where greedy has 66.7 %. One reply without tools "
        "(single-turn) gives 25.0 %." in page
    )
    assert '<td>db&lt;1&gt;</td><td class="number">1</td>' in page  # its curve
    assert "development metric" in page and "Published" not in page


def test_the_page_loads_nothing_and_everything_is_escaped(made):
    page, _ = made
    assert "<script" not in page and "<img" not in page and "db&lt;0&gt;" in page
    assert "http" not in page.replace("http-equiv", "")
    assert not re.search(r"(src|href)=\"(?!#)", page)
    assert page.count("<svg") == 3 and "prefers-color-scheme: dark" in page


def test_every_number_can_be_counted_from_lines(made, tmp_path):
    page, details = made
    rows = list(csv.DictReader(io.StringIO((tmp_path / "july" / TRACE).read_text())))
    greedy = [r for r in rows if (r["policy"], r["set"]) == (TRAINED, "greedy")]
    assert sum(r["verdict"] == "match" for r in greedy) / len(greedy) == 0.5
    assert len(rows) == 4 + 4 + 16 + 12 + 4 + 4
    once = [r["verdict"] for r in rows if (r["policy"], r["set"]) == (TRAINED, "single-turn")]
    assert once == ["wrong", "match", "wrong", "wrong"]
    (judged,) = [r for r in rows if r["soft_f1"]]
    assert (judged["set"], judged["key"], judged["soft_f1"]) == ("greedy", "dev/1", "0.5")
    shares = list(csv.DictReader((tmp_path / "july" / TABLE).open()))
    assert {"policy": TRAINED, "setting": "greedy", "part": "all", "name": "", "value": "0.5"} in (
        [{n: row[n] for n in ("policy", "setting", "part", "name", "value")} for row in shares]
    )
    assert [(r["gold"], r["strength"], r["corrected"], r["classes"]) for r in greedy] == [
        ("gold with rows", "strong", "match", ""),
        ("gold with rows", "weak", "match", ""),
        ("gold with rows", "", "flagged", "no such column"),
        ("gold without rows", "", "wrong", "wrong filter value"),
    ]
    effort = ("turns", "prompt_tokens", "completion_tokens", "seconds", "stop_reason")
    assert [greedy[0][name] for name in effort] == ["2", "10", "5", "0.5", "submit"]
    file, line = rows[1]["place"].rsplit(":", 1)
    assert f'"key": "{rows[1]["key"]}"' in (tmp_path / file).read_text().splitlines()[int(line) - 1]
    assert rows[1]["place"] in page
    assert details["questions"][1][TRAINED]["solved"] == 2


def test_half_a_character_from_a_model_is_written_as_an_escape(made, tmp_path):
    """A reply in JSON may hold half of a surrogate pair, which UTF-8 cannot encode."""
    _, details = made
    half = "SELECT '\ud83d'"
    details["questions"][2][TRAINED]["sql"] = half
    details["examples"][0]["transcript"][0]["text"] = half
    page = write_report(tmp_path / "half", details, [], [], tmp_path)
    assert "SELECT &#39;\\ud83d&#39;" in page.read_text()
    assert read_details(page.parent)["questions"][2][TRAINED]["sql"] == half


def test_infrastructure_failures_do_not_count_against_the_policy(made):
    _, details = made
    details["questions"][3][TRAINED]["verdict"] = "infrastructure"
    page = render_report(details)
    assert "Questions without a match: 1." in page
    assert "Questions without a valid result: 1." in page


def test_accuracy_is_unknown_without_a_greedy_result(made):
    _, details = made
    for score in details["scores"]["scores"]:
        if (score["policy"], score["setting"]) == (TRAINED, "greedy"):
            score |= {"value": 0.0, "low": 0.0, "high": 1.0, "n": 0}
    page = render_report(details)
    assert '<p class="big">unknown</p>' in page and "n = 0" not in page


def test_a_base_that_the_run_was_not_trained_from_is_named(made):
    _, details = made
    scores = details["scores"]
    others = {"trained_from": "r9", "base_prompt_revision": "p2"}
    scores = scores | {"provenance": scores["provenance"] | others}
    page = render_report(details | {"scores": scores})
    assert "trained from another policy (revision r9) than the base shown here (revi" in page
    assert "asked with other prompts (revision p2)" in page


def test_the_weakest_parts_and_the_p_of_each(made):
    page, details = made
    assert "Lowest by" not in page  # there is one difficulty
    for score in details["scores"]["scores"]:
        if score["part"] == "gold":
            score["part"] = "difficulty"
    page = render_report(details)
    assert "Lowest by difficulty: gold without rows, 0.0 % [0.0, 79.3], n = 1." in page
    assert '<th class="number">p</th>' in page and "of twenty parts" in page


def test_examples_show_the_transcript_and_say_where_it_is(made):
    page, details = made
    assert [one["key"] for one in details["examples"]] == ["dev/2", "dev/3"]
    assert details["examples"][0]["place"] == "rollouts/trained-greedy.jsonl:3"
    assert "no such column: nam" in page and "[4,511 characters]" in page


def test_effort_and_tools(made):
    _, details = made
    found = details["effort"][TRAINED]
    assert found["greedy"]["turns"] == {2: 4} and found["sampled"]["rollouts"] == 12
    assert found["tools"][0] | {"mean_seconds": 0} == {
        "tool": "run_sql",
        "calls": 4,
        "mean_seconds": 0,
        "ended": {"ok": 4},
    }


def test_a_page_can_be_rendered_again_from_its_file(made, tmp_path):
    page, _ = made
    assert render_report(read_details(tmp_path / "july")) == page
    assert (tmp_path / "july" / PAGE).is_file()
    with pytest.raises(Text2SqlError, match="No report of nowhere yet"):
        read_details(tmp_path / "nowhere")


@pytest.mark.parametrize("place", ["evaluation/july", "held_out/test-r1-abc"])
def test_the_command_writes_the_page_again(made, tmp_path, monkeypatch, place):
    page, _ = made
    folder = tmp_path / place
    shutil.copytree(tmp_path / "july", folder)
    (folder / PAGE).unlink()
    (folder / "scores.json").write_text("{}")
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path))
    found = CliRunner().invoke(cli, ["report", folder.name], catch_exceptions=False)
    assert found.output.strip() == str(folder / PAGE)
    assert (folder / PAGE).read_text() == page


def test_other_rules_are_shown_next_to_the_official_one(made):
    page, details = made
    assert "<td>Soft-F1</td>" in page and "evaluation_f1.py" in page and "<td>ordered" not in page
    assert "111.8 [23.1, 111.8] n=1" in page  # of R-VES
    assert "1 verdict of the trained policy came out differently" in page
    assert "medians of 3 runs" in page
    assert "By other rules" not in render_report(details | {"rules": None})
    assert "<td>gold without rows</td>" in page


def test_published_figures_are_shown_only_for_the_same_questions(made):
    _, details = made
    page = render_report(details | {"same_as_published": True})
    assert "published trained" in page and "49.7" in page and "67.4" in page
    (row,) = re.findall("<tr><td>single-turn</td>.*?</tr>", page)
    assert "25.0 [4.6, 69.9] n=4" in row and row.endswith('<td class="number">58.2</td></tr>')
    names = sorted(BIRD_DEV)
    asked = [Question(f"dev/{n}", names[n % 11], Path("x"), "?") for n in range(1534)]
    assert is_bird_dev(asked)
    assert not is_bird_dev(asked[:500])


def test_rollouts_of_another_dataset_fail_the_asset(tmp_path):
    sampling = {"temperature": 0.0, "top_p": 1.0, "max_tokens": 10}
    row = {"policy": "p", "policy_revision": "1", "prompt_revision": "1", "split": "dev"}
    row |= {"dataset": "old", "sampling": sampling, "samples": 1, "keys": []}
    sets = {f"{name} {kind}": row for name in (BASE, TRAINED) for kind in ("greedy", "sampled")}
    folder = tmp_path / "evaluation" / "july"
    folder.mkdir(parents=True)
    (folder / "rollouts.json").write_text(json.dumps(sets))
    (tmp_path / "bird").mkdir()
    current = {"source": "s", "folder": "f", "fingerprint": "new", "splits": {}}
    (tmp_path / "bird" / "current.json").write_text(json.dumps(current))
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("training_run", ["july"])
        result = dg.materialize(
            [dev_scores],
            partition_key="july",
            instance=instance,
            resources={"root": ArtifactRoot(root=str(tmp_path)), "sandbox": SandboxResource()},
            raise_on_error=False,
        )
    (failure,) = result.filter_events(lambda event: event.is_step_failure)
    error = failure.step_failure_data.error
    text = f"{error.message} {error.cause.message if error.cause else ''}"
    assert "old (trained sampled rollouts), new (the current dataset)" in text
