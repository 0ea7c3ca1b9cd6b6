"""A Kubernetes cluster: where it is, and the training pods that run there."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from text2sql.common.checkout import CHECKOUT
from text2sql.errors import InfrastructureError, Text2SqlError

if TYPE_CHECKING:
    from kubernetes.client import CoreV1Api, V1Pod

TEMPLATE = CHECKOUT / "deploy" / "kubernetes" / "training" / "pod.yaml"
INSTALL = "install the project with the extra 'kubernetes'"


class KubernetesConfig(dg.Config):
    """The cluster, and what a training pod is made from."""

    image: str = Field(
        default="",
        description="The image with prime-rl and this project; empty for the template's.",
    )
    template: str = Field(
        default="",
        description="A manifest of a pod; empty for deploy/kubernetes/training/pod.yaml.",
    )
    namespace: str = Field(default="text2sql", min_length=1, description="Where the pod runs.")
    python: str = Field(
        default="python", min_length=1, description="The Python in the image that has text2sql."
    )
    kubeconfig: str = Field(
        default="",
        description="The file that names the cluster; empty inside of a cluster, and for "
        "KUBECONFIG or ~/.kube/config elsewhere.",
    )
    context: str = Field(default="", description="One of that file's contexts, if not its own.")
    poll_seconds: float = Field(
        default=5.0, ge=0.1, le=600, description="Between two questions about the pod."
    )

    @property
    def template_file(self) -> Path:
        """The manifest that pods are made from."""
        return Path(self.template).expanduser() if self.template else TEMPLATE

    def load(self) -> None:
        """Let the client know the cluster; raises ConfigException where none is known."""
        from kubernetes import config

        if self.kubeconfig or self.context:
            config.load_kube_config(self.kubeconfig or None, self.context or None)
        elif os.environ.get("KUBERNETES_SERVICE_HOST"):
            config.load_incluster_config()
        else:
            config.load_kube_config()


@contextmanager
def explained() -> Iterator[None]:
    """Turn what goes wrong between here and the cluster into a sentence."""
    try:
        from kubernetes.client import ApiException
        from kubernetes.config import ConfigException
        from urllib3.exceptions import HTTPError
    except ImportError as error:
        raise Text2SqlError(f"Pods need the Kubernetes client: {INSTALL}.") from error
    try:
        yield
    except ConfigException as error:
        raise Text2SqlError(
            f"No Kubernetes cluster is known ({error}): name a kubeconfig in the trainer's "
            "settings, or run inside of a cluster."
        ) from error
    except ApiException as error:
        raise Text2SqlError(
            f"The Kubernetes cluster refuses ({error.status} {error.reason}): {_message(error)}"
        ) from error
    except HTTPError as error:
        raise InfrastructureError(f"The Kubernetes cluster does not answer: {error}.") from error


def _message(error: Any) -> str:
    """Return what the cluster says of a refusal, as far as it can be read."""
    try:
        return str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        return str(error.body or "it says no more")[:500]


class TrainingPods:
    """The pods that train into one folder, found by a label: at most one is wanted."""

    def __init__(self, settings: KubernetesConfig, selector: str) -> None:
        self._namespace, self._selector = settings.namespace, selector
        self._poll = min(settings.poll_seconds, 2.0)
        settings.load()

    @property
    def _api(self) -> CoreV1Api:
        from kubernetes.client import CoreV1Api

        return CoreV1Api()

    def found(self) -> list[V1Pod]:
        """Return the pods that are there, in whatever state."""
        found = self._api.list_namespaced_pod(self._namespace, label_selector=self._selector)
        return list(found.items)

    def delete(self) -> None:
        """Ask the cluster to end the pods; each has its own grace."""
        from kubernetes.client import ApiException

        for pod in self.found():
            if pod.metadata.deletion_timestamp is None:
                try:
                    self._api.delete_namespaced_pod(pod.metadata.name, self._namespace)
                except ApiException as error:
                    if error.status != 404:
                        raise

    def end(self, seconds: float) -> list[str]:
        """End the pods and wait until they are gone; return the names of those that stay.

        A cluster that does not answer for a while is asked again.
        """
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        deadline = time.monotonic() + seconds
        left = ["pods of which the cluster did not tell"]
        while left and time.monotonic() < deadline:
            try:
                self.delete()
                left = [pod.metadata.name for pod in self.found()]
            except (ApiException, HTTPError) as error:
                left = [f"pods of which the cluster did not tell ({type(error).__name__})"]
            if left:
                time.sleep(self._poll)
        return left

    def waiting(self) -> bool:
        """Say whether no pod runs yet."""
        return any(pod.status.phase == "Pending" for pod in self.found())
