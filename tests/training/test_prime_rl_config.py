"""prime-rl's configuration: what is written, and what is refused before anything starts."""

import json
import subprocess
import sys
import tomllib

import dagster as dg
import pytest

from tests.support.agent_databases import ask, make_database
from tests.support.golden_files import is_golden
from tests.support.prime_rl_files import FILES, config_of
from text2sql.agent.settings import AgentSettings
from text2sql.errors import Text2SqlError
from text2sql.judge.verdicts import run_gold
from text2sql.sandbox import Sandbox
from text2sql.training.prime_rl.checkout import prime_rl_directory, rl_environment, rl_program
from text2sql.training.prime_rl.preflight import dry_run
from text2sql.training.prime_rl.settings import (
    PRIME_RL,
    PrimeRlSettings,
    SingleNode,
    SlurmNodes,
    TwoGpusLora,
    read_settings,
)
from text2sql.training.prime_rl.slurm import SCRIPT
from text2sql.training.prime_rl.toml import rl_config, write_toml
from text2sql.training.prompts import read_prompts

GOLDEN = {
    "prime_rl": "prime_rl_8gpu.toml",
    "prime_rl_lora": "prime_rl_2gpu-lora.toml",
    "prime_rl_slurm": "prime_rl_slurm.toml",
}


@pytest.mark.parametrize("backend", PRIME_RL)
def test_the_file_is_the_golden_one(backend, tmp_path):
    write_toml(config_of(backend), tmp_path / "rl.toml")
    text = (tmp_path / "rl.toml").read_text("utf-8")
    is_golden(GOLDEN[backend], text)
    assert tomllib.loads(text) == config_of(backend)


def test_the_defaults_are_those_of_the_published_run():
    config = config_of("prime_rl")
    train = config["orchestrator"]["train"]
    agent = train["source"][0]["env"]["agent"]
    assert (config["max_steps"], config["orchestrator"]["group_size"]) == (200, 8)
    assert train["sampling"]["temperature"] == 1.0
    assert (agent["max_turns"], agent["harness"]["settings"]["max_turns"]) == (12, 12)
    assert "lora" not in config["trainer"]["model"]


def test_a_lora_run_names_the_adapter_for_the_trainer_and_for_the_server():
    config = config_of("prime_rl_lora", lora_rank=16)
    assert config["trainer"]["model"]["lora"]["rank"] == 16
    assert config["orchestrator"]["model"]["lora"]["name"] == "text2sql"
    deployment = config["deployment"]
    assert deployment["num_train_gpus"] + deployment["num_infer_gpus"] == 2


def test_a_slurm_job_installs_the_environment_after_prime_rl_has_removed_it():
    files = FILES.model_copy(update={"package": FILES.output_dir / "our package"})
    config = rl_config(read_settings("prime_rl_slurm", {"account": "nlp"}), files)
    install = "uv pip install --no-deps '/data/runs/our package'"
    assert config["slurm"]["pre_run_command"] == install
    assert config["slurm"]["account"] == "nlp"
    nodes = config["deployment"]["num_infer_nodes"]
    assert config["inference"]["deployment"]["num_nodes"] == nodes == 2


def test_limits_set_here_win_over_the_base_policys_and_the_rest_is_kept():
    settings = read_settings("prime_rl", {"max_turns": 6, "reply_tokens": 512})
    base = AgentSettings(max_turns=9, evidence=False, cell_chars=50)
    config = rl_config(settings, FILES.model_copy(update={"agent": base.to_dict()}))
    agent = config["orchestrator"]["train"]["source"][0]["env"]["agent"]
    expected = AgentSettings(max_turns=6, max_tokens=512, evidence=False, cell_chars=50)
    assert agent["harness"]["settings"] == expected.to_dict()
    assert agent["max_turns"] == 6


