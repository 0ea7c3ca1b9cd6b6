"""The benchmarks of rollouts in small: a server that spoils replies, a process that is killed."""

from benchmarks import rollout_cost, rollout_faults, rollout_kills
from benchmarks.rollout_server import FAULTS
from text2sql.policy.served.server import Retry


def test_server_faults_change_no_verdict(tmp_path):
    patient = Retry(attempts=8, first_wait=0.01, longest_wait=0.05)
    found = rollout_faults.measure(tmp_path, 60, retry=patient)
    assert found["verdicts"] == found["verdicts_without_faults"]
    assert (found["judged_otherwise"], found["unaccounted"]) == (0, 0)


def test_unanswered_rollouts_are_infrastructure_and_nothing_else(tmp_path):
    hasty = Retry(attempts=1)
    found = rollout_faults.measure(tmp_path, 60, share=0.1, seed=1, retry=hasty)
    assert set(found["faults"]) <= set(FAULTS)
    assert found["verdicts"]["infrastructure"] > 0
    assert (found["judged_otherwise"], found["unaccounted"]) == (0, 0)


def test_kills_lose_and_repeat_nothing(tmp_path):
    found = rollout_kills.measure(tmp_path, kills=3, count=120)
    assert found["rollouts"] == 120
    for name in ("missing", "lost", "repeated", "stored_twice"):
        assert found[name] == 0
    assert found["asked_again_as_in_flight"] <= found["in_flight_at_most"]


def test_the_cost_and_the_memory_are_measured(tmp_path):
    found = rollout_cost.processor_time(tmp_path, count=20, rounds=1, together=8)
    for name in ("agent", "stored", "requests_bare"):
        assert found[name]["client_ms"] > 0
    found = rollout_cost.memory(tmp_path, count=80, together=16)
    assert found["rollouts"] == 80
    assert found["store_mb"] > 0
