"""The file that tells Kubernetes' client of a stand-in for a cluster on this machine."""

from __future__ import annotations

from pathlib import Path

import yaml


def write_kubeconfig(folder: Path, port: int) -> Path:
    """Write ``kubeconfig`` for the server that listens on 127.0.0.1 at ``port``."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "here",
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file
