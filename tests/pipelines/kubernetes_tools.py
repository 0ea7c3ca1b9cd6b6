"""What the tests of the Kubernetes profile share: schemas, and what the namespace admits."""

from __future__ import annotations

from pathlib import Path

PROFILE = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"


def validate(document: dict) -> None:
    """Hold an object against Kubernetes' own schema; unknown fields are refused."""
    import kubernetes_validate

    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def confined(pod: dict) -> bool:
    """Say whether a pod is what the namespace's restricted policy admits."""
    own = pod["securityContext"]
    containers = pod["containers"] + pod.get("initContainers", [])
    return (
        own["runAsNonRoot"] is True
        and own["seccompProfile"] == {"type": "RuntimeDefault"}
        and all(
            one["securityContext"]["allowPrivilegeEscalation"] is False
            and one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            for one in containers
        )
    )
