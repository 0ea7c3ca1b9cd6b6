"""Dagster's Pipes client for Kubernetes, with the patience that a run of days needs."""

from __future__ import annotations

from dagster_k8s import PipesK8sClient
from kubernetes.client import Configuration
from urllib3.util import Retry

from resources.cluster import KubernetesConfig

_RETRIES = Retry(
    total=8, backoff_factor=1, backoff_max=60, status_forcelist=(429, 500, 502, 503, 504)
)
"""A cluster's API that is away for three minutes, as it is while it is updated, ends no run."""


class PatientClient(PipesK8sClient):
    """Knows the cluster from the trainer's settings."""

    def __init__(self, settings: KubernetesConfig) -> None:
        super().__init__(poll_interval=settings.poll_seconds)
        self._settings = settings

    def _load_k8s_config(self) -> None:
        self._settings.load()
        configuration = Configuration.get_default_copy()
        configuration.retries = _RETRIES
        Configuration.set_default(configuration)
