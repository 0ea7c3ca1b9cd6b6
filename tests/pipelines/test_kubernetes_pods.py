"""The pods of runs, of shards that are sampled, and of training, on a stand-in for a cluster."""

import json
import re
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.reconstruct import ReconstructableRepository

from pipelines.definitions import defs
from pipelines.executors import EXECUTOR_VARIABLE, STEP_PODS
from pipelines.partitions import add_training_run
from resources.step_pods import TRAINING_VARIABLE, training_pod
from tests.pipelines.kubernetes_tools import PROFILE, confined, validate
from tests.resources.cluster import Cluster
from tests.support.golden_files import is_golden
from tests.support.lifecycle_tools import CORPUS, answering
from tests.support.waiting import wait_until

pytest.importorskip("dagster_k8s", reason="needs the extra kubernetes")


def profile(folder: Path, cluster: Cluster) -> dict:
    """Return the profile's instance with records and values in a folder, and this cluster."""
    config = yaml.safe_load((PROFILE / "dagster.yaml").read_text())
    del config["storage"]
    for part in ("local_artifact_storage", "compute_logs"):
        base = config[part]["config"]["base_dir"]
        config[part]["config"]["base_dir"] = base.replace("/artifacts", str(folder / "root"))
    away = {"load_incluster_config": False, "kubeconfig_file": str(cluster.kubeconfig())}
    config["run_launcher"]["config"] |= away
    config["concurrency"]["pools"]["default_limit"] = 4
    return config


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A cluster, with DAGSTER_HOME as the profile describes it."""
    home = tmp_path / "home"
    home.mkdir()
    named = {"TEXT2SQL_ROOT": str(tmp_path / "root"), "DAGSTER_HOME": str(home)}
    named[EXECUTOR_VARIABLE] = "kubernetes"
    with Cluster(tmp_path, named) as running:
        for name, value in named.items():
            monkeypatch.setenv(name, value)
        (home / "dagster.yaml").write_text(yaml.safe_dump(profile(tmp_path, running)))
        yield running


def launch(instance: dg.DagsterInstance, assets: list[str], config: dict) -> str:
    """Launch a run of some of the lifecycle's assets as a Job; return its id."""
    repository = ReconstructableRepository.for_module(
        "pipelines.definitions", "defs", container_image="registry.example.org/text2sql:1"
    )
    job = repository.get_reconstructable_job("lifecycle")
    run = instance.create_run_for_job(
        job.get_definition(),
        run_config=config,
        tags={"dagster/partition": "demo"},
        asset_selection=frozenset(map(dg.AssetKey, assets)),
        job_code_origin=job.get_python_origin(),
    )
    instance.launch_run(run.run_id, None)
    return run.run_id


def normalized(job: dict, run: str) -> dict:
    """Return a Job without what is another one each time."""
    text = json.dumps(job).replace(run, "RUN")
    found = json.loads(re.sub(r"dagster-step-[0-9a-f]{32}", "dagster-step-STEP", text))
    (container,) = found["spec"]["template"]["spec"]["containers"]
    container["args"] = container["args"][:3]
    same = ("DAGSTER_HOME", "DAGSTER_PG_PASSWORD")
    container["env"] = [one for one in container["env"] if one["name"] in same]
    for metadata in (found["metadata"], found["spec"]["template"]["metadata"]):
        metadata["labels"].pop("app.kubernetes.io/version")
    return found


