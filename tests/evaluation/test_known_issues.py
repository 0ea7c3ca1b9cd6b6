"""Known issues: the list, its checks, and corrected accuracy beside the official one."""

import hashlib
import json
import sqlite3
from pathlib import Path

import dagster as dg
import pytest
import yaml

from assets.data import bird, known_issues
from resources.artifact_root import ArtifactRoot
from resources.sandbox import SandboxResource
from text2sql.datasets import stored as data
from text2sql.datasets.reading.questions import read_records
from text2sql.errors import Text2SqlError
from text2sql.evaluation.known_issues import (
    Correction,
    issues_of,
    judge_again,
    list_version,
    load_corrections,
    read_issues,
    run_corrections,
)
from text2sql.evaluation.model_card import render_card
from text2sql.evaluation.predictions.score import score_predictions
from text2sql.evaluation.rollout_scores import PolicyRollouts, score_policies
from text2sql.evaluation.scores import BASE, TRAINED, Scores, score_rows
from text2sql.evaluation.slices import Strengths
from text2sql.judge.verdicts import Verdict
from text2sql.questions import Question
from text2sql.rollouts.store import Rollout

ROWS = [
    ("Who is tallest?", "SELECT name FROM hero ORDER BY name DESC LIMIT 1"),
    ("Who is shortest?", "SELECT name FROM hero ORDER BY height LIMIT 1"),
    ("Who is best?", "SELECT name FROM hero WHERE id = 1"),
    ("How many?", "SELECT COUNT(*) FROM hero"),
]
TALLEST = "SELECT name FROM hero ORDER BY height DESC LIMIT 1"
ANN, BO, CY = (f"SELECT name FROM hero WHERE id = {n}" for n in (1, 2, 3))
ISSUES = [
    {"id": 0, "reason": "Orders by name.", "source": "read by us", "corrected": TALLEST},
    {"id": "1", "reason": "A tie.", "source": "read by us", "also": [ANN]},
    {"id": 2, "reason": "Best at what?", "source": "read by us"},
]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """A dataset in BIRD's layout whose gold queries deserve a list of issues."""
    folder = tmp_path_factory.mktemp("dataset")
    place = folder / "dev_databases" / "heroes"
    place.mkdir(parents=True)
    with sqlite3.connect(place / "heroes.sqlite") as connection:
        connection.executescript(
            "CREATE TABLE hero (id INTEGER PRIMARY KEY, name TEXT, height INT);"
            "INSERT INTO hero VALUES (2, 'Bo', 150), (1, 'Ann', 150), (3, 'Cy', 200),"
            "(4, 'Zoe', 160);"
            "CREATE INDEX by_height ON hero (height, name DESC);"
        )
    connection.close()
    rows = [
        {"question_id": n, "db_id": "heroes", "question": question, "SQL": sql}
        for n, (question, sql) in enumerate(ROWS)
    ]
    (folder / "dev.json").write_text(json.dumps(rows))
    return folder


@pytest.fixture(scope="module")
def questions(dataset) -> list[Question]:
    records = read_records(dataset / "dev.json", dataset / "dev_databases", "dev")
    return [record.question for record in records]


def digest_of(dataset: Path) -> str:
    return hashlib.sha256((dataset / "dev.json").read_bytes()).hexdigest()


def write(file: Path, digest: str, issues: list, **more) -> Path:
    content = {"datasets": [{"questions_sha256": digest, "issues": issues} | more]}
    text = json.dumps(content) if file.suffix == ".json" else yaml.safe_dump(content)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture
def listed(dataset, tmp_path) -> Path:
    return write(tmp_path / "issues.yaml", digest_of(dataset), ISSUES, name="heroes")


@pytest.fixture
def corrections(listed, dataset, questions, sandbox) -> dict[str, Correction]:
    keys = [question.key for question in questions]
    issues = issues_of(read_issues(listed), dataset / "dev.json", keys)
    return run_corrections(issues, questions, sandbox)


