"""Training in a pod of its own, started and followed by Dagster's Pipes client for Kubernetes.

The artifact root is one shared volume, mounted in this step and in the pod at the same path:
metrics, logs and weights are read from it. What the program reports through Pipes comes from the
pod's log. This module needs the extra ``kubernetes``: import it inside a function.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster_k8s import PipesK8sClient
from dagster_k8s.client import DagsterK8sError, DagsterKubernetesClient
from dagster_k8s.models import k8s_model_from_dict, k8s_snake_case_dict
from kubernetes.client import ApiException, Configuration, CoreV1Api, V1Pod
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from resources.step_pods import GPU
from resources.trainer import POD_TEMPLATE, KubernetesConfig, TrainingFailed, TrainingMonitor
from text2sql.common.processes import last_lines
from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.training.backends import Program

LABEL = "text2sql/training"
_POLL_SECONDS = 0.5
_MARGIN_SECONDS = 10.0
"""Between the program's own grace and the pod's, so that the program can end what it started."""
_RETRIES = Retry(
    total=8, backoff_factor=1, backoff_max=60, status_forcelist=(429, 500, 502, 503, 504)
)
"""A cluster's API may be away for three minutes, as during an update, without ending a run."""


@dataclass(frozen=True)
class Pod:
    """What a pod is to run.

    The image's Python starts the program's command instead of this one; all that the program reads,
    and the ``folder`` that it writes to, must be mounted. ``grace`` is how long it may take to end.
    """

    settings: KubernetesConfig
    program: Program
    folder: Path
    grace: float

    @property
    def label(self) -> str:
        """The label that only pods of this folder have."""
        return hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]

    @property
    def log(self) -> Path:
        """The training program's log."""
        return self.folder / "train.log"

    @property
    def pod_command(self) -> list[str]:
        """The container's command."""
        python = self.settings.python
        entrypoint = [python, "-m", "text2sql.training.pod_entrypoint"]
        return [*entrypoint, str(self.log), f"{self.grace:g}", python, *self.program.command[1:]]


def pod_parts(pod: Pod) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the pod's metadata and specification: the template's, with what this run needs.

    Raises Text2SqlError if the template is not a manifest of a pod, has several containers, or does
    not mount what the program reads and writes.
    """
    template = pod.settings.template
    file = Path(template).expanduser() if template else POD_TEMPLATE
    try:
        manifest = yaml.safe_load(file.read_text(encoding="utf-8"))
        k8s_model_from_dict(V1Pod, k8s_snake_case_dict(V1Pod, manifest))
        containers = len(manifest["spec"]["containers"])
    except Exception as error:  # of YAML, of Dagster, or of the file: all mean the same here
        raise Text2SqlError(f"{file} is not a manifest of a pod: {error}") from error
    if containers != 1 or manifest["spec"].get("initContainers"):
        raise Text2SqlError(f"{file} must have exactly one container: the one that trains.")
    meta, spec = dict(manifest.get("metadata") or {}), dict(manifest["spec"])
    meta["labels"] = {**(meta.get("labels") or {}), LABEL: pod.label}
    for own in ("name", "namespace"):
        meta.pop(own, None)
    container = dict(spec["containers"][0])
    resources = container.get("resources") or {}
    gpus = {GPU: str(pod.program.gpus)} if pod.program.gpus else {}
    container["resources"] = resources | {
        part: {name: value for name, value in (resources.get(part) or {}).items() if name != GPU}
        | gpus
        for part in ("requests", "limits")
    }
    spec["containers"] = [container]
    minimum = int(pod.grace + _MARGIN_SECONDS)
    spec["terminationGracePeriodSeconds"] = max(
        int(spec.get("terminationGracePeriodSeconds") or 0), minimum
    )
    mounts = [Path(mount["mountPath"]) for mount in container.get("volumeMounts") or []]
    for path in (pod.folder, *pod.program.reads):
        if not any(path.is_relative_to(mount) for mount in mounts):
            raise Text2SqlError(
                f"{path} is not below any volumeMount of {file}: mount its volume at the same path "
                "in the pod and here."
            )
    return meta, spec


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors between here and the cluster into a sentence."""
    try:
        yield
    except ConfigException as error:
        raise Text2SqlError(
            f"No Kubernetes cluster is known ({error}): name a kubeconfig in the trainer's "
            "settings, or run inside a cluster."
        ) from error
    except ApiException as error:
        try:
            message = str(json.loads(error.body)["message"])
        except (ValueError, KeyError, TypeError):
            message = str(error.body or "no further message")[:500]
        raise Text2SqlError(
            f"The Kubernetes cluster rejects the request ({error.status} {error.reason}): {message}"
        ) from error
    except HTTPError as error:
        raise InfrastructureError(f"The Kubernetes cluster does not answer: {error}.") from error


class TrainingPods:
    """The pods that train into one folder, found by a label; there should be at most one."""

    def __init__(self, settings: KubernetesConfig, selector: str) -> None:
        self._namespace, self._selector = settings.namespace, selector
        self._poll = min(settings.poll_seconds, 2.0)
        settings.load()

    def find(self) -> list[V1Pod]:
        """Return the pods, in whatever state."""
        api = CoreV1Api()
        return list(api.list_namespaced_pod(self._namespace, label_selector=self._selector).items)

    def delete(self) -> None:
        """Ask the cluster to end the pods; each has its own grace period."""
        for pod in self.find():
            if pod.metadata.deletion_timestamp is None:
                try:
                    CoreV1Api().delete_namespaced_pod(pod.metadata.name, self._namespace)
                except ApiException as error:
                    if error.status != 404:
                        raise

    def end(self, seconds: float) -> list[str]:
        """End the pods and wait until they are gone; return the names of those that stay.

        Retried while the cluster does not answer.
        """
        deadline = time.monotonic() + seconds
        left = ["pods that the cluster did not list"]
        while left and time.monotonic() < deadline:
            try:
                self.delete()
                left = [pod.metadata.name for pod in self.find()]
            except (ApiException, HTTPError) as error:
                left = [f"pods that the cluster did not list ({type(error).__name__})"]
            if left:
                time.sleep(self._poll)
        return left


