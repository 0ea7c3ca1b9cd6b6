"""``text2sql compare`` and ``text2sql report`` as people run them, on files as they are written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from text2sql.cli.main import cli


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with an artifact root."""
    return subprocess.run(
        [sys.executable, "-c", "from text2sql.cli.main import main; main()", *arguments],
        env=os.environ | {"TEXT2SQL_ROOT": str(root)},
        capture_output=True,
        text=True,
        cwd=root,
    )


def scored(path: Path, verdicts: str, digest: str = "aa11", rule: str = "official") -> str:
    """Write what ``text2sql evaluate --json`` writes; a letter is a question."""
    names = {"m": "match", "w": "wrong", "i": "infrastructure"}
    rows = [{"question_id": n, "verdict": names[letter]} for n, letter in enumerate(verdicts)]
    path.write_text(json.dumps({"questions_sha256": digest, "rule": rule, "verdicts": rows}))
    return path.name


def evaluated(root: Path, name: str, dataset: str, greedy: str) -> None:
    """Write a training run's scores and outcomes."""
    folder = root / "evaluation" / name
    folder.mkdir(parents=True)
    outcomes = {f"dev/{n}": float(letter == "m") for n, letter in enumerate(greedy)}
    (folder / "scores.json").write_text(json.dumps({"provenance": {"dataset": dataset}}))
    (folder / "outcomes.json").write_text(json.dumps({"greedy": outcomes, "mean@4": outcomes}))


def verdicts(*rows: dict) -> str:
    """Return a result of ``text2sql evaluate --json`` with these verdicts."""
    return json.dumps({"questions_sha256": "a", "rule": "official", "verdicts": rows})


def test_a_difference_within_the_noise_is_labelled(tmp_path):
    a, b = scored(tmp_path / "a.json", "mmww"), scored(tmp_path / "b.json", "wmmm")
    found = run(tmp_path, "compare", a, b)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [
        "execution accuracy: A 50.0 %, B 75.0 %, n = 4",
        "  B minus A: +25.0 points [-47.3, +80.6], paired 95 % interval",
        "  The difference to A is within the noise: 2 gained, 1 lost of 4 questions "
        "(McNemar exact, p = 1).",
        "  gained: 2, 3",
        "  lost: 0",
    ]


def test_a_real_difference_and_partial_results(tmp_path):
    a = scored(tmp_path / "a.json", "w" * 30 + "i")
    b = scored(tmp_path / "b.json", "m" * 30 + "m")
    text = run(tmp_path, "compare", a, b).stdout
    assert "Better than A: 30 gained, 0 lost of 30 questions" in text
    assert "partial: 1 question has a result in only one" in text
    assert "and 10 more (--json has all)" in text
    assert "Worse than A" in run(tmp_path, "compare", b, a).stdout
    row = json.loads(run(tmp_path, "compare", a, b, "--json").stdout)
    its = row["settings"]["execution accuracy"]
    assert len(its["gained"]) == 30
    assert (its["low"], its["high"]) == (pytest.approx(0.83365, abs=1e-4), 1.0)


def test_other_questions_and_rules_are_refused(tmp_path):
    a, b = scored(tmp_path / "a.json", "mm"), scored(tmp_path / "b.json", "mm", "bb22")
    found = run(tmp_path, "compare", a, b)
    assert found.returncode == 1
    assert "aa11 (a.json), bb22 (b.json)" in found.stderr
    content = json.loads((tmp_path / "a.json").read_text())
    (tmp_path / "b.json").write_text(json.dumps(content | {"gold_sha256": "dd33"}))
    assert "aa11+dd33 (b.json)" in run(tmp_path, "compare", a, b).stderr
    other = scored(tmp_path / "c.json", "mm", rule="multiset")
    assert "by 'multiset'" in run(tmp_path, "compare", a, other).stderr


def test_results_on_other_databases_are_refused(tmp_path):
    names = [scored(tmp_path / name, "mm") for name in ("a.json", "b.json", "c.json")]
    contents = ({"x": "1", "y": "2"}, {"x": "1", "y": "3"}, {"z": "4"})
    for name, digests in zip(names, contents, strict=True):
        content = json.loads((tmp_path / name).read_text())
        (tmp_path / name).write_text(json.dumps(content | {"databases_sha256": digests}))
    found = run(tmp_path, "compare", *names[:2])
    assert found.returncode == 1
    assert "different contents of 1 of 2 databases, for example y" in found.stderr
    assert run(tmp_path, "compare", names[0], names[2]).returncode == 0


def test_results_under_other_conditions_are_compared_with_a_note(tmp_path):
    a, b = scored(tmp_path / "a.json", "mw"), scored(tmp_path / "b.json", "mm")
    for name, seconds in ((a, 30.0), (b, 1.0)):
        content = json.loads((tmp_path / name).read_text())
        content |= {"timeout_seconds": seconds, "sqlite_version": "3.40.1"}
        (tmp_path / name).write_text(json.dumps(content))
    found = run(tmp_path, "compare", a, b)
    assert found.returncode == 0
    assert found.stderr == "note: A was scored with timeout_seconds 30.0, B with 1.0.\n"


