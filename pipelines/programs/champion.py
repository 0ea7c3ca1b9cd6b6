"""Dagster's record of the champion, after a command changed it.

``python -m pipelines.programs.champion`` reports a materialization without a run: the page of
``champion_policy`` shows the new champion at once, and what depends on the old one is outdated.
Without an instance it does nothing.
"""

from __future__ import annotations

import dagster as dg

from assets.promotion.champion import champion_facts
from pipelines.home import existing_instance
from resources.artifact_root import ArtifactRoot
from text2sql.evaluation.promotion.champion import require_champion, run_of
from text2sql.evaluation.promotion.gate import Finding


def main() -> None:
    """Record the champion in the instance of the artifact root, if there is one."""
    root = ArtifactRoot()
    instance = existing_instance(root.path)
    if instance is None:
        return
    with instance:
        champion = require_champion(root.path)
        name = run_of(champion) or champion["policy"]
        summary = f"{name} is champion now ({champion.get('act')}): {champion.get('reason')}"
        findings = [Finding(**finding) for finding in champion.get("findings", ())]
        made = dg.AssetMaterialization(
            "champion_policy",
            description=f"By a command of {champion.get('by')}, without a run.",
            metadata=champion_facts(root, summary, findings),
            tags={"dagster/data_version": champion["revision"]},
        )
        instance.report_runless_asset_event(made)


if __name__ == "__main__":
    main()
