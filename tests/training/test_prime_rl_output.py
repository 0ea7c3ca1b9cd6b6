"""What prime-rl leaves: metrics that are followed, checkpoints to go on from, weights to serve."""

import json
import struct
import tracemalloc

import pytest

from text2sql.agent.settings import AgentSettings
from text2sql.errors import Text2SqlError
from text2sql.policy.open import open_policy, policy_directory
from text2sql.policy.weights import directory_revision, read_adapter, tensors
from text2sql.training.prime_rl import metrics as metrics_module
from text2sql.training.prime_rl.assemble import assemble, verify_weights
from text2sql.training.prime_rl.checkpoints import (
    complete_checkpoint,
    prune_broadcasts,
    stable_weights,
    start_arguments,
)
from text2sql.training.prime_rl.failures import failure
from text2sql.training.prime_rl.metrics import MergedMetrics, alarm_of, shown

TRAINER, ORCHESTRATOR = "metrics.trainer.jsonl", "metrics.orchestrator.jsonl"
REWARD = "train/agg/effective/agent/reward/mean"


def write_rows(path, rows):
    """Append rows as prime-rl does."""
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def merged(path):
    """The merged metrics by step."""
    steps = {}
    for line in map(json.loads, path.read_text().splitlines()):
        steps.setdefault(line["step"], {}).update(line)
    return steps


@pytest.mark.slow
def test_ten_thousand_steps_are_followed_with_flat_memory(tmp_path):
    metrics = MergedMetrics(tmp_path, tmp_path / "metrics.jsonl", 10_000)
    padding = {f"perf/other_{number}": 1.0 for number in range(40)}
    for first in range(1, 10_001, 2_500):
        steps = range(first, first + 2_500)
        rows = ({"step": s, "time": 1.0, REWARD: 0.5, "off_policy/mean": 1.0} for s in steps)
        write_rows(tmp_path / ORCHESTRATOR, rows)
        for name in ("loss/mean", "time/step"):
            write_rows(tmp_path / TRAINER, ({"step": s, name: 2.0} | padding for s in steps))
    assert (tmp_path / TRAINER).stat().st_size > 15_000_000
    tracemalloc.start()
    count = len(metrics.poll()) + sum(1 for _ in metrics.close())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    steps = merged(tmp_path / "metrics.jsonl")
    assert len(steps) == 10_000 and count >= 10_000
    assert all({"reward", "loss", "seconds"} <= set(line) for line in steps.values())
    assert peak < 8_000_000


def test_rows_of_a_step_become_one_line_and_the_trainers_time_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics_module, "SETTLE_SECONDS", 0.0)
    metrics = MergedMetrics(tmp_path, tmp_path / "metrics.jsonl", 10)
    write_rows(tmp_path / ORCHESTRATOR, [{"step": 4, REWARD: 0.5, "time/step": 99.0}])
    write_rows(tmp_path / TRAINER, [{"step": 4, "loss/mean": 0.1}, {"step": 4, "time/step": 60.0}])
    (line,) = metrics.poll()
    assert (line["reward"], line["loss"], line["seconds"]) == (0.5, 0.1, 60.0)
    assert line["seconds_left"] == 360.0 and line["estimated_end"].endswith("+00:00")
    assert list(metrics.close()) == []


def test_what_is_no_number_or_no_row_is_left_out(tmp_path):
    metrics = MergedMetrics(tmp_path, tmp_path / "metrics.jsonl", 10)
    text = (
        '{"step": 1, "loss/mean": NaN}\n{"step": 1, "lo\n[1]\n{"step": 2, "loss/mean": 1.0}\n{"st'
    )
    (tmp_path / TRAINER).write_text(text)
    bare, whole = metrics.close()
    assert (bare, whole) == ({"step": 1, "loss": None}, {"step": 2, "loss": 1.0})
    assert "ALARM: loss of this step is not a finite number" in shown(bare, 10)
    written = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(written.splitlines()[0]) == bare


def test_garbage_in_a_metrics_file_is_passed_over(tmp_path):
    metrics = MergedMetrics(tmp_path, tmp_path / "metrics.jsonl", 10)
    garbage = [b"\0" * 9, b"\xff\xfe", b"[" * 100_000, b'{"step": ' + b"9" * 5000 + b"}", b"null"]
    row = b'{"step": 2, "loss/mean": 1.0}'
    (tmp_path / TRAINER).write_bytes(b"\r\n".join([*garbage, row, b""]))
    assert list(metrics.close()) == [{"step": 2, "loss": 1.0}]


