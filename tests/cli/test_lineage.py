"""``text2sql lineage`` on records as the assets write them: whole, edited, missing, ambiguous."""

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.documentation.docs_blocks import blocks
from text2sql.cli.main import cli
from text2sql.common.artifacts import answering_run_note, champion_file
from text2sql.common.provenance import code_state, file_version, read_record, sealed
from text2sql.datasets.reading.digests import Digests, combine_digests
from text2sql.datasets.reading.layout import SplitLayout, fingerprint
from text2sql.evaluation.scores import Score, Scores
from text2sql.evaluation.stored import NOTE, file_versions
from text2sql.policy.weights import directory_revision
from text2sql.reporting.model.answer import AnswerStatus, NewAnswer
from text2sql.reporting.model.question import ReportQuestion, database_fingerprint
from text2sql.reporting.model.values import result_table
from text2sql.reporting.tables.location import URL_VARIABLE
from text2sql.reporting.tables.questions import QuestionTable
from text2sql.reporting.tables.store import ReportingStore

BASE_REVISION = "b" * 16
COMMIT = {"text2sql": "0.1.0", "commit": "c" * 40, "dirty": True}


def write(file: Path, record: dict) -> Path:
    """Write a record."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record))
    return file


def ingested(root: Path) -> str:
    """Put a dataset of one question below the root; return its fingerprint."""
    folder = root / "corpus"
    layout = SplitLayout("dev", folder / "dev.json", {"shop": folder / "shop.sqlite"})
    folder.mkdir(parents=True)
    layout.questions.write_text("[]")
    (folder / "shop.sqlite").write_bytes(b"a database")
    dataset = combine_digests({"dev": fingerprint(layout, Digests())})
    archive = {"source": "pocket", "folder": str(folder), "fingerprint": dataset}
    archive |= {"splits": {"dev": layout.to_dict()}}
    write(root / "bird" / dataset / "archive.json", archive)
    return dataset


def trained(root: Path, run: str, dataset: str, start: dict | None = None, **more) -> dict:
    """Write what grpo_policy writes of a training run, weights and prompts included."""
    folder = root / "training" / run / "v1"
    for name, text in {
        "policy/model.safetensors": f"weights of {run}",
        "policy/config.json": "{}",
        "prompts/prompts.jsonl": f'{{"key": "{run}"}}\n',
        "prompts/golds.jsonl": "{}\n",
        "checkpoints/checkpoint-10/COMPLETE": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    rollouts = f"train-sampled-{run}"
    write(root / "rollouts" / rollouts / "shard.jsonl", {})
    write(root / "rollouts" / rollouts / "shard.jsonl.pace.json", {"run_id": f"sampled-{run}"})
    about = {"fingerprint": "f" * 16, "dataset": dataset, "rollouts": rollouts, "kept": 1}
    about |= {"policy_revision": BASE_REVISION, "least_solved": 1, "seed": 1, "code": COMMIT}
    prompts = folder / "prompts"
    record = {
        "base": "pocket",
        "base_revision": BASE_REVISION,
        "start_revision": BASE_REVISION,
        "prompts_version": file_version(prompts / "prompts.jsonl", prompts / "golds.jsonl"),
        "prompt_revision": "p" * 12,
        "code_version": "d" * 16,
        "config_version": "e" * 16,
        "backend": "trl",
        "settings": {"steps": 60, "seed": 7, "learning_rate": 3e-4},
        "changed_settings": {"learning_rate": 3e-4},
        "start": start or {"from": "base", "policy": "pocket", "training_run": ""},
        "prompts_about": about,
        "code": COMMIT,
        "policy": str(folder / "policy"),
        "policy_revision": directory_revision(folder / "policy"),
        "dagster_run": f"trained-{run}",
    } | more
    write(root / "training" / run / "training.json", sealed(record))
    return record


def evaluated(
    root: Path, run: str, value: float, revision: str, dataset: str, part: str = "all"
) -> None:
    """Write what dev_scores writes of a training run."""
    folder = root / "evaluation" / run
    rows = [("base", 0.4), ("trained", value)]
    scores = [Score(policy, "greedy", part, "", share, 0.0, 1.0, 1000) for policy, share in rows]
    provenance = {"dataset": dataset, "prompt_revision": "p" * 12, "dagster_run": f"scored-{run}"}
    revisions = {"base": BASE_REVISION, "trained": revision}
    rates = {"base": 0.0, "trained": 0.0}
    found = Scores(8, 1000, revisions, scores, [], {}, rates, {"base": 0, "trained": 0}, provenance)
    write(folder / "scores.json", found.to_dict())
    write(folder / "outcomes.json", {"greedy": {}})
    write(folder / "rollouts.json", {})
    write(folder / NOTE, sealed({"code": COMMIT, "files": file_versions(folder)}))


def answered(root: Path, policy: dict, run: str = "july") -> None:
    """Store the champion's answer to a question."""
    database = root / "corpus" / "shop.sqlite"
    database.parent.mkdir(parents=True, exist_ok=True)
    database.touch()
    question = ReportQuestion("shops", "how many shops are there", str(database))
    champion = {"policy": policy["policy"], "revision": policy["policy_revision"]}
    champion |= {"training_run": run, "act": "by hand", "reason": "we like it"}
    write(champion_file(root), champion | {"promoted_at": "2026-03-01", "number": 1})
    write(answering_run_note(root, "asked-1"), sealed({"code": COMMIT}))
    with ReportingStore(f"sqlite:///{root}/reporting.sqlite") as store:
        QuestionTable(store).add(question)
        store.write_answer(
            NewAnswer(
                question,
                datetime(2026, 3, 3, tzinfo=UTC),
                AnswerStatus.ANSWERED,
                "SELECT 1",
                result_table(["n"], [(1,)], 1),
                "d",
                1.0,
                database_fingerprint=database_fingerprint(database),
                policy_revision=policy["policy_revision"],
                training_run=run,
                dagster_run_id="asked-1",
            )
        )


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Two training runs, the second from the first, evaluated, and an answer of the second."""
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path / "root"))
    root = tmp_path / "root"
    dataset = ingested(root)
    june = trained(root, "june", dataset)
    start = {"from": "champion", "policy": june["policy"], "training_run": "june"}
    july = trained(root, "july", dataset, start, start_revision=june["policy_revision"])
    evaluated(root, "june", 0.5, june["policy_revision"], dataset)
    evaluated(root, "july", 0.6334, july["policy_revision"], dataset)
    answered(root, july)
    return root


def ask(*arguments: str):
    """Run the command."""
    return CliRunner().invoke(cli, ["lineage", *arguments])


def chain(asked: str, status: int = 0) -> tuple[list[dict], list[str]]:
    """Return the links and the problems that the command prints as JSON."""
    done = ask(asked, "--json")
    assert done.exit_code == status, (done.output, done.exception)
    found = json.loads(done.output)
    return found["links"], found["problems"]


RUNS = ("june", "july")
WHOLE = [
    ("training run", "july"),
    ("config", "trl"),
    ("started from", "champion"),
    ("training run", "june"),
    ("config", "trl"),
    ("started from", "base"),
]


def names(links: list[dict], *without: str) -> list[tuple[str, str]]:
    """Return what the links are, without those of some kinds."""
    return [(link["kind"], link["name"]) for link in links if link["kind"] not in without]


def test_a_training_run_is_traced_to_its_data_its_start_and_its_code(root):
    links, problems = chain("july")
    assert problems == []
    data = ("prompts", "filter's rollouts", "dataset", "evaluation")
    assert names(links, *data) == WHOLE
    run = links[1]["facts"]
    assert run["commit"] == f"{'c' * 40}, with changes"
    assert (run["checkpoints"], run["Dagster run"]) == ([10], "trained-july")
    config = next(link["facts"] for link in links if link["kind"] == "config")
    assert config == {"config hash": "e" * 16, "seed": 7, "set: learning_rate": 3e-4}
    filtered = next(link["facts"] for link in links if link["kind"] == "filter's rollouts")
    assert filtered["Dagster runs"] == ["sampled-july"]
    (dataset, *_) = [link for link in links if link["kind"] == "dataset"]
    assert dataset["facts"]["source"] == "pocket" and dataset["facts"]["dev databases"] == 1


@pytest.mark.parametrize("asked", ["63.3", "63.34", "63.3%", "63%", "accuracy:63.3"])
def test_an_accuracy_leads_to_the_run_that_reported_it(root, asked):
    links, _ = chain(asked)
    assert ("training run", "july") in names(links)
    assert "trained greedy, all: 63.3 [0.0, 100.0] n=1000" in links[0]["facts"].values()


def test_an_answer_of_an_adopted_champion_ends_with_it(tmp_path, monkeypatch):
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path))
    served = {"policy": "http://127.0.0.1:1/v1#ours", "policy_revision": "r" * 16}
    answered(tmp_path, served, "base")
    links, problems = chain("1")
    assert problems == [] and names(links) == [("answer", "1"), ("champion", "r" * 16)]
    assert links[1]["facts"]["policy"] == served["policy"]
    assert not any("training run" in link["facts"] for link in links)


def test_an_answer_is_traced_to_who_answered_and_from_which_data(root):
    links, problems = chain("1")
    assert problems == []
    assert names(links)[:3] == [("answer", "1"), ("champion", links[1]["name"]), WHOLE[0]]
    facts = links[0]["facts"]
    assert facts["database now"] == "unchanged" and facts["Dagster run"] == "asked-1"
    assert links[1]["facts"]["reason"] == "we like it"
    assert "dataset" in {link["kind"] for link in links}
    (root / "corpus" / "shop.sqlite").write_bytes(b"other data")
    links, problems = chain("1", status=3)
    assert links[0]["facts"]["database now"] == "changed since"
    (problem,) = problems
    assert "has changed: its fingerprint is now" in problem


def test_a_figure_on_a_held_out_split_and_parts_that_read_alike(root):
    july = json.loads((root / "training/july/training.json").read_text())
    evaluated(root, "june", 0.5, july["policy_revision"], "d" * 16, part="database")
    folder = shutil.copytree(root / "evaluation/july", root / "held_out/test-1")
    scores = json.loads((folder / "scores.json").read_text())
    scores["scores"][1]["value"] = 0.5
    write(folder / "scores.json", scores)
    note = {"training_run": "july", "code": COMMIT, "files": file_versions(folder)}
    write(folder / NOTE, sealed(note))
    links, problems = chain("50.0")
    assert problems == []
    assert names(links)[1:3] == [("evaluation", "test-1"), ("training run", "july")]
    evaluations = [link["name"] for link in chain("july")[0] if link["kind"] == "evaluation"]
    assert evaluations == ["july", "test-1"]


def test_text_for_people(root):
    done = ask("july")
    assert done.exit_code == 0
    assert "training run july\n" in done.output
    assert re.search(r"^  set: learning_rate +0\.0003$", done.output, re.MULTILINE)
    assert "Not as recorded" not in done.output


def edit(file: Path, old: str, new: str) -> None:
    """Edit a file by hand."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def break_record(root: Path) -> None:
    edit(root / "training/july/training.json", '"steps": 60', '"steps": 61')