@pytest.mark.parametrize("form", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["issues.yaml", "issues.json"])
def test_a_list_is_read(dataset, tmp_path, name, form):
    file = write(tmp_path / name, digest_of(dataset), ISSUES, name="heroes")
    file.write_text(file.read_text(encoding="utf-8"), form)
    (found,) = read_issues(file)
    assert len(found.questions_sha256) == 64
    assert [issue.kind for issue in found.issues] == ["corrected", "second gold", "flagged"]
    assert [issue.golds for issue in found.issues] == [(TALLEST,), (ANN,), ()]


def test_the_documented_list_is_one(tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "known-issues.md").read_text()
    (tmp_path / "issues.yaml").write_text(text.split("```yaml\n")[1].split("```")[0])
    (found,) = read_issues(tmp_path / "issues.yaml")
    assert [issue.kind for issue in found.issues] == ["corrected", "second gold", "flagged"]


@pytest.mark.parametrize(
    ("issue", "sentence"),
    [
        ({"id": 1, "reason": "a"}, "dataset 1, issue 1: 'source' is missing"),
        ({"reason": "a", "source": "b"}, "'id' is missing"),
        ({"id": 1, "reason": " ", "source": "b"}, r"\(id 1\): reason, source and gold"),
        ({"id": 1, "reason": "a", "source": "b", "gold": "SELECT 1"}, "unknown field 'gold'"),
        ({"id": 1, "reason": "a", "source": "b", "also": [3]}, "'also' a list of texts"),
        ({"id": 1, "reason": "a", "source": "b", "also": [" "]}, "must not be empty"),
        ("text", "issue 1 must be a mapping with id, reason, source"),
    ],
)
def test_a_malformed_entry_is_reported(tmp_path, issue, sentence):
    with pytest.raises(Text2SqlError, match=sentence):
        read_issues(write(tmp_path / "issues.yaml", "0" * 64, [issue]))