class PatientClient(PipesK8sClient):
    """Dagster's Pipes client, with the patience that a run of days needs.

    By itself it waits a day for a pod that is gone, and gives a pod five hours to get a machine.
    """

    def __init__(self, settings: KubernetesConfig) -> None:
        super().__init__(poll_interval=settings.poll_seconds)
        self._settings = settings

    def _load_k8s_config(self) -> None:
        self._settings.load()
        configuration = Configuration.get_default_copy()
        configuration.retries = _RETRIES
        Configuration.set_default(configuration)

    @contextmanager
    def consume_pod_logs(
        self,
        context: dg.OpExecutionContext | dg.AssetExecutionContext,
        client: DagsterKubernetesClient,
        namespace: str,
        pod_name: str,
        *more: Any,
        **options: Any,
    ) -> Iterator[None]:
        """Wait for the pod's start and read its log to the end; then the pod has ended or is gone.

        Raises DagsterK8sError if the pod is removed.
        """

        def find() -> V1Pod:
            found = client.core_api.list_namespaced_pod(
                namespace, field_selector=f"metadata.name={pod_name}"
            )
            if not found.items:
                raise DagsterK8sError(f"The pod {pod_name} was removed.")
            return found.items[0]

        said = ""
        while not (pod := find()).status.container_statuses:
            waits = [one.message for one in pod.status.conditions or [] if one.status == "False"]
            if waits and waits[0] != said:
                said = waits[0]
                context.log.info(f"The training pod is waiting for a machine: {said}")
            time.sleep(self.poll_interval)
        with super().consume_pod_logs(context, client, namespace, pod_name, *more, **options):
            while find().metadata.deletion_timestamp is not None:
                time.sleep(self.poll_interval)
            yield


def run_in_pod(
    context: dg.AssetExecutionContext, pod: Pod, monitor: TrainingMonitor
) -> Sequence[dg.PipesExecutionResult]:
    """Run the pod to its end and return what the program reported.

    Afterwards the pod is gone or named in the run's log. A pod that an earlier attempt left is
    ended first. Raises TrainingFailed if the program fails or makes no progress, Text2SqlError and
    InfrastructureError if the cluster fails.
    """
    with explained():
        meta, spec = pod_parts(pod)
        pods = TrainingPods(pod.settings, f"{LABEL}={pod.label}")
        seconds = float(spec["terminationGracePeriodSeconds"]) + _MARGIN_SECONDS

        def end() -> None:
            if left := pods.end(seconds):
                context.log.error(
                    f"Not ended after {seconds:g} s: {', '.join(left)}. They hold GPUs."
                )

        if pods.find():
            context.log.info("A pod of an earlier attempt is ended first.")
            end()
        namespace = pod.settings.namespace
        context.log.info(f"Training runs in a pod in {namespace}; its log is {pod.log}.")
        try:
            return _run(context, pod, meta, spec, pods, monitor)
        finally:
            end()


def _run(
    context: dg.AssetExecutionContext,
    pod: Pod,
    meta: dict[str, Any],
    spec: dict[str, Any],
    pods: TrainingPods,
    monitor: TrainingMonitor,
) -> Sequence[dg.PipesExecutionResult]:
    client, pod_ended = PatientClient(pod.settings), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        following = threads.submit(_follow, monitor, pods, pod_ended)
        try:
            done = client.run(
                context=context,
                image=pod.settings.image or None,
                command=pod.pod_command,
                namespace=pod.settings.namespace,
                base_pod_meta=meta,
                base_pod_spec=spec,
                pod_wait_timeout=0,
                delete_pod_on_completion=False,
            )
        except (DagsterK8sError, ApiException) as error:
            pod_ended.set()
            stalled = following.result()
            raise TrainingFailed(stalled or _reason(pods, pod, error)) from error
        finally:
            pod_ended.set()
    monitor.poll()
    return done.get_results(implicit_materializations=False)


def _follow(monitor: TrainingMonitor, pods: TrainingPods, pod_ended: threading.Event) -> str:
    """Follow the run's files until the pod has ended; end it, and return why, if it stalls."""
    try:
        while not pod_ended.wait(_POLL_SECONDS):
            monitor.poll()
            if sentence := monitor.stalled():
                if all(pod.status.phase != "Pending" for pod in pods.find()):
                    return sentence
                monitor.moved()
        return ""
    finally:
        if not pod_ended.is_set():
            pods.delete()


def _reason(pods: TrainingPods, pod: Pod, error: Exception) -> str:
    """Say why a pod failed."""
    found = next(iter(pods.find()), None)
    if found is None:
        return f"Somebody removed the training pod; run it again to resume. Its log is {pod.log}."
    states = [one.state.terminated for one in found.status.container_statuses or []]
    if not states or states[0] is None:
        return f"The training pod did not start: {str(error)[:1500]}"
    status, reason = states[0].exit_code, found.status.reason or states[0].reason
    advice = ": give the pod more memory in its template" if reason == "OOMKilled" else ""
    return (
        f"Training ended with status {status} ({reason}{advice}); its log is {pod.log} and ends "
        f"with:\n{last_lines(pod.log) or '(it is empty)'}"
    )