def break_scores(root: Path) -> None:
    edit(root / "evaluation/july/scores.json", "0.6334", "0.6434")


def break_prompts(root: Path) -> None:
    edit(root / "training/july/v1/prompts/prompts.jsonl", "july", "august")


def break_weights(root: Path) -> None:
    edit(root / "training/july/v1/policy/config.json", "{}", '{"a": 1}')


def make_circle(root: Path) -> None:
    file = root / "training/june/training.json"
    june, july = (json.loads((root / f"training/{n}/training.json").read_text()) for n in RUNS)
    start = {"from": "july", "policy": july["policy"], "training_run": "july"}
    write(file, sealed(june | {"start": start, "start_revision": july["policy_revision"]}))


def write_nonsense(root: Path) -> None:
    july = json.loads((root / "training/july/training.json").read_text())
    write(root / "training/july/training.json", sealed(july | {"start": [], "settings": 5}))


def lose_weights(root: Path) -> None:
    shutil.rmtree(root / "training/july/v1/policy")


def lose_start(root: Path) -> None:
    shutil.rmtree(root / "training/june")


def lose_dataset(root: Path) -> None:
    (root / "corpus" / "dev.json").unlink()


def lose_evaluation(root: Path) -> None:
    (root / "evaluation/july" / NOTE).unlink()


