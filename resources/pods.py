"""Training in a pod of its own, started and followed by Dagster's Pipes client for Kubernetes.

The artifact root is one shared volume, mounted in this step and in the pod at the same path:
metrics, logs and weights are read from it. What the program reports through Pipes comes from the
pod's log.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from resources.cluster import KubernetesConfig, TrainingPods, explained
from resources.processes import last_lines
from resources.step_pods import GPU
from resources.watching import Progress, TrainingFailed
from text2sql.errors import Text2SqlError

LABEL = "text2sql/training"
_POLL_SECONDS = 0.5
_MARGIN_SECONDS = 10.0
"""Between the program's own grace and the pod's, so that the program can end what it started."""


@dataclass(frozen=True)
class Pod:
    """What a pod is to run.

    ``command`` is started by the image's Python instead of this one; ``grace`` is how long it may
    take to end; all it ``reads``, and the ``folder`` that it writes to, must be mounted.
    """

    settings: KubernetesConfig
    command: tuple[str, ...]
    folder: Path
    grace: float
    gpus: int = 0
    reads: tuple[Path, ...] = ()

    @property
    def label(self) -> str:
        """Tells the pods of this folder from all others."""
        return hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]

    @property
    def pod_command(self) -> list[str]:
        """The container's command."""
        python = self.settings.python
        log, grace = str(self.folder / "train.log"), f"{self.grace:g}"
        first = [python, "-m", "text2sql.training.in_pod", log, grace]
        return [*first, python, *self.command[1:]]


def pod_parts(pod: Pod) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return metadata and specification of the pod: the template's, with what this run needs.

    Raises Text2SqlError for a template that is no manifest of a pod, has several containers, or
    does not mount what the program reads and writes.
    """
    manifest = _template(pod.settings.template_file)
    meta, spec = dict(manifest.get("metadata") or {}), dict(manifest["spec"])
    meta["labels"] = {**(meta.get("labels") or {}), LABEL: pod.label}
    for own in ("name", "namespace"):
        meta.pop(own, None)
    container = dict(spec["containers"][0])
    container["resources"] = _resources(container.get("resources") or {}, pod.gpus)
    spec["containers"] = [container]
    least = int(pod.grace + _MARGIN_SECONDS)
    spec["terminationGracePeriodSeconds"] = max(
        int(spec.get("terminationGracePeriodSeconds") or 0), least
    )
    _require_mounted(container, (pod.folder, *pod.reads), pod.settings.template_file)
    return meta, spec


def _template(file: Path) -> dict[str, Any]:
    import yaml
    from dagster_k8s.models import k8s_model_from_dict, k8s_snake_case_dict
    from kubernetes.client import V1Pod

    try:
        manifest = yaml.safe_load(file.read_text(encoding="utf-8"))
        k8s_model_from_dict(V1Pod, k8s_snake_case_dict(V1Pod, manifest))
        containers = len(manifest["spec"]["containers"])
    except Exception as error:
        raise Text2SqlError(f"{file} is no manifest of a pod: {error}") from error
    if containers != 1 or manifest["spec"].get("initContainers"):
        raise Text2SqlError(f"{file} must have exactly one container: the one that trains.")
    return dict(manifest)


def _resources(resources: dict[str, Any], gpus: int) -> dict[str, Any]:
    """Ask for as many GPUs as the run wants, whatever the template says."""
    wanted = {GPU: str(gpus)} if gpus else {}
    return resources | {
        part: {name: value for name, value in (resources.get(part) or {}).items() if name != GPU}
        | wanted
        for part in ("requests", "limits")
    }


def _require_mounted(container: dict[str, Any], paths: Sequence[Path], file: Path) -> None:
    mounts = [Path(mount["mountPath"]) for mount in container.get("volumeMounts") or []]
    for path in paths:
        if not any(path.is_relative_to(mount) for mount in mounts):
            raise Text2SqlError(
                f"{path} is not below any volumeMount of {file}: mount the volume that holds it "
                "at the same path in the pod and here."
            )


def run_in_pod(
    context: dg.AssetExecutionContext, pod: Pod, progress: Progress
) -> Sequence[dg.PipesExecutionResult]:
    """Run the pod to its end and return what the program reported.

    When this is left, however it is, the pod is gone or named in the run's log. A pod that an
    earlier attempt left is ended first. Raises TrainingFailed where the program fails or makes no
    progress, Text2SqlError and InfrastructureError where the cluster does not do its part.
    """
    with explained():
        meta, spec = pod_parts(pod)
        pods = TrainingPods(pod.settings, f"{LABEL}={pod.label}")
        seconds = float(spec["terminationGracePeriodSeconds"]) + _MARGIN_SECONDS
        if pods.found():
            context.log.info("A pod of an earlier attempt is ended first.")
            _end(pods, seconds, context)
        log = pod.folder / "train.log"
        context.log.info(f"Training runs in a pod in {pod.settings.namespace}; its log is {log}.")
        try:
            return _run(context, pod, meta, spec, pods, progress)
        finally:
            _end(pods, seconds, context)


def _end(pods: TrainingPods, seconds: float, context: dg.AssetExecutionContext) -> None:
    if left := pods.end(seconds):
        context.log.error(f"Not ended after {seconds:g} s: {', '.join(left)}. They hold GPUs.")


def _run(
    context: dg.AssetExecutionContext,
    pod: Pod,
    meta: dict[str, Any],
    spec: dict[str, Any],
    pods: TrainingPods,
    progress: Progress,
) -> Sequence[dg.PipesExecutionResult]:
    from dagster_k8s.client import DagsterK8sError
    from kubernetes.client import ApiException

    from resources.pipes_client import PatientClient

    client, ended = PatientClient(pod.settings), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        watching = threads.submit(_watch, progress, pods, ended)
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
            ended.set()
            stalled = watching.result()
            raise TrainingFailed(stalled or _why(pods, pod, error)) from error
        finally:
            ended.set()
    progress.look()
    return done.get_results(implicit_materializations=False)


def _watch(progress: Progress, pods: TrainingPods, ended: threading.Event) -> str:
    """Follow the run's files until the pod has ended; end it where nothing moves, and say so."""
    try:
        while not ended.wait(_POLL_SECONDS):
            progress.look()
            if sentence := progress.stalled():
                if not pods.waiting():
                    return sentence
                progress.moved()
        return ""
    finally:
        if not ended.is_set():
            pods.delete()


def _why(pods: TrainingPods, pod: Pod, error: Exception) -> str:
    """Say why a pod did not come to a good end."""
    log = pod.folder / "train.log"
    found = next(iter(pods.found()), None)
    if found is None:
        return f"Somebody removed the training pod; run it again to go on. Its log is {log}."
    states = [one.state.terminated for one in found.status.container_statuses or []]
    if not states or states[0] is None:
        return f"The training pod did not start: {str(error)[:1500]}"
    status, reason = states[0].exit_code, found.status.reason or states[0].reason
    advice = ": give the pod more memory in its template" if reason == "OOMKilled" else ""
    return (
        f"Training ended with status {status} ({reason}{advice}); its log is {log} and ends "
        f"with:\n{last_lines(log) or '(it wrote nothing)'}"
    )