ONE = {"question_id": 1, "verdict": "match"}
SPOILT = ["{", "[]", "{}", verdicts({}), '{"verdicts": [], "questions_sha256": ""}']
SPOILT += [verdicts(ONE | {"verdict": None}), verdicts(ONE, ONE), '{"verdicts": ["x"]}']


@pytest.mark.parametrize("text", SPOILT)
def test_a_file_that_is_not_a_result_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    found = run(tmp_path, "compare", "a.json", "a.json")
    assert found.returncode == 1 and found.stderr.startswith("error: a.json")
    assert "Traceback" not in found.stderr and "unexpected" not in found.stderr


def test_evaluations_without_a_common_result_are_refused(tmp_path):
    a, b = scored(tmp_path / "a.json", "mi"), scored(tmp_path / "b.json", "im")
    found = run(tmp_path, "compare", a, b)
    assert found.returncode == 1 and found.stdout == ""
    assert "no question with a valid result in common" in found.stderr


@pytest.mark.parametrize(
    ("scores", "outcomes"),
    [
        ('{"provenance": null}', '{"greedy": {}}'),
        ("{}", '{"greedy": {"dev/0": 1.0}}'),
        ('{"provenance": {"dataset": "d1"}}', '{"greedy": {"dev/0": "right"}}'),
        ('{"provenance": {"dataset": "d1"}}', '{"greedy": {"dev/0": NaN}}'),
        ('{"provenance": {"dataset": "d1"}}', '{"greedy": [1.0]}'),
    ],
)
def test_a_damaged_evaluation_is_reported(tmp_path, scores, outcomes):
    evaluated(tmp_path, "june", "d1", "mwww")
    evaluated(tmp_path, "july", "d1", "mmww")
    folder = tmp_path / "evaluation" / "july"
    (folder / "scores.json").write_text(scores)
    (folder / "outcomes.json").write_text(outcomes)
    found = run(tmp_path, "compare", "june", "july")
    assert found.returncode == 1
    assert f"The evaluation in {folder} is invalid" in found.stderr


def test_training_runs(tmp_path):
    evaluated(tmp_path, "june", "d1", "mwww")
    evaluated(tmp_path, "july", "d1", "mmmw")
    evaluated(tmp_path, "august", "d2", "mmmw")
    text = run(tmp_path, "compare", "june", "july").stdout
    assert "greedy: A 25.0 %, B 75.0 %, n = 4" in text and "mean@4" not in text
    assert run(tmp_path, "compare", "june", "july").stderr == ""
    scores = {"provenance": {"dataset": "d1", "prompt_revision": "p2"}}
    (tmp_path / "evaluation" / "july" / "scores.json").write_text(json.dumps(scores))
    result = run(tmp_path, "compare", "june", "july")
    assert "note: A was asked with the prompt revision unknown, B with p2" in result.stderr
    assert result.returncode == 0 and result.stdout == text
    refused = run(tmp_path, "compare", "july", "august").stderr
    assert "d1 (july), d2 (august)" in refused
    missing = run(tmp_path, "compare", "july", "may")
    assert "No evaluation of a training run 'may'" in missing.stderr
    assert "Evaluated: august, july, june." in missing.stderr
    assert "Did you mean 'july'?" in run(tmp_path, "compare", "jully", "june").stderr
    a = scored(tmp_path / "a.json", "mm")
    assert "compare two of one kind" in run(tmp_path, "compare", a, "july").stderr


def test_files_that_are_no_evaluations_say_how_to_make_one(tmp_path):
    good, bad = scored(tmp_path / "good.json", "mm"), tmp_path / "bad.json"
    for content in (None, "", "{bad", "[]", "{}"):
        if content is not None:
            bad.write_text(content)
        refused = CliRunner().invoke(cli, ["compare", str(bad), str(good)])
        assert refused.exit_code == 1 and "bad.json" in str(refused.exception)
        assert "with --json, and compare the files that it writes." in str(refused.exception)


def test_report_of_a_run_without_one(tmp_path):
    evaluated(tmp_path, "june", "d1", "mwww")
    found = run(tmp_path, "report", "june")
    assert found.returncode == 1 and "materialize dev_scores" in found.stderr
    (tmp_path / "evaluation" / "june" / "report.json").write_text('{"scores": {}}')
    assert "report.json was written by another version" in run(tmp_path, "report", "june").stderr
    assert "No evaluation" in run(tmp_path, "report", "../june").stderr


def test_report_finds_an_evaluation_on_a_held_out_split_by_its_folder(tmp_path):
    evaluated(tmp_path, "june", "d1", "mwww")
    assert "On held-out" not in run(tmp_path, "report", "x").stderr
    folder = tmp_path / "held_out" / "test-r1-d1"
    folder.parent.mkdir()
    (tmp_path / "evaluation" / "june").rename(folder)
    found = run(tmp_path, "report", folder.name)
    assert found.returncode == 1 and "materialize held_out_scores for it" in found.stderr
    assert "On held-out splits: test-r1-d1." in run(tmp_path, "report", "june").stderr