@pytest.mark.slow
def test_shards_are_sampled_in_pods_a_cancel_ends_them_and_the_next_run_goes_on(cluster, tmp_path):
    with dg.DagsterInstance.get() as instance, answering(tmp_path / "root", 0.5, 0.1) as server:
        add_training_run(instance, "demo")
        names = ["bird_archive", "bird_questions", "bird_databases", "gold_results"]
        ingested = defs.resolve_job_def("lifecycle").execute_in_process(
            instance=instance,
            partition_key="demo",
            asset_selection=[dg.AssetKey(name) for name in names],
            run_config={"ops": CORPUS},
        )
        assert ingested.success
        shards = {"base_rollouts": {"config": {"shards": 2, "concurrency": 1}}}
        base = {"policy": {"config": {"base": server.url}}}
        first = launch(instance, ["base_rollouts"], {"ops": shards, "resources": base})
        wait_until(lambda: len(server.requests) > 8 or not cluster.running(), 240)
        assert len(server.requests) > 8, logs(tmp_path)
        assert instance.run_launcher.terminate(first)
        assert wait_until(lambda: not cluster.running(), 60)
        assert instance.get_run_by_id(first).status is dg.DagsterRunStatus.CANCELED
        names = steps(cluster)
        shard_jobs = [names[f"base_rollouts.sample_shard[{i}]"] for i in (0, 1)]
        assert set(shard_jobs) <= set(cluster.deleted)
        asked = len(server.requests)
        second = launch(instance, ["base_rollouts"], {"ops": shards, "resources": base})
        finished = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE}
        wait_until(lambda: instance.get_run_by_id(second).status in finished, 240)
        assert instance.get_run_by_id(second).is_success, logs(tmp_path)
    assert 16 * 8 - asked <= len(server.requests) - asked < 16 * 8
    assert cluster.calls <= {("create", "jobs"), ("get", "jobs/status"), ("delete", "jobs")} | {
        ("list", "pods"),
        ("list", "jobs"),
    }
    run_job = cluster.jobs[f"dagster-run-{first}"]
    step_job = cluster.jobs[shard_jobs[0]]
    for name, job in (("run", run_job), ("shard", step_job)):
        validate({"apiVersion": "batch/v1", "kind": "Job"} | job)
        assert confined(job["spec"]["template"]["spec"])
        is_golden(f"kubernetes/{name}.yaml", yaml.safe_dump(normalized(job, first)))


def steps(cluster: Cluster) -> dict[str, str]:
    """Return the names of the steps' Jobs by step."""
    found = {}
    for name, job in cluster.jobs.items():
        (container,) = job["spec"]["template"]["spec"]["containers"]
        environment = {one["name"]: one.get("value") for one in container["env"]}
        found[environment.get("DAGSTER_RUN_STEP_KEY", "")] = name
    return found


def logs(folder: Path) -> str:
    """Return what the containers printed."""
    return "\n".join(file.read_text()[-3000:] for file in folder.glob("*.log"))


def test_training_asks_for_its_gpus_in_a_pod(cluster, monkeypatch):
    from dagster_k8s import K8sRunLauncher
    from dagster_k8s.container_context import K8sContainerContext
    from dagster_k8s.job import (
        UserDefinedDagsterK8sConfig,
        construct_dagster_k8s_job,
        get_user_defined_k8s_config,
    )
    from kubernetes.client import ApiClient

    monkeypatch.setenv(TRAINING_VARIABLE, "8")
    tags = {name: json.dumps(value) for name, value in training_pod().items()}
    with dg.DagsterInstance.get() as instance:
        launcher = instance.run_launcher
        assert isinstance(launcher, K8sRunLauncher)
        run = dg.DagsterRun(job_name="lifecycle")
        context = K8sContainerContext.create_for_run(run, launcher, include_run_tags=False)
        steps = UserDefinedDagsterK8sConfig.from_dict(STEP_PODS["step_k8s_config"])
        account = STEP_PODS["service_account_name"]
        for wanted in (
            K8sContainerContext(service_account_name=account, run_k8s_config=steps),
            K8sContainerContext(run_k8s_config=get_user_defined_k8s_config(tags)),
        ):
            context = context.merge(wanted)
        settings = context.get_k8s_job_config("registry.example.org/text2sql:1", launcher)
        made = construct_dagster_k8s_job(
            settings,
            ["dagster", "api", "execute_step"],
            "dagster-step-x",
            context.run_k8s_config,
            pod_name="dagster-step-x",
            component="step_worker",
            labels={"dagster/op": "grpo_policy"},
        )
    job = ApiClient().sanitize_for_serialization(made)
    validate({"apiVersion": "batch/v1", "kind": "Job"} | job)
    assert confined(job["spec"]["template"]["spec"])
    is_golden("kubernetes/training_step.yaml", yaml.safe_dump(normalized(job, "x" * 40)))