@pytest.mark.parametrize("seconds", [-5.0, 1e300, 10**400, float("nan"), "60", True])
def test_times_that_no_step_takes(tmp_path, seconds):
    metrics = MergedMetrics(tmp_path, tmp_path / "metrics.jsonl", 10)
    write_rows(tmp_path / TRAINER, [{"step": 1, "loss/mean": 1.0, "time/step": seconds}])
    (line,) = metrics.close()
    assert 0 <= line.get("seconds_left", 0) <= 9 * 86_400


def test_the_alarm_is_above_its_level_only():
    assert not alarm_of({"kl": 0.015}) and not alarm_of({}) and not alarm_of({"reward": None})
    assert "ALARM: the KL mismatch is 0.0160" in shown({"step": 3, "kl": 0.016}, 10)


def checkpoint(run, step, trainer=True, orchestrator=True):
    """Write a checkpoint, or half of one."""
    for name, file, there in (
        ("trainer", ".metadata", trainer),
        ("orchestrator", "progress.pt", orchestrator),
    ):
        folder = run / "checkpoints" / f"step_{step}" / name
        folder.mkdir(parents=True)
        if there:
            (folder / file).write_bytes(b"x")


def weights(run, step, stable=True):
    """Write an empty folder of weights."""
    folder = run / "broadcasts" / f"step_{step}"
    folder.mkdir(parents=True)
    if stable:
        (folder / "STABLE").touch()
    return folder


def test_the_highest_checkpoint_with_both_halves_counts(tmp_path):
    assert complete_checkpoint(tmp_path) is None
    for step in (20, 100, 40):
        checkpoint(tmp_path, step)
    checkpoint(tmp_path, 120, orchestrator=False)
    checkpoint(tmp_path, 140, trainer=False)
    assert complete_checkpoint(tmp_path) == 100
    assert start_arguments(tmp_path, 200, fresh=False) == ["--resume.step", "100"]
    assert start_arguments(tmp_path, 200, fresh=True) == ["--clean"]
    with pytest.raises(Text2SqlError, match="trained to step 100, but 90 steps are asked for"):
        start_arguments(tmp_path, 90, fresh=False)


def test_without_a_checkpoint_it_starts_anew_and_with_the_last_weights_not_at_all(tmp_path):
    weights(tmp_path, 3)
    weights(tmp_path, 4, stable=False)
    assert stable_weights(tmp_path) == 3
    assert start_arguments(tmp_path, 4, fresh=False) == ["--clean"]
    assert start_arguments(tmp_path, 3, fresh=False) is None


def test_older_weights_go_but_those_of_checkpoints_stay(tmp_path):
    for step in (18, 19, 20, 21):
        weights(tmp_path, step)
    checkpoint(tmp_path, 20)
    removed = prune_broadcasts(tmp_path, 21)
    assert [folder.name for folder in removed] == ["step_18", "step_19"]
    assert sorted(path.name for path in (tmp_path / "broadcasts").iterdir()) == [
        "step_20",
        "step_21",
    ]


def shard(path, names):
    """Write a safetensors file of one number a tensor."""
    header = {
        name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * at, 4 * at + 4]}
        for at, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(4 * len(names)))


