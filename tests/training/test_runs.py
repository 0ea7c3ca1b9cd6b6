"""Training runs in the library: their identity, prompts, reuse and program."""

import json
from pathlib import Path

import pytest

from text2sql.common.artifacts import prompts_folder, training_folder, training_record_file
from text2sql.common.json_files import write_json
from text2sql.common.provenance import sealed
from text2sql.errors import Text2SqlError
from text2sql.policy.open import policy_directory
from text2sql.training.backends import PROMPTS_FOLDER, require_weights, trl_program
from text2sql.training.prime_rl.settings import read_settings
from text2sql.training.prompts import GOLDS, PROMPTS
from text2sql.training.runs import StartPolicy, find_start, is_reusable, keep_prompts, plan_run
from text2sql.training.trl.settings import TrlSettings, read_run

VERSIONS = {
    "base": "pocket",
    "base_revision": "r1",
    "start_revision": "r1",
    "code_version": "c1",
    "prompt_revision": "p1",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An artifact root with the files of three prompts."""
    folder = prompts_folder(tmp_path)
    folder.mkdir()
    (folder / PROMPTS).write_text('{"key": "a"}\n{"key": "b"}\n{"key": "c"}\n')
    (folder / GOLDS).write_text("{}\n")
    return tmp_path


def test_steps_and_ports_do_not_make_another_run_with_prime_rl(root):
    def plan(**changes):
        settings = read_settings("prime_rl", changes)
        return plan_run(root, "prime_rl", settings, StartPolicy(), VERSIONS)

    first, longer, other_port = plan(), plan(steps=300), plan(engine_port=8200)
    assert first["version"] == longer["version"] == other_port["version"]
    assert first["config_version"] == other_port["config_version"] != longer["config_version"]
    assert longer["changed_settings"] == {"steps": 300} and first["prompts"] == 3
    assert plan(group_size=4)["version"] != first["version"]


def test_any_setting_or_version_makes_another_run_with_trl(root):
    def version(settings=TrlSettings(), **changes):  # noqa: B008 - frozen
        return plan_run(root, "trl", settings, StartPolicy(), VERSIONS | changes)["version"]

    different = {version(), version(TrlSettings(steps=61)), version(code_version="c2")}
    (prompts_folder(root) / PROMPTS).write_text('{"key": "a"}\n')
    assert len(different | {version()}) == 4
    (prompts_folder(root) / GOLDS).unlink()
    with pytest.raises(Text2SqlError, match="materialize training_prompts first"):
        version()


def test_a_run_keeps_its_own_prompts_and_fails_if_they_change_meanwhile(root):
    planned = plan_run(root, "trl", TrlSettings(), StartPolicy(), VERSIONS)
    folder = training_folder(root, "july", planned["version"])
    keep_prompts(root, folder, planned)
    kept = (folder / PROMPTS_FOLDER / PROMPTS).read_text()
    assert kept == (prompts_folder(root) / PROMPTS).read_text()
    (prompts_folder(root) / PROMPTS).write_text('{"key": "d"}\n')
    with pytest.raises(Text2SqlError, match="replaced while the run began"):
        keep_prompts(root, folder, planned)


def test_a_policy_is_reused_only_with_its_own_weights_and_settings(root):
    planned = {"config_version": "v1"}
    record = planned | {"policy": str(root), "policy_revision": "r2"}
    assert is_reusable(record, planned, lambda place: "r2")
    assert not is_reusable(record, {"config_version": "v2"}, lambda place: "r2")
    assert not is_reusable({}, planned, lambda place: "r2")
    assert not is_reusable(record | {"policy": str(root / "none")}, planned, lambda place: "r2")
    with pytest.raises(Text2SqlError, match=r"revision r3 instead of r2\): move the folder away"):
        is_reusable(record, planned, lambda place: "r3")


def test_what_a_run_can_start_from(root):
    assert find_start(root, "base") == StartPolicy()
    with pytest.raises(Text2SqlError, match="There is no champion"):
        find_start(root, "champion")
    with pytest.raises(Text2SqlError, match=r"cannot start from 'june'.*\(none\)"):
        find_start(root, "june")
    weights = policy_directory("pocket")
    file = training_record_file(root, "june")
    file.parent.mkdir(parents=True)
    write_json(file, sealed({"policy": str(weights), "policy_revision": "r2"}))
    start = find_start(root, "june")
    assert start == StartPolicy("june", str(weights), "r2", "june")
    with pytest.raises(Text2SqlError, match="cannot start from its own policy"):
        start.require_other("june")
    with pytest.raises(Text2SqlError, match="differ from their record"):
        start.require_revision("r3")
    write_json(file, sealed({"policy": str(root / "gone"), "policy_revision": "r2"}))
    with pytest.raises(Text2SqlError, match="weights of the training run june are missing"):
        find_start(root, "june")


def test_the_program_reads_the_settings_that_were_chosen(root):
    weights = require_weights(policy_directory("pocket"), "pocket")
    program = trl_program(TrlSettings(steps=7), weights, root)
    run = read_run(Path(program.command[-1]))
    assert (run.steps, run.policy_dir, run.output_dir) == (7, weights, root)
    assert program.reads == (weights, root / PROMPTS_FOLDER)
    values = json.loads(Path(program.command[-1]).read_text())
    Path(program.command[-1]).write_text(json.dumps(values | {"steps": 0}))
    with pytest.raises(Text2SqlError, match="not a GRPO configuration: steps is 0: Input should"):
        read_run(Path(program.command[-1]))
    with pytest.raises(Text2SqlError, match="is a server or on the hub"):
        require_weights(None, "http://models:8000/v1")
