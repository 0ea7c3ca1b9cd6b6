"""Dagster's record of the champion, after a command changed it.

``python -m pipelines.programs.champion`` reports a materialization without a run: the page of
``champion_policy`` shows the new champion at once, and what depends on the old one is outdated.
Without an instance it does nothing.
"""

from __future__ import annotations

import sys

import dagster as dg

from assets.promotion.champion import champion_facts, read_champion
from pipelines.home import existing_instance
from resources.paths import ArtifactRoot
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import run_of
from text2sql.evaluation.promotion.gate import Finding

KEY = dg.AssetKey("champion_policy")


def note_champion(instance: dg.DagsterInstance, root: ArtifactRoot) -> None:
    """Record the champion as a materialization of ``champion_policy`` without a run."""
    champion = read_champion(root)
    name = run_of(champion) or champion["policy"]
    summary = f"{name} is champion now ({champion.get('act')}): {champion.get('reason')}"
    findings = [Finding(**finding) for finding in champion.get("findings", ())]
    made = dg.AssetMaterialization(
        KEY,
        description=f"By a command of {champion.get('by')}, without a run.",
        metadata=champion_facts(root, summary, findings),
        tags={"dagster/data_version": champion["revision"]},
    )
    instance.report_runless_asset_event(made)


def main() -> None:
    """Record it in the instance of the artifact root, if there is one."""
    root = ArtifactRoot()
    if instance := existing_instance(root.path):
        with instance:
            note_champion(instance, root)


if __name__ == "__main__":
    try:
        main()
    except Text2SqlError as error:
        sys.exit(f"error: {error}")
