"""The Kubernetes profile: its manifests, its instance, and the executor that it chooses."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dagster._core.instance.config import dagster_instance_config

from pipelines.executors import EXECUTOR_VARIABLE, STEPS_VARIABLE, choose_executor
from resources.step_pods import (
    ACCOUNT_VARIABLE,
    CONFIG_TAG,
    SAMPLING_VARIABLE,
    TRAINING_VARIABLE,
    gpu_pod,
    training_pod,
)
from tests.pipelines.kubernetes_tools import PROFILE, confined, validate
from text2sql.errors import Text2SqlError

REPO = Path(__file__).resolve().parents[2]
MANIFESTS = sorted(
    file
    for file in PROFILE.glob("*.yaml")
    if file.name not in ("kustomization.yaml", "dagster.yaml", "workspace.yaml")
)
pytest.importorskip("dagster_k8s", reason="needs the extra kubernetes")


def documents(*files: Path) -> list[dict]:
    """Return what manifests hold."""
    return [one for file in files for one in yaml.safe_load_all(file.read_text()) if one]


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_manifests_are_what_kubernetes_accepts(file):
    found = documents(file)
    assert found
    for document in found:
        validate(document)


def pods() -> list[dict]:
    """Return the pod templates of the profile's deployments."""
    kinds = documents(*MANIFESTS)
    return [one["spec"]["template"]["spec"] for one in kinds if one["kind"] == "Deployment"]


def test_pods_are_confined_and_what_they_name_is_there():
    made = {(one["kind"], one["metadata"]["name"]) for one in documents(*MANIFESTS)}
    made.add(("ConfigMap", "text2sql-dagster"))
    assert len(pods()) == 3
    for pod in pods():
        assert confined(pod)
        assert ("ServiceAccount", pod["serviceAccountName"]) in made
        for volume in pod["volumes"]:
            if claim := volume.get("persistentVolumeClaim"):
                assert ("PersistentVolumeClaim", claim["claimName"]) in made
            else:
                assert ("ConfigMap", volume["configMap"]["name"]) in made
        for container in pod["containers"]:
            for source in container["envFrom"]:
                (kind, reference), *_ = source.items()
                kinds = {"configMapRef": "ConfigMap", "secretRef": "Secret"}
                assert (kinds[kind], reference["name"]) in made


def test_dagster_may_do_what_it_asks_for_and_no_more():
    (role,) = [one for one in documents(PROFILE / "access.yaml") if one["kind"] == "Role"]
    given = {
        (verb, kind)
        for rule in role["rules"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    }
    client = importlib.import_module("dagster_k8s.client")
    calls = re.findall(r"(?:batch|core)_api\.(\w+)\(", Path(client.__file__).read_text())
    kinds = {"job": "jobs", "job_status": "jobs/status", "pod": "pods", "pod_log": "pods/log"}
    kinds |= {"event": "events"}
    needed = set()
    for call in calls:
        verb, kind = re.fullmatch(r"(\w+?)_namespaced_(\w+)", call).groups()
        needed.add(({"read": "get"}.get(verb, verb), kinds[kind]))
    assert given == needed


@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl")
def test_kustomization_gives_all_pods_and_runs_one_image():
    command = ["kubectl", "kustomize", str(PROFILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = list(yaml.safe_load_all(done.stdout))
    for document in found:
        validate(document)
        if document["kind"] != "Namespace":
            assert document["metadata"]["namespace"] == "text2sql"
    images = set(re.findall(r"image: (\S+)", done.stdout))
    configs = {one["metadata"]["name"]: one for one in found if one["kind"] == "ConfigMap"}
    given = configs["text2sql-dagster"]["data"]
    assert given["dagster.yaml"] == (PROFILE / "dagster.yaml").read_text()
    assert f"value: {images.pop()}" in done.stdout and not images


def test_instance_is_what_dagster_accepts():
    found, _ = dagster_instance_config(str(PROFILE))
    assert found["run_monitoring"]["max_resume_run_attempts"] == 0
    from dagster._config import process_config, resolve_to_config_type
    from dagster_k8s import K8sRunLauncher

    launcher = process_config(
        resolve_to_config_type(K8sRunLauncher.config_type()), found["run_launcher"]["config"]
    )
    assert launcher.success, launcher.errors


def test_without_gpus_a_step_asks_for_nothing(monkeypatch):
    monkeypatch.delenv(SAMPLING_VARIABLE, raising=False)
    assert gpu_pod(SAMPLING_VARIABLE) == {}
    monkeypatch.setenv(SAMPLING_VARIABLE, "0")
    assert gpu_pod(SAMPLING_VARIABLE) == {}
    monkeypatch.setenv(SAMPLING_VARIABLE, "all")
    with pytest.raises(Text2SqlError, match="TEXT2SQL_SAMPLING_GPUS is 'all'"):
        gpu_pod(SAMPLING_VARIABLE)


def test_training_in_a_pod_of_its_own_needs_an_account_instead_of_gpus(monkeypatch):
    monkeypatch.setenv(TRAINING_VARIABLE, "8")
    monkeypatch.setenv(ACCOUNT_VARIABLE, "text2sql-launcher")
    config = training_pod()[CONFIG_TAG]
    assert config["pod_spec_config"]["service_account_name"] == "text2sql-launcher"
    assert "container_config" not in config


def test_executor_is_chosen_by_the_environment(monkeypatch):
    for name, executor in (
        ("", "multiprocess"),
        ("kubernetes", "k8s"),
        ("in_process", "in_process"),
    ):
        monkeypatch.setenv(EXECUTOR_VARIABLE, name)
        assert choose_executor().name == executor
    monkeypatch.setenv(EXECUTOR_VARIABLE, "celery")
    with pytest.raises(Text2SqlError, match="TEXT2SQL_EXECUTOR is 'celery': use one of processes,"):
        choose_executor()
    monkeypatch.setenv(EXECUTOR_VARIABLE, "processes")
    monkeypatch.setenv(STEPS_VARIABLE, "0")
    with pytest.raises(Text2SqlError, match="TEXT2SQL_STEPS is '0'"):
        choose_executor()


def test_definitions_load_with_steps_as_pods():
    settings = documents(PROFILE / "settings.yaml")[0]["data"]
    code = (
        "from pipelines.definitions import defs\n"
        "print(defs.resolve_job_def('lifecycle').executor_def.name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPO,
        env=os.environ | settings,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "k8s\n", done.stderr