def test_other_damage_is_reported(tmp_path):
    twice = [{"id": 1, "reason": "a", "source": "b"}, {"id": "1", "reason": "a", "source": "b"}]
    with pytest.raises(Text2SqlError, match="the id 1 occurs twice"):
        read_issues(write(tmp_path / "issues.yaml", "0" * 64, twice))
    with pytest.raises(Text2SqlError, match="must be the questions file's sha256"):
        read_issues(write(tmp_path / "issues.yaml", "123", []))
    for name, text, sentence in (
        ("a.yaml", "- a\n- b", "a mapping with a list 'datasets'"),
        ("a.yaml", "a: [", "is not YAML"),
        ("a.yaml", "a: 2026-13-45", "is not YAML: month must be in"),
        ("a.yaml", "[" * 3000, "is not YAML"),
        ("a.json", "{", "is not JSON"),
        ("a.json", "[" * 200_000, "is not JSON"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(Text2SqlError, match=sentence):
            read_issues(tmp_path / name)
    with pytest.raises(Text2SqlError, match=r"known issues .*nowhere.yaml: No such"):
        read_issues(tmp_path / "nowhere.yaml")


def test_unknown_ids_and_other_datasets(dataset, tmp_path):
    keys = [f"dev/{n}" for n in range(4)]
    wrong = [{"id": 7, "reason": "a", "source": "b"}]
    datasets = read_issues(write(tmp_path / "issues.yaml", digest_of(dataset), wrong))
    with pytest.raises(Text2SqlError, match=r"name 1 question that .*dev.json does not have \(7\)"):
        issues_of(datasets, dataset / "dev.json", keys)
    other = read_issues(write(tmp_path / "issues.yaml", "0" * 64, wrong))
    assert issues_of(other, dataset / "dev.json", keys) is None
    short = read_issues(write(tmp_path / "issues.yaml", digest_of(dataset)[:12], ISSUES))
    assert set(issues_of(short, dataset / "dev.json", keys)) == {"dev/0", "dev/1", "dev/2"}


def test_a_gold_query_that_does_not_run_is_reported(dataset, questions, tmp_path, sandbox):
    broken = [{"id": 0, "reason": "a", "source": "b", "corrected": "SELECT age FROM hero"}]
    datasets = read_issues(write(tmp_path / "issues.yaml", digest_of(dataset), broken))
    issues = issues_of(datasets, dataset / "dev.json", [q.key for q in questions])
    with pytest.raises(Text2SqlError, match=r"known issue 0 does not run \(no such column: age\)"):
        run_corrections(issues, questions, sandbox)


def test_corrections_survive_json(corrections):
    rows = json.loads(json.dumps([one.to_dict() for one in corrections.values()]))
    assert {one.key: one for one in map(Correction.from_dict, rows)} == corrections


PREDICTIONS = {
    "right": ({"dev/0": TALLEST, "dev/1": ANN, "dev/2": BO, "dev/3": ROWS[3][1]}, 0.25, 1.0),
    "gold": ({f"dev/{n}": sql for n, (_, sql) in enumerate(ROWS)}, 1.0, 2 / 3),
    "wrong": ({f"dev/{n}": "SELECT 'none'" for n in range(4)}, 0.0, 0.0),
}


@pytest.mark.parametrize("name", PREDICTIONS)
def test_official_and_corrected_accuracy_with_their_denominators(
    questions, corrections, sandbox, name
):
    sql, official, corrected = PREDICTIONS[name]
    scores = score_predictions(questions, sql, sandbox, corrections=corrections).to_dict()
    assert (scores["execution_accuracy"], scores["count"]) == (official, 4)
    counted = {"execution_accuracy": pytest.approx(corrected), "count": 3}
    assert scores["corrected"] | {"interval": ""} == counted | {"interval": ""}


def test_without_a_list_there_is_no_corrected_accuracy(questions, sandbox):
    scored = [score_predictions(questions, sql, sandbox) for sql, *_ in PREDICTIONS.values()]
    assert [scores.corrected for scores in scored] == [None] * 3
    assert all("corrected" not in scores.to_dict() for scores in scored)


def test_order_counts_under_the_ordered_rule(questions, corrections, sandbox):
    sql = PREDICTIONS["right"][0]
    scores = score_predictions(questions, sql, sandbox, rule="ordered", corrections=corrections)
    assert scores.to_dict()["corrected"]["execution_accuracy"] == 1.0


def rollouts_of(questions, sql, sandbox, samples: int = 1) -> list[Rollout]:
    """Make rollouts that submitted these predictions, judged officially."""
    scores = score_predictions(questions, sql, sandbox)
    texts = [(question.database, sql[question.key]) for question in questions]
    results = sandbox.execute_many(texts)
    return [
        Rollout(
            key=item.question.key, sample=sample, policy="p", policy_revision="1",
            prompt_revision="1", mode="agentic", sampling={}, messages=[], calls=[],
            sql=sql[item.question.key], status=result.status.value, verdict=item.verdict.value,
            digest=result.digest, row_count=result.row_count, reward=None, write_attempts=0,
            turns=1, prompt_tokens=1, completion_tokens=1, seconds=0.1, stop_reason="submit",
        )
        for sample in range(samples)
        for item, result in zip(scores.scored, results, strict=True)
    ]  # fmt: skip


def test_rollouts_are_judged_again(questions, corrections, sandbox):
    gold = judge_again(rollouts_of(questions, PREDICTIONS["gold"][0], sandbox), corrections)
    assert [(one.key, one.verdict) for one in gold] == [
        ("dev/0", Verdict.WRONG),
        ("dev/1", Verdict.MATCH),
        ("dev/3", Verdict.MATCH),
    ]
    right = judge_again(rollouts_of(questions, PREDICTIONS["right"][0], sandbox), corrections)
    assert {one.verdict for one in right} == {Verdict.MATCH}


def evaluate(questions, corrections, sandbox, strengths=None) -> Scores:
    """Score the gold queries (base) against the right answers (trained)."""
    base, trained = (
        PolicyRollouts(name, "1", rollouts_of(questions, sql, sandbox), sampled)
        for name, sql in ((BASE, PREDICTIONS["gold"][0]), (TRAINED, PREDICTIONS["right"][0]))
        for sampled in [rollouts_of(questions, sql, sandbox, 2)]
    )
    return score_policies(questions, base, trained, 2, {}, strengths, corrections)


def test_both_accuracies_are_shown(questions, corrections, sandbox):
    scores = evaluate(questions, corrections, sandbox)
    rows = {(row["questions"], row["setting"]): row for row in score_rows(scores)}
    assert list(rows)[:2] == [("all", "greedy"), ("all", "vote@2")]
    assert rows["all", "greedy"]["base"].startswith("100.0 ")
    assert rows["corrected", "greedy"]["base"].startswith("66.7 ")
    assert rows["corrected", "greedy"]["base"].endswith("n=3")
    assert rows["corrected", "vote@2"]["trained"].startswith("100.0 ")
    assert (rows["all", "greedy"]["lost"], rows["corrected", "greedy"]["gained"]) == ("3", "1")
    assert scores.issues == {"corrected": 1, "second gold": 1, "flagged": 1}
    assert Scores.from_dict(json.loads(json.dumps(scores.to_dict()))) == scores


def test_strong_and_weak_questions_have_scores_of_their_own(questions, sandbox):
    strengths = Strengths({"dev/0": 1.0, "dev/1": 0.75, "dev/2": 0.5, "dev/3": None}, 0.75)
    scores = evaluate(questions, {}, sandbox, strengths)
    strong, weak = (scores.find(TRAINED, "greedy", "strength", n) for n in ("strong", "weak"))
    assert ((strong.n, strong.value), (weak.n, weak.value)) == ((2, 0.0), (1, 0.0))
    assert scores.find(BASE, "greedy", "strength", "strong").value == 1.0
    assert scores.find(TRAINED, "greedy", "corrected", "corrected") is None


def test_the_card_explains_only_the_rows_that_it_has(questions, corrections, sandbox):
    training = {"base": "b", "base_revision": "1", "policy_revision": "2", "prompts": 3}
    training |= {"seconds": 1.0, "settings": {}}
    strengths = Strengths({"dev/0": 1.0}, 0.75)
    full = render_card("x", evaluate(questions, corrections, sandbox, strengths), training)
    assert "1 corrected, 1 flagged, 1 second gold" in full
    assert "reward strength is at least 0.75" in full and "| strong | greedy |" in full
    plain = render_card("x", evaluate(questions, {}, sandbox), training)
    assert "strong" not in plain and "corrected" not in plain


def ingest(dataset: Path, root: Path, file: str):
    assets = [bird.bird_archive, bird.bird_questions, bird.bird_databases, bird.gold_results]
    return dg.materialize(
        [*assets, known_issues.known_issues],
        resources={"root": ArtifactRoot(root=str(root)), "sandbox": SandboxResource(workers=1)},
        run_config={
            "ops": {
                "bird_archive": {"config": {"source": str(dataset), "splits": ["dev"]}},
                "known_issues": {"config": {"file": file}},
            },
            "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
        },
        raise_on_error=False,
    )


def failure_of(result) -> str:
    (event,) = result.get_step_failure_events()
    return event.step_failure_data.error.cause.message


def test_asset_runs_the_list_and_a_run_without_it_forgets_it(dataset, listed, tmp_path):
    root = tmp_path / "root"
    result = ingest(dataset, root, str(listed))
    assert result.success
    (event,) = result.asset_materializations_for_node("known_issues")
    assert event.metadata["issues"].value == 3
    found = load_corrections(root, "dev")
    assert {key: one.issue.kind for key, one in found.items()} == {
        "dev/0": "corrected",
        "dev/1": "second gold",
        "dev/2": "flagged",
    }
    assert list_version(root).startswith("issues.yaml ")
    assert [q.sql for q in data.load_questions(root, "dev")] == [sql for _, sql in ROWS]
    assert ingest(dataset, root, "").success
    assert load_corrections(root, "dev") == {}
    assert list_version(root) == ""


def test_asset_refuses_a_list_about_other_data(dataset, tmp_path):
    other = write(tmp_path / "issues.yaml", "0" * 64, ISSUES)
    result = ingest(dataset, tmp_path / "root", str(other))
    assert "is about other data" in failure_of(result)
