"""GRPO with TRL: real steps on a generated corpus, and a child that ends with its parent."""

import asyncio
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("trl")

import torch
from safetensors.torch import load_file

from tests.support.splits import load_split
from tests.support.tiny_policy import make_policy
from text2sql.agent.settings import AgentSettings
from text2sql.common.processes import GuardedProcess
from text2sql.datasets.pocket.corpus import CorpusSizes, generate
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.judge.verdicts import run_gold
from text2sql.policy.base import PolicyInfo
from text2sql.policy.local.policy import LocalPolicy, ModelPolicy
from text2sql.policy.weights import directory_revision
from text2sql.sandbox import Sandbox
from text2sql.training.metrics import MetricsFile
from text2sql.training.trl.output import last_checkpoint, mark_complete
from text2sql.training.trl.rollouts import Recorder, RolloutDrawer
from text2sql.training.trl.settings import GrpoRun, read_run, read_run_prompts
from text2sql.training.trl.train import _Steps, main, require_finite, train

SETTINGS = {"max_turns": 3, "max_tokens": 12, "output_chars": 500, "output_rows": 2}
SMALL = {"steps": 2, "groups_per_step": 2, "group_size": 3, "threads": 1, "save_every": 1}


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """A base policy, prompts and their gold results; returns the paths of a configuration."""
    folder = tmp_path_factory.mktemp("grpo")
    base = make_policy(folder / "base", context=1024)
    (base / "agent_config.json").write_text(json.dumps(SETTINGS))
    sizes = CorpusSizes(train=4, new_databases=1, unseen_words=1, general=1)
    questions = load_split(generate(folder / "corpus", 5, sizes), "train").questions
    with Sandbox(1) as sandbox:
        golds = [run_gold(question, sandbox) for question in questions]
    for name, rows in {"prompts": questions, "golds": golds}.items():
        lines = "".join(json.dumps(row.to_dict()) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)
    return {
        "policy_dir": str(base),
        "prompts": str(folder / "prompts.jsonl"),
        "golds": str(folder / "golds.jsonl"),
    }


def make_run(material, output, **changes):
    paths = {name: Path(value) for name, value in material.items()}
    return GrpoRun(**paths, output_dir=output, **(SMALL | changes))


def reward_by_tokens(earned, completion_ids, **_):
    """Rewards that differ: a random model never earns any from the judge."""
    return [float(sum(tokens) % 3) for tokens in completion_ids]


