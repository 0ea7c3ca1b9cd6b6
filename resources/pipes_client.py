"""Dagster's Pipes client for Kubernetes, with the patience that a run of days needs.

The client as it is waits a day for a pod that is gone, and gives a pod five hours to get a machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster_k8s import PipesK8sClient
from dagster_k8s.client import DagsterK8sError, DagsterKubernetesClient
from kubernetes.client import Configuration, V1Pod
from urllib3.util import Retry

from resources.cluster import KubernetesConfig

_RETRIES = Retry(
    total=8, backoff_factor=1, backoff_max=60, status_forcelist=(429, 500, 502, 503, 504)
)
"""A cluster's API that is away for three minutes, as it is while it is updated, ends no run."""


class PatientClient(PipesK8sClient):
    """Knows the cluster from the trainer's settings; a pod that somebody removes is noticed."""

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
        enable_multi_container_logs: bool = False,
        ignore_containers: set[str] | None = None,
    ) -> Iterator[None]:
        """Wait for the pod's start and read its log to the end; then the pod has ended or is gone.

        Raises DagsterK8sError where the pod is removed.
        """
        self._await_start(context, client, namespace, pod_name)
        with super().consume_pod_logs(
            context, client, namespace, pod_name, enable_multi_container_logs, ignore_containers
        ):
            while _find(client, namespace, pod_name).metadata.deletion_timestamp is not None:
                time.sleep(self.poll_interval)
            yield

    def _await_start(
        self, context: Any, client: DagsterKubernetesClient, namespace: str, pod_name: str
    ) -> None:
        said = ""
        while not (pod := _find(client, namespace, pod_name)).status.container_statuses:
            waits = [one.message for one in pod.status.conditions or [] if one.status == "False"]
            if waits and waits[0] != said:
                said = waits[0]
                context.log.info(f"The training pod waits for a machine: {said}")
            time.sleep(self.poll_interval)


def _find(client: DagsterKubernetesClient, namespace: str, name: str) -> V1Pod:
    found = client.core_api.list_namespaced_pod(namespace, field_selector=f"metadata.name={name}")
    if not found.items:
        raise DagsterK8sError(f"The pod {name} was removed.")
    return found.items[0]
