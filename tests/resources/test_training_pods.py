"""Training in a pod: what it is made from, and a run with a stand-in for the cluster's API."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import dagster as dg
import pytest
import yaml

from resources.trainer import POD_TEMPLATE, KubernetesConfig, Program, TrainerResource
from tests.resources.pod_api import PodApi
from tests.support.golden_files import is_golden
from tests.support.prime_rl_place import REPO, Place
from tests.support.waiting import wait_until
from text2sql.errors import Text2SqlError
from text2sql.training.prime_rl.settings import read_settings

pytest.importorskip("dagster_k8s", reason="needs the extra kubernetes")

from resources.pods import Pod, explained, pod_parts

MANIFESTS = sorted((REPO / "deploy" / "kubernetes" / "training").glob("*.yaml"))
COMMAND = ("/here/python", "-m", "text2sql.training.prime_rl.launch", "/artifacts/run/config.json")
STEP = """
import sys
from pathlib import Path

import dagster as dg
from resources.trainer import TrainerResource
from text2sql.training.backends import Program

FOLDER = Path(sys.argv[1])

@dg.asset
def trained(context: dg.AssetExecutionContext, trainer: TrainerResource):
    trainer.run(context, Program([sys.executable, *sys.argv[3:]], 20), FOLDER, 600)

trainer = TrainerResource.model_validate_json(sys.argv[2])
dg.materialize([trained], resources={"trainer": trainer})
"""

HANGS = """
import sys, time
from pathlib import Path
folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
(folder / "metrics.jsonl").write_text('{"step": 1}\\n')
time.sleep(600)
"""


def pod(**changes) -> Pod:
    """A pod of the preset for 8 GPUs."""
    settings = KubernetesConfig(**changes)
    reads = (Path("/models/Qwen3.5-9B"), Path("/artifacts/prompts"))
    program = Program(COMMAND, gpus=8, reads=reads)
    return Pod(settings, program, Path("/artifacts/training/first/v"), 120.0)


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_manifests_are_what_kubernetes_accepts(file):
    import kubernetes_validate

    for document in yaml.safe_load_all(file.read_text()):
        latest = kubernetes_validate.latest_version()
        kubernetes_validate.validate(document, latest, strict=True)
        assert document["metadata"]["namespace"] == "text2sql"


def test_the_pod_is_the_golden_one():
    from dagster_k8s.pipes import build_pod_body
    from kubernetes.client import ApiClient

    wanted = pod(image="registry.example.org/own:7", python="/app/.venv/bin/python")
    meta, spec = pod_parts(wanted)
    body = build_pod_body("the-pod", wanted.settings.image, wanted.pod_command, {}, meta, spec)
    text = yaml.safe_dump(ApiClient().sanitize_for_serialization(body), sort_keys=True)
    is_golden("kubernetes/training_pod.yaml", text)


def test_a_pod_has_the_gpus_and_the_time_that_its_run_needs():
    spec = pod_parts(pod())[1]
    template = yaml.safe_load(POD_TEMPLATE.read_text())["spec"]
    settings = read_settings("prime_rl", {})
    asked = str(settings.train_gpus + settings.inference_gpus)
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == asked
    assert spec["terminationGracePeriodSeconds"] == 130
    assert template["terminationGracePeriodSeconds"] == 130
    shm = next(one for one in template["volumes"] if one["name"] == "shared-memory")
    assert shm["emptyDir"]["medium"] == "Memory"


BROKEN = [
    ("kind: Pod\nspec:\n  contain: []\n", "is not a manifest of a pod"),
    ("kind: [", "is not a manifest of a pod"),
    ("spec:\n  containers: [{name: a}, {name: b}]\n", "exactly one container"),
    ("spec:\n  containers: [{name: a}]\n", "is not below any volumeMount of"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN)
def test_a_template_that_will_not_do_is_refused(tmp_path, text, said):
    (tmp_path / "pod.yaml").write_text(text)
    with pytest.raises(Text2SqlError, match=said):
        pod_parts(pod(template=str(tmp_path / "pod.yaml")))


@pytest.fixture
def place(tmp_path):
    """A place with prime-rl's stand-ins."""
    return Place(tmp_path)


@pytest.fixture
def api(place):
    """A cluster whose pods find the stand-ins."""
    wanted = {name: place.environment[name] for name in ("PRIME_RL_DIR", "PATH")}
    with PodApi(place.folder, wanted) as api:
        yield api