@pytest.mark.parametrize("changes", [{"evaluate_every": 0}, {}])
def test_a_run_without_evaluation_has_no_such_table(changes):
    files = (
        FILES
        if changes
        else FILES.model_copy(update={"evaluation_prompts": None, "evaluation_golds": None})
    )
    config = rl_config(read_settings("prime_rl", changes), files)
    assert "eval" not in config["orchestrator"]


REFUSED = [
    ("prime_rl", {"step": 5}, "there is no setting step"),
    ("prime_rl", {"train_nodes": 2}, "there is no setting train_nodes"),
    ("prime_rl_slurm", {"train_gpus": 2}, "there is no setting train_gpus"),
    ("prime_rl", {"group_size": 1}, "group_size is 1"),
    ("prime_rl", {"temperature": 0}, "temperature is 0"),
    ("prime_rl", {"steps": "many"}, "steps is 'many'"),
    ("prime_rl", {"learning_rate": float("nan")}, "learning_rate is nan"),
    ("prime_rl", {"inference_gpus": 5}, "9 together, gpus_per_node is 8"),
    ("prime_rl", {"tensor_parallel": 3}, "not a multiple of tensor_parallel"),
    ("prime_rl_slurm", {"tensor_parallel": 3}, "not a multiple of tensor_parallel"),
    ("prime_rl", {"reply_tokens": 16_384}, "leave no room"),
    ("prime_rl", {"rollouts_in_flight": 15}, "must be at least twice group_size"),
    ("prime_rl_lora", {"lora_rank": 0}, "lora_rank is 0"),
    ("prime_rl_lora", {"train_gpus": 2}, "3 together, gpus_per_node is 2"),
    ("prime_rl_slurm", {"time_limit": "tomorrow"}, "time_limit is 'tomorrow'"),
    ("prime_rl_4gpu", {}, "use prime_rl, prime_rl_lora, prime_rl_slurm"),
]


@pytest.mark.parametrize(("backend", "values", "words"), REFUSED)
def test_wrong_settings_are_refused_in_one_sentence(backend, values, words):
    with pytest.raises(Text2SqlError) as refusal:
        read_settings(backend, values)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value) and str(refusal.value).endswith(".")


@pytest.mark.parametrize(
    ("backend", "missing", "words"),
    [
        ("prime_rl", {"evaluation_golds": None}, "needs both its prompts and gold results"),
        ("prime_rl_slurm", {"package": None}, "needs prime-rl's checkout"),
        ("prime_rl", {"prompts": FILES.prompts.relative_to("/")}, "give an absolute path"),
    ],
)
def test_missing_and_relative_paths_are_refused(backend, missing, words):
    with pytest.raises(Text2SqlError, match=words):
        rl_config(read_settings(backend, {}), FILES.model_copy(update=missing))


@pytest.mark.parametrize("count", [0, 3, 4])
def test_fewer_prompts_than_a_step_needs_are_refused(tmp_path, count):
    database = make_database(tmp_path / "shop.db")
    questions = [ask(database, key=f"t/{n}", sql="SELECT 1") for n in range(count)]
    with Sandbox(1) as sandbox:
        golds = [run_gold(question, sandbox) for question in questions]
    files = FILES.model_copy(
        update={"prompts": tmp_path / "p.jsonl", "golds": tmp_path / "g.jsonl"}
    )
    for path, rows in ((files.prompts, questions), (files.golds, golds)):
        path.write_text("".join(json.dumps(row.to_dict()) + "\n" for row in rows))
    if count == 4:
        found, _ = read_prompts(files.prompts, files.golds, 4, "prompts_per_step")
        assert found == questions
        return
    with pytest.raises(Text2SqlError, match=f"has {count} prompts; a step needs 4.*prompts_per"):
        read_prompts(files.prompts, files.golds, 4, "prompts_per_step")


class SingleNodeForm(dg.Config, SingleNode):
    """Settings as Dagster's launchpad shows them."""


class TwoGpusForm(dg.Config, TwoGpusLora):
    """Another one."""


class SlurmForm(dg.Config, SlurmNodes):
    """And the third."""