@pytest.fixture
def broadcast(tmp_path):
    """Weights in two shards with their index."""
    folder = weights(tmp_path, 7)
    shard(folder / "model-1.safetensors", ["a", "b"])
    shard(folder / "model-2.safetensors", ["c"])
    places = {"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}
    index = json.dumps({"weight_map": places})
    (folder / "model.safetensors.index.json").write_text(index)
    return folder


def test_a_policy_is_whole_and_named_by_its_hashes(broadcast, tmp_path):
    target = tmp_path / "policy"
    record = assemble(broadcast, policy_directory("pocket"), target, AgentSettings(max_turns=5))
    assert (record["step"], len(record["sha256"])) == (7, 3)
    assert AgentSettings.for_policy(target).max_turns == 5
    names = {path.name for path in target.iterdir()}
    assert {"config.json", "tokenizer.json", "chat_template.jinja", "training.json"} <= names
    again = assemble(broadcast, policy_directory("pocket"), target, AgentSettings(max_turns=5))
    assert again["revision"] == record["revision"]
    assert not list(tmp_path.glob("*.partial*"))


def test_an_adapter_is_no_model_by_itself(tmp_path):
    folder = weights(tmp_path, 7)
    shard(folder / "adapter_model.safetensors", ["a"])
    (folder / "adapter_config.json").write_text('{"r": 32}')
    target = tmp_path / "policy"
    record = assemble(folder, policy_directory("pocket"), target, AgentSettings())
    assert record["vllm_arguments"][1:3] == ["--max-lora-rank", "32"]
    assert not (target / "config.json").exists()
    assert read_adapter(target).base == policy_directory("pocket")
    revision = directory_revision(target)
    assert record["revision"] == revision
    for name, change in (
        ("training.json", lambda text: text.replace(record["base_revision"], "0" * 16)),
        ("adapter_config.json", lambda text: text.replace("32", "16")),
    ):
        text = (target / name).read_text()
        (target / name).write_text(change(text))
        assert directory_revision(target) != revision
        (target / name).write_text(text)
    with pytest.raises(Text2SqlError, match="is an adapter, which only vLLM can serve"):
        open_policy(str(target))
    (target / "training.json").write_text("{}")
    with pytest.raises(Text2SqlError, match="is an adapter without its base model"):
        directory_revision(target)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda f: (f / "STABLE").unlink(), "has no STABLE"),
        (lambda f: (f / "model-2.safetensors").unlink(), "model-2.*cannot be read"),
        (lambda f: shard(f / "model-2.safetensors", ["d"]), "and its shards differ: c in model-2"),
        (lambda f: (f / "model.safetensors.index.json").unlink(), "neither weights nor an index"),
        (lambda f: (f / "model.safetensors.index.json").write_text("{"), "cannot be read as JSON"),
        (lambda f: cut(f / "model-1.safetensors"), "is [0-9]+ bytes long; its header says"),
        (lambda f: (f / "model-1.safetensors").write_bytes(b"\xff" * 64), "its header would be"),
    ],
)
def test_weights_that_are_not_whole_are_refused(broadcast, tmp_path, harm, said):
    verify_weights(broadcast)
    harm(broadcast)
    with pytest.raises(Text2SqlError, match=said):
        assemble(broadcast, policy_directory("pocket"), tmp_path / "policy", AgentSettings())
    assert not (tmp_path / "policy").exists()


def cut(path):
    """Cut a file's last byte off."""
    path.write_bytes(path.read_bytes()[:-1])


def test_the_shipped_weights_can_be_read():
    assert len(tensors(policy_directory("pocket") / "model.safetensors")) > 10


def test_an_unknown_cause_shows_how_every_components_log_ends(tmp_path):
    logs = tmp_path / "logs" / "attempt"
    (logs / "envs").mkdir(parents=True)
    (tmp_path / "logs" / "latest").symlink_to(logs)
    (logs / "trainer.log").write_text("begun\nSegmentation fault (core dumped)\n")
    (logs / "orchestrator.log").write_text("a\n" * 99 + "all rollouts filtered\n")
    (logs / "envs" / "train.log").write_text("")
    (tmp_path / "rl.log").write_text("trainer ended with exit code 1\n")
    said = str(failure(1, tmp_path / "rl.log", tmp_path))
    assert "rl.log ends with:\ntrainer ended with exit code 1\n" in said
    assert "trainer.log:\nbegun\nSegmentation fault (core dumped)" in said
    assert "orchestrator.log:\na\na\na\nall rollouts filtered" in said
    assert "train.log:" not in said.replace("trainer.log", "")


def test_a_signal_without_a_word_is_a_kill(tmp_path):
    for status in (-9, 137):
        error = failure(status, tmp_path / "rl.log", tmp_path)
        assert (error.exit_code, f"ended with status {status}" in str(error)) == (15, True)


@pytest.mark.parametrize(
    "line, code",
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", 11),
        ("RuntimeError: CUDA error: out of memory", 11),
        ("torch.OutOfMemoryError: HIP out of memory.", 11),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate", 11),
        ("ValueError: Free memory on device (1.2/79.1 GiB) on startup is less than desired", 11),
        ("OSError: [Errno 98] Address already in use", 18),
        ("[Errno 98] error while attempting to bind on address ('0.0.0.0', 8000)", 18),
        ("RuntimeError: The server socket has failed to listen on any local network address: "
         "EADDRINUSE", 18),
        ("OSError: [Errno 122] Disk quota exceeded", 14),
        ("RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:94", 13),
        ("exited with code 137", 15),
    ],
)  # fmt: skip
def test_causes_as_logs_word_them(tmp_path, line, code):
    (tmp_path / "rl.log").write_text(f"starting\n{line}\nbye\n")
    error = failure(1, tmp_path / "rl.log", tmp_path)
    assert (error.exit_code, line in str(error)) == (code, True)