def trainer_of(place: Place, api: PodApi) -> TrainerResource:
    """A trainer that starts pods there; the template mounts the place's folder."""
    manifest = yaml.safe_load(POD_TEMPLATE.read_text())
    manifest["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] = str(place.folder)
    template = place.folder / "pod.yaml"
    template.write_text(yaml.safe_dump(manifest))
    cluster = KubernetesConfig(
        template=str(template), python=sys.executable, kubeconfig=api.kubeconfig(), poll_seconds=0.2
    )
    return TrainerResource(where="kubernetes", kubernetes=cluster)


def train(
    place: Place, api: PodApi, stall_seconds=60.0, on_metrics=lambda _: None, command=(), **changes
):
    """Train in a pod, in a real Dagster step of this process."""
    program = Program(command or place.command(**changes), 20, gpus=2)

    @dg.asset
    def trained(context: dg.AssetExecutionContext, trainer: TrainerResource):
        found = trainer.run(context, program, place.output, stall_seconds, on_metrics)
        return dg.MaterializeResult(metadata=found)

    trainer = trainer_of(place, api)
    return dg.materialize([trained], resources={"trainer": trainer}, raise_on_error=False)


def failure_of(result) -> str:
    """What the failed step says."""
    (event,) = [one for one in result.all_events if one.is_step_failure]
    return event.step_failure_data.error.to_string()


def test_a_run_in_a_pod_is_followed_and_described(place, api):
    full, seen, running = place.folder / "full", [], []
    full.touch()
    threading.Timer(3.0, full.unlink).start()

    def observe(line):
        seen.append(line["step"])
        running.append(len(api.names()) == 1)

    place.behave(step_seconds=0.2)
    result = train(place, api, stall_seconds=30, on_metrics=observe, steps=12)
    assert result.success, failure_of(result)
    (event,) = result.get_asset_materialization_events()
    shown = {name: value.value for name, value in event.materialization.metadata.items()}
    assert shown["started with"] == "--clean" and len(shown["prime-rl commit"]) == 40
    assert set(seen) == set(range(1, 13)) and running[0]  # while it ran, not after it
    assert "The policy of step 12 is in" in (place.output / "train.log").read_text()
    assert "__dagster_pipes_version" not in (place.output / "train.log").read_text()
    (made,) = api.made
    assert made["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] == "2"
    assert not api.names() and place.is_clear()


def test_a_failure_is_told_with_the_end_of_the_log(place, api):
    place.behave(crash={"torchrun": [2, "torch.OutOfMemoryError: CUDA out of memory", 1]})
    said = failure_of(train(place, api))
    assert "Training ended with status 11 (Error)" in said
    assert "a GPU is out of memory; lower sequence_tokens" in said
    assert not api.names() and place.is_clear()


def test_a_stalled_pod_is_ended_and_the_time_in_the_queue_does_not_count(place, api):
    full = place.folder / "full"
    full.touch()
    threading.Timer(6.0, full.unlink).start()
    (place.folder / "hangs.py").write_text(HANGS)
    command = [sys.executable, str(place.folder / "hangs.py"), str(place.output)]
    said = failure_of(train(place, api, stall_seconds=5, command=command))
    assert "no progress for 5 s and was ended; the last step was 1" in said
    assert not api.names()


def test_a_pod_that_somebody_removes_ends_the_step(place, api):
    place.behave(step_seconds=0.3)
    removing = threading.Timer(0.0, lambda: api.delete(api.names()[0]))
    said = failure_of(train(place, api, on_metrics=lambda _: once(removing), steps=100))
    assert "Somebody removed the training pod; run it again to resume." in said
    assert place.is_clear()


def once(timer: threading.Timer) -> None:
    """Start a timer that was not started yet."""
    if timer.ident is None:
        timer.start()


def step(place: Place, api: PodApi) -> subprocess.Popen:
    """Start a process that trains in a pod."""
    script = place.folder / "step.py"
    script.write_text(STEP)
    trainer = trainer_of(place, api).model_dump(include={"where", "kubernetes"}, mode="json")
    command = place.command(steps=100)[1:]
    return subprocess.Popen(
        [sys.executable, str(script), str(place.output), json.dumps(trainer), *command],
        env=os.environ | {"PYTHONPATH": str(REPO)},
        stderr=(place.folder / "step.log").open("ab"),
    )


def test_a_cancelled_step_ends_its_pod_and_a_killed_one_leaves_it_to_the_next(place, api):
    place.behave(step_seconds=0.3)
    killed = step(place, api)
    assert wait_until(lambda: len(place.busy_ports()) == 3, 60)
    killed.kill()
    killed.wait()
    assert api.names() and place.busy_ports()
    with step(place, api) as cancelled:
        assert wait_until(lambda: len(api.made) == 2, 60)
        assert api.made[0]["metadata"]["name"] not in api.names()
        assert wait_until(lambda: len(place.busy_ports()) == 3, 60)
        cancelled.send_signal(signal.SIGINT)
        assert cancelled.wait(60) != 0
    assert not api.names() and wait_until(place.is_clear, 20)  # the pod's processes end after it
    assert "Stopped by SIGTERM: checkpoints are kept" in (place.output / "train.log").read_text()


def test_a_cluster_that_is_not_there_is_named(place, api):
    api.away = True
    said = failure_of(train(place, api))
    assert "rejects the request (503 Service Unavailable): the API is being updated" in said
    (place.folder / "kubeconfig").write_text("{}")
    with pytest.raises(Text2SqlError, match="No Kubernetes cluster is known"), explained():
        KubernetesConfig(kubeconfig=str(place.folder / "kubeconfig")).load()


def test_what_submits_a_job_itself_needs_no_pod(place, api):
    program = Program(place.command(backend="prime_rl_slurm"), 20, submits=True)

    @dg.asset
    def trained(context: dg.AssetExecutionContext, trainer: TrainerResource):
        trainer.run(context, program, place.output, 60)

    resources = {"trainer": trainer_of(place, api)}
    result = dg.materialize([trained], resources=resources, raise_on_error=False)
    assert "cannot run in a pod" in failure_of(result) and not api.made
