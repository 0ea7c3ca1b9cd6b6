"""One ingestion with the project's assets: ``python -m benchmarks.ingestion_run SOURCE ROOT``."""

from __future__ import annotations

import sys

import dagster as dg

from assets.data import bird
from resources.artifact_root import ArtifactRoot
from resources.sandbox import SandboxResource


def main(source: str, root: str) -> None:
    """Materialize archive, questions, databases and gold results of the dev split."""
    dg.materialize(
        [bird.bird_archive, bird.bird_questions, bird.bird_databases, bird.gold_results],
        resources={"root": ArtifactRoot(root=root), "sandbox": SandboxResource()},
        run_config={"ops": {"bird_archive": {"config": {"source": source, "splits": ["dev"]}}}},
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