@pytest.fixture(scope="module")
def trained(material, tmp_path_factory):
    run = make_run(material, tmp_path_factory.mktemp("run"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Steps, "reward", staticmethod(reward_by_tokens))
        train(run)
    return run


def metrics(run):
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def weights(policy):
    return load_file(policy / "model.safetensors")


def same(left, right):
    return all(torch.allclose(left[name], right[name], atol=1e-6) for name in left)


def test_steps_write_metrics_checkpoints_and_a_policy_that_can_be_run(trained):
    lines = metrics(trained)
    assert [line["step"] for line in lines] == [1, 2]
    assert {"reward", "exact_match", "loss", "entropy", "completions_per_second"} < set(lines[0])
    assert all(0 <= line["exact_match"] <= 1 and line["invalid"] == 0 for line in lines)
    assert (trained.checkpoints / "checkpoint-2" / "optimizer.pt").is_file()
    policy = LocalPolicy(trained.policy, threads=1)
    asyncio.run(policy.close())
    assert policy.info.revision != directory_revision(trained.policy_dir)
    base = trained.policy_dir
    for name in ("tokenizer.json", "chat_template.jinja", "agent_config.json"):
        assert (trained.policy / name).read_bytes() == (base / name).read_bytes()
    record = json.loads((trained.policy / "training.json").read_text())
    assert record["base_revision"] == directory_revision(base)
    assert record["recipe"]["steps"] == 2
    assert not list(trained.output_dir.glob("policy.partial*"))


def test_a_stopped_run_goes_on_from_its_last_complete_checkpoint(
    trained, material, tmp_path, monkeypatch
):
    monkeypatch.setattr(_Steps, "reward", staticmethod(reward_by_tokens))
    run = make_run(material, tmp_path, steps=1)
    train(run)
    for leftover in run.policy.iterdir():
        leftover.unlink()
    run.policy.rmdir()
    (run.checkpoints / "checkpoint-9").mkdir()
    after_one = load_file(run.checkpoints / "checkpoint-1" / "model.safetensors")
    train(run.model_copy(update={"steps": 2}))
    assert [line["step"] for line in metrics(run)] == [1, 2]
    assert not (run.checkpoints / "checkpoint-9").exists()
    assert same(weights(run.policy), weights(trained.policy))
    assert not same(weights(run.policy), after_one)


def cut(file):
    os.truncate(file, file.stat().st_size // 2)


def zero(file):
    file.write_bytes(bytes(file.stat().st_size))


DAMAGES = {
    "model.safetensors": cut,
    "optimizer.pt": zero,
    "trainer_state.json": lambda file: file.write_text('{"global_step": 7}'),
    "scheduler.pt": Path.unlink,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_checkpoint_is_skipped_and_reported(trained, material, tmp_path, name):
    run = make_run(material, tmp_path)
    shutil.copytree(trained.checkpoints, run.checkpoints)
    newest, said = run.checkpoints / "checkpoint-2", []
    DAMAGES[name](newest / name)
    assert last_checkpoint(run, said.append) == str(run.checkpoints / "checkpoint-1")
    aside = f"({name}): it is skipped and kept as damaged-checkpoint-2."
    assert said == [f"{newest} is damaged {aside}"]
    assert sorted(path.name for path in run.checkpoints.glob("*-*")) == [
        *("checkpoint-1", "damaged-checkpoint-2")
    ]


@pytest.mark.parametrize("text", ["", "{}", "[]", "{"])
def test_a_checkpoint_whose_mark_is_damaged_is_none(material, tmp_path, text):
    run, said = make_run(material, tmp_path), []
    (run.checkpoints / "checkpoint-2").mkdir(parents=True)
    (run.checkpoints / "checkpoint-2" / "COMPLETE").write_text(text)
    assert last_checkpoint(run, said.append) is None
    assert "COMPLETE" in said[0]
    assert said[1:] == ["No checkpoint is left: training starts over from the base policy."]


def test_what_lies_beside_checkpoints_stays(material, tmp_path):
    run = make_run(material, tmp_path)
    for name in ("checkpoint-2", "checkpoint-10", "checkpoint-10-copy", "checkpoint-best"):
        (run.checkpoints / name).mkdir(parents=True)
    (run.checkpoints / "checkpoint-2" / "optimizer.pt").touch()
    mark_complete(run, 2)
    (run.checkpoints / "checkpoint-10-copy" / "COMPLETE").touch()
    (run.checkpoints / "checkpoint-notes.txt").touch()
    assert last_checkpoint(run, print) == str(run.checkpoints / "checkpoint-2")
    left = {path.name for path in run.checkpoints.iterdir()}
    assert left == {"checkpoint-2", "checkpoint-10-copy", "checkpoint-best", "checkpoint-notes.txt"}


@pytest.mark.parametrize("name", ["loss", "grad_norm"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_step_without_a_finite_number_ends_the_training(name, value):
    require_finite({"loss": 0.1, "grad_norm": 2.0}, 3)
    require_finite({"loss": 0.1}, 3)
    with pytest.raises(Text2SqlError, match=r"of step 3 is (?:nan|inf), not a finite number"):
        require_finite({"loss": 0.1, "grad_norm": 2.0} | {name: value}, 3)


def test_a_finished_run_is_kept_unless_it_is_to_start_afresh(trained):
    before = (trained.policy / "model.safetensors").stat().st_mtime_ns
    train(trained)
    assert (trained.policy / "model.safetensors").stat().st_mtime_ns == before


def test_leaving_out_what_has_no_gradient_changes_nothing(material, tmp_path, monkeypatch):
    def one_group_differs(earned, completion_ids, **_):
        return [float(i % 2) if i < 3 else 0.1 for i in range(len(completion_ids))]

    monkeypatch.setattr(_Steps, "reward", staticmethod(one_group_differs))
    short = make_run(material, tmp_path / "short", learning_rate=1e-3)
    train(short)
    monkeypatch.setattr("text2sql.training.trl.train.informative", lambda inputs: inputs)
    whole = make_run(material, tmp_path / "whole", learning_rate=1e-3)
    train(whole)
    assert same(weights(short.policy), weights(whole.policy))
    assert not same(weights(short.policy), weights(whole.policy_dir))


@pytest.fixture
def environment(material, tmp_path):
    run = make_run(material, tmp_path)
    questions, golds = read_run_prompts(run)
    with Sandbox(1) as sandbox:
        settings = AgentSettings.for_policy(run.policy_dir)
        yield (
            RolloutDrawer({q.key: q for q in questions}, golds, sandbox, settings, seed=3),
            questions,
        )


@pytest.fixture(scope="module")
def base(material):
    policy = LocalPolicy(material["policy_dir"], threads=1)
    yield policy
    asyncio.run(policy.close())


def test_the_same_seed_and_step_draw_the_same_rollouts(environment, base):
    source, questions = environment
    keys = [questions[0].key] * 3 + [questions[1].key] * 3

    def tokens(step):
        drawn = source.draw(base.model, base.tokenizer, keys, step)
        return [(recorder.prompt, recorder.completion) for recorder in drawn.recorders]

    first = tokens(1)
    assert tokens(1) == first
    assert tokens(2) != first
    assert len({tuple(completion) for _, completion in first}) > 2


def test_the_recorded_tokens_are_those_that_were_drawn(environment, base):
    source, questions = environment
    drawn = source.draw(base.model, base.tokenizer, [questions[0].key] * 4, 1)
    for rollout, recorder in zip(drawn.rollouts, drawn.recorders, strict=True):
        assert len(recorder.completion) == len(recorder.written)
        assert sum(recorder.written) == rollout.completion_tokens
        text = base.tokenizer.decode([*recorder.prompt, *recorder.completion])
        for message in rollout.messages[1:]:
            assert message["content"] in text


def test_a_later_turn_continues_the_drawn_tokens_though_they_spell_differently(base):
    scripted = iter(["al", "y"])

    class Scripted(ModelPolicy):
        """Writes each letter as a token of its own, which no tokenizer would do."""

        async def write(self, prompt, sampling, stream):
            from text2sql.policy.local.batching import Turn

            self.seen = prompt
            letters = [self.tokenizer.convert_tokens_to_ids(c) for c in next(scripted)]
            end = self.tokenizer.eos_token_id
            return Turn(prompt, 1.0, 1.0, 9, stream, reply=[*letters, end], stopped=True)

    policy = Scripted(base.model, base.tokenizer, PolicyInfo("scripted", "1"))
    recorder = Recorder(policy, None)

    async def talk():
        messages = [{"role": "user", "content": "q"}]
        messages.append((await recorder.complete(messages, [], None)).message)
        messages.append({"role": "user", "content": "more"})
        await recorder.complete(messages, [], None)
        await policy.close()

    asyncio.run(talk())
    first_turn = recorder.completion[:3]
    assert policy.seen[: len(recorder.prompt) + 3] == [*recorder.prompt, *first_turn]
    assert recorder.written == [1, 1, 1] + [0] * (len(recorder.written) - 5) + [1, 1]
    assert base.tokenizer.decode(recorder.completion[3:-2]).count("more") == 1


def test_a_step_whose_rollouts_fail_is_no_step(material, base, tmp_path):
    questions, golds = read_run_prompts(make_run(material, tmp_path))
    policy = ModelPolicy(base.model, base.tokenizer, PolicyInfo("x", "1"))
    asyncio.run(policy.close())
    settings = AgentSettings.for_policy(material["policy_dir"])
    with Sandbox(1) as sandbox:
        source = RolloutDrawer({q.key: q for q in questions}, golds, sandbox, settings, seed=1)
        forward = base.model.forward
        base.model.forward = None
        try:
            with pytest.raises(InfrastructureError, match="rollouts of step 1 failed"):
                source.draw(base.model, base.tokenizer, [questions[0].key] * 2, 1)
        finally:
            base.model.forward = forward


def test_the_control_shuffles_the_rewards(material, tmp_path):
    rewards = [1.0, None, 0.1, *[0.0] * 13]
    control = _Steps(make_run(material, tmp_path, shuffle_rewards=True), None, None)
    dealt = control._rewards(list(rewards), 1)
    assert dealt != rewards
    assert sorted(map(str, dealt)) == sorted(map(str, rewards))
    assert control._rewards(list(rewards), 1) == dealt
    plain = _Steps(make_run(material, tmp_path), None, None)
    assert plain._rewards(list(rewards), 1) == rewards


def write_config(folder, material, **changes):
    path = folder / "config.json"
    values = material | {"output_dir": str(folder / "out")} | SMALL | changes
    path.write_text(json.dumps(values))
    return path


def test_a_wrong_configuration_is_one_sentence(material, tmp_path, capsys):
    assert main([str(tmp_path / "none.json")]) == 1
    assert main([str(write_config(tmp_path, material, stepz=3))]) == 1
    assert main([str(write_config(tmp_path, material, groups_per_step=50))]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3
    assert "stepz" in errors[1]
    assert "4 prompts; a step needs 50" in errors[2]
    with pytest.raises(Text2SqlError, match="group_size"):
        read_run(write_config(tmp_path, material, group_size=1))


def test_metrics_survive_a_torn_line_and_hold_no_nan(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n{"st')
    file = MetricsFile(path)
    file.append({"step": 2, "loss": float("nan")})
    file.close()
    assert path.read_text().splitlines() == ['{"step": 1}', '{"st', '{"step": 2, "loss": null}']


CHILD = """
import os, subprocess, sys, time
from pathlib import Path
from text2sql.training.child import end_with_parent
end_with_parent()
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
Path(sys.argv[1] + ".part").write_text(f"{os.getpid()} {helper.pid}")
os.replace(sys.argv[1] + ".part", sys.argv[1])
time.sleep(600)
"""
PARENT = """
import os, subprocess, sys, time
reading, writing = os.pipe()
environment = os.environ | {"TEXT2SQL_HEARTBEAT_FD": str(reading)}
subprocess.Popen([sys.executable, *sys.argv[1:]], pass_fds=(reading,), env=environment)
os.close(reading)
time.sleep(600)
"""


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def start_parent(tmp_path):
    child, pids = tmp_path / "child.py", tmp_path / "pids"
    child.write_text(CHILD)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-c", PARENT, str(child), str(pids)]
    parent = subprocess.Popen(command, env=environment)
    wait_until(pids.exists)
    return parent, [int(pid) for pid in pids.read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("target", ["parent", "child"])
def test_nothing_outlives_a_killed_parent_or_an_ended_child(tmp_path, target):
    parent, pids = start_parent(tmp_path)
    try:
        if target == "parent":
            parent.kill()
        else:
            os.kill(pids[0], signal.SIGTERM)
        wait_until(lambda: not any(map(alive, pids)))
        assert (parent.poll() is None) == (target == "child")
    finally:
        parent.kill()
        parent.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_training_that_runs_ends_with_its_parent(material, tmp_path):
    config = write_config(tmp_path, material, steps=10_000, save_every=10_000)
    command = [sys.executable, "-c", PARENT, "-m", "text2sql.training.trl.train", str(config)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    parent = subprocess.Popen(command, env=environment)
    try:
        wait_until((tmp_path / "out" / "metrics.jsonl").exists, 120)
        below = children(parent.pid)
        everyone = [*below, *(pid for child in below for pid in children(child))]
        parent.kill()
        wait_until(lambda: not any(map(alive, everyone)))
        assert below
    finally:
        parent.kill()
        parent.wait()


def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


BETWEEN = """
import subprocess, sys
program = "from text2sql.training.child import end_with_parent; end_with_parent(); print('done')"
subprocess.run([sys.executable, "-c", program], check=True)
"""


def test_a_program_in_between_keeps_the_heartbeat_to_itself(tmp_path):
    log = tmp_path / "log"
    with GuardedProcess([sys.executable, "-c", BETWEEN], log) as running:
        assert running.process.wait(60) == 0, log.read_text()
    assert log.read_text() == "done\n"