class Form(dg.Config):
    """What an asset would take."""

    single: SingleNodeForm = SingleNodeForm()
    two: TwoGpusForm = TwoGpusForm()
    slurm: SlurmForm = SlurmForm()


def test_the_settings_are_a_form_in_dagster():
    seen = []

    @dg.op
    def look(config: Form):
        seen.append(config)

    @dg.job
    def looking():
        look()

    given = {"ops": {"look": {"config": {"two": {"steps": 7}}}}}
    assert looking.execute_in_process(run_config=given).success
    assert isinstance(seen[0].two, PrimeRlSettings)
    assert seen[0].two.model_dump() == TwoGpusLora(steps=7).model_dump()
    with pytest.raises(dg.DagsterInvalidConfigError):
        looking.execute_in_process(
            run_config={"ops": {"look": {"config": {"slurm": {"train_gpus": 1}}}}}
        )


def test_every_setting_has_a_description_and_a_default():
    for settings in PRIME_RL.values():
        for name, field in settings.model_fields.items():
            assert field.description and not field.is_required(), name


def stand_in(folder, body):
    """A folder like prime-rl's checkout, whose ``rl`` is a small program."""
    program = folder / ".venv" / "bin" / "rl"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\n{body}")
    program.chmod(0o755)
    return folder


def test_prime_rls_own_refusal_is_shown(tmp_path):
    directory = stand_in(
        tmp_path, "import sys\nprint('\\x1b[31mextra inputs: steps\\x1b[0m')\nsys.exit(1)"
    )
    with pytest.raises(Text2SqlError, match=r"\(status 1\):\nextra inputs: steps$"):
        dry_run(config_of("prime_rl"), directory)


def test_a_dry_run_leaves_the_runs_directory_alone(tmp_path):
    directory = stand_in(
        tmp_path,
        "import pathlib, shutil, sys, tomllib\n"
        "table = tomllib.loads(pathlib.Path(sys.argv[2]).read_text())\n"
        "print(sys.argv[1], sys.argv[3], table['output_dir'], shutil.which('rl'))",
    )
    sign, flag, output_dir, program = dry_run(config_of("prime_rl"), directory).split()
    assert (sign, flag) == ("@", "--dry-run")
    assert output_dir != str(FILES.output_dir)
    assert program == str(directory / ".venv" / "bin" / "rl")


def test_a_folder_without_prime_rl_is_refused(tmp_path):
    with pytest.raises(Text2SqlError, match=r"which has no \.venv/bin/rl"):
        dry_run(config_of("prime_rl"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("backend", PRIME_RL)
def test_prime_rl_accepts_every_backend(backend, tmp_path):
    directory = prime_rl_directory()
    if directory is None:
        pytest.skip("PRIME_RL_DIR does not name prime-rl's checkout")
    files = FILES.model_copy(update={"output_dir": tmp_path, "prime_rl_dir": directory})
    config = rl_config(read_settings(backend, {}), files)
    assert dry_run(config, directory)


@pytest.mark.slow
def test_prime_rl_writes_the_job_that_is_submitted(tmp_path):
    directory = prime_rl_directory()
    if directory is None:
        pytest.skip("PRIME_RL_DIR does not name prime-rl's checkout")
    files = FILES.model_copy(
        update={"name": "run", "output_dir": tmp_path, "prime_rl_dir": directory}
    )
    settings = read_settings("prime_rl_slurm", {"partition": "gpu", "failure_wait_seconds": 77})
    write_toml(rl_config(settings, files), tmp_path / "rl.toml")
    command = [str(rl_program(directory)), "@", str(tmp_path / "rl.toml"), "--clean", "--dry-run"]
    done = subprocess.run(
        command,
        cwd=directory,
        env=rl_environment(directory),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout.decode()
    script = (tmp_path / "run" / SCRIPT).read_text()
    for words in ("--nodes=4", "--partition=gpu", "--time=24:00:00", "sleep 77",
                  "uv pip install --no-deps /srv/text2sql"):  # fmt: skip
        assert words in script