def lose_scores(root: Path) -> None:
    (root / "evaluation/july/scores.json").unlink()


def spoil_archive(root: Path) -> None:
    (file,) = (root / "bird").glob("*/archive.json")
    file.write_text("{")


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (break_record, "training.json was edited by hand"),
        (break_scores, "scores.json was changed after the evaluation"),
        (break_prompts, "prompts are not those of the run"),
        (break_weights, "have the revision"),
        (make_circle, "would have been trained from itself"),
        (write_nonsense, "The record of july is invalid"),
        (lose_weights, "The weights are gone from"),
        (lose_start, "june is missing, so the chain of this training run ends here"),
        (lose_dataset, "dev.json"),
        (lose_evaluation, f"{NOTE} is missing"),
        (lose_scores, "evaluation/july/scores.json is missing"),
        (spoil_archive, "archive.json cannot be read as JSON"),
    ],
)
def test_missing_and_edited_files_are_listed_after_the_rest(root, spoil, named):
    spoil(root)
    links, problems = chain("july", status=3)
    assert any(named in problem for problem in problems), problems
    kinds = {link["kind"] for link in links}
    assert {"evaluation", "training run"} <= kinds
    done = ask("july")
    assert done.exit_code == 3 and "Not as recorded:" in done.output


def test_a_run_that_was_trained_again_keeps_the_chain_of_what_was_evaluated(root):
    record = json.loads((root / "training/july/training.json").read_text())
    write(root / "training/july/v1/record.json", record)
    newer = {**record, "policy_revision": "n" * 16, "changed_settings": {"steps": 1}}
    write(root / "training/july/training.json", sealed(newer))
    links, problems = chain("july")
    assert problems == []
    config = next(link["facts"] for link in links if link["kind"] == "config")
    assert config["set: learning_rate"] == 3e-4


