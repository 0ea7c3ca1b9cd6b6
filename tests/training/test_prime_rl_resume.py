"""How a run with prime-rl goes on, or starts afresh: with stand-ins for its programs."""

import pytest

from tests.support.prime_rl_place import Place
from text2sql.training.prime_rl.checkpoints import complete_checkpoint, incomplete_checkpoints
from text2sql.training.prime_rl.failures import failure


@pytest.fixture
def place(tmp_path):
    """A place with stand-ins."""
    return Place(tmp_path)


def test_a_crashed_run_goes_on_with_other_steps_and_learning_rate(place):
    place.behave(crash={"torchrun": [5, "boom", 1]})
    assert place.launch().returncode == 1
    place.behave()
    done = place.launch(steps=8, learning_rate=2e-5)
    assert "prime-rl starts with --resume.step 4." in done.stdout
    assert done.returncode == 0
    rates = {step: line["learning_rate"] for step, line in place.steps().items()}
    assert (rates[4], rates[5], max(rates)) == (1e-5, 2e-5, 8)


def test_half_a_checkpoint_is_none(place):
    place.behave(checkpoint_torn=True, crash={"torchrun": [5, "boom", 1]})
    place.launch()
    assert (place.run_dir / "checkpoints" / "step_4" / "trainer" / ".metadata").exists()
    place.behave()
    said = place.launch().stdout
    assert f"{place.run_dir / 'checkpoints' / 'step_4'} is incomplete and is skipped." in said
    assert "prime-rl starts with --clean." in said


@pytest.mark.parametrize("name", ["trainer/shard.distcp", "trainer/.metadata"])
@pytest.mark.parametrize("content", [b"", bytes(5000)], ids=["empty", "zeroed"])
def test_a_checkpoint_with_a_file_that_a_disk_lost_is_none(tmp_path, name, content):
    for step in (2, 4):
        for file in ("trainer/shard.distcp", "trainer/.metadata", "orchestrator/progress.pt"):
            path = tmp_path / "checkpoints" / f"step_{step}" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"PK")
    assert complete_checkpoint(tmp_path) == 4
    (tmp_path / "checkpoints" / "step_4" / name).write_bytes(content)
    assert complete_checkpoint(tmp_path) == 2
    assert incomplete_checkpoints(tmp_path) == [tmp_path / "checkpoints" / "step_4"]


def test_a_checkpoint_that_prime_rl_cannot_read_is_named(tmp_path):
    log = tmp_path / "rl.log"
    log.write_text("torch.distributed.checkpoint.api.CheckpointException: ranks:dict_keys([0])\n")
    found = failure(1, log, tmp_path / "run")
    assert found.exit_code == 19 and "remove the highest step below run/checkpoints" in str(found)


def test_a_finished_run_is_continued_or_started_afresh_only_on_request(place):
    assert place.launch().returncode == 0
    again = place.launch()
    assert again.returncode == 1 and "is already trained to step 6" in again.stderr
    less = place.launch(steps=4)
    assert less.returncode == 1 and "trained to step 6, but 4 steps are asked for" in less.stderr
    afresh = place.launch(fresh=True, steps=3)
    assert "prime-rl starts with --clean." in afresh.stdout
    assert set(place.steps()) == {1, 2, 3}
