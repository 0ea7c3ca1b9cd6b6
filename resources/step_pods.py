"""What a step needs of its pod if steps run on Kubernetes: GPUs, and what belongs to them.

Dagster's Kubernetes executor reads it from the tag ``dagster-k8s/config`` of the step's op; every
other executor ignores the tag.
"""

from __future__ import annotations

import os
from typing import Any

from text2sql.errors import Text2SqlError

EXECUTOR_VARIABLE = "TEXT2SQL_EXECUTOR"
"""Names the executor of a run's steps (pipelines/executors.py)."""
CONFIG_TAG = "dagster-k8s/config"
TRAINING_VARIABLE = "TEXT2SQL_TRAINING_GPUS"
SAMPLING_VARIABLE = "TEXT2SQL_SAMPLING_GPUS"
IMAGE_VARIABLE = "TEXT2SQL_GPU_IMAGE"
ACCOUNT_VARIABLE = "TEXT2SQL_TRAINING_ACCOUNT"
GPU = "nvidia.com/gpu"


def training_pod() -> dict[str, Any]:
    """Return the op tags of the training step: ``TEXT2SQL_TRAINING_GPUS`` GPUs.

    If the step starts a pod for the training instead, it needs no GPU but the service account that
    ``TEXT2SQL_TRAINING_ACCOUNT`` names.
    """
    if not (account := os.environ.get(ACCOUNT_VARIABLE)):
        return gpu_pod(TRAINING_VARIABLE)
    pod = {"service_account_name": account, "automount_service_account_token": True}
    return {CONFIG_TAG: {"pod_spec_config": pod, "merge_behavior": "DEEP"}}


def sampling_pod() -> dict[str, Any]:
    """Return the op tags of a step that samples: ``TEXT2SQL_SAMPLING_GPUS``, for its own vLLM."""
    return gpu_pod(SAMPLING_VARIABLE)


def gpu_pod(variable: str) -> dict[str, Any]:
    """Return the tags of an op whose step needs the number of GPUs in an environment variable.

    No tags if it is unset or 0. Such a pod may go to tainted GPU nodes, has the image that
    ``TEXT2SQL_GPU_IMAGE`` names, and more shared memory than the 64 MB of a container, which NCCL
    and vLLM need. Raises Text2SqlError for an invalid number.
    """
    text = os.environ.get(variable) or "0"
    if not (text.isascii() and text.isdigit()):
        raise Text2SqlError(f"{variable} is {text!r}: give a number of GPUs.")
    if not int(text):
        return {}
    memory = f"{64 * int(text)}Gi"  # weights and checkpoints pass through it
    container: dict[str, Any] = {
        "resources": {"limits": {GPU: text, "memory": memory}, "requests": {"memory": memory}},
        "volume_mounts": [{"name": "shared-memory", "mount_path": "/dev/shm"}],
    }
    if image := os.environ.get(IMAGE_VARIABLE):
        container["image"] = image
    pod = {
        "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [{"name": "shared-memory", "empty_dir": {"medium": "Memory"}}],
    }
    config = {"container_config": container, "pod_spec_config": pod, "merge_behavior": "DEEP"}
    return {CONFIG_TAG: config}