def refused(asked: str) -> str:
    """Return the sentence with which a question is refused."""
    done = ask(asked)
    assert done.exception is not None and done.exit_code == 1
    return str(done.exception)


def test_an_unknown_or_ambiguous_name_is_one_sentence_that_lists_the_choices(root):
    there = "july (63.3), june (50.0)"
    assert there in refused("august") and "'august' is not an answer" in refused("august")
    assert there in refused("99.9")
    assert "No answer 12" in refused("12")
    assert refused("40.0").startswith("2 training runs reported 40.0 percent: say run:july (base")
    assert "run:august" in refused("run:august")
    shutil.copytree(root / "training/june", root / "training/63.3")
    assert refused("63.3").endswith("say run:63.3 or accuracy:63.3.")
    chain("run:63.3")


def test_the_documentation_shows_what_is_printed(root):
    """The commands in docs/lineage.md work, and every link that it names is printed."""
    page = Path(__file__).resolve().parents[2] / "docs" / "lineage.md"
    (block,) = [one.text for one in blocks(page) if one.kind == "console"]
    printed = ""
    for line in block.splitlines():
        done = CliRunner().invoke(cli, line.split()[2:])
        assert done.exit_code == 0, (line, done.output)
        printed += done.output
    links = re.findall(r"^\| `([a-z' ]+)` \|", page.read_text(), re.MULTILINE)
    assert len(links) == 8
    for link in links:
        assert f"\n{link} " in f"\n{printed}", link


def test_nothing_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path))
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    assert "accuracy: none; answers have" in refused("july")
    assert "no scheduled questions yet" in refused("1")


def test_a_seal_reveals_edits_and_code_names_its_commit(tmp_path):
    file = write(tmp_path / "a.json", sealed({"a": 1, "b": [1.5, "x"]}))
    assert read_record(file)["a"] == 1
    assert read_record(tmp_path / "none.json") == {}
    assert read_record(write(tmp_path / "b.json", {"a": 1})) == {"a": 1}
    found = code_state()
    assert found["commit"] == "unknown" or len(found["commit"]) == 40
