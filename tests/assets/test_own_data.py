"""The commands of docs/data.md on a team's own data, as they are written there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from assets.data.config import BirdConfig
from text2sql.datasets import stored as data

REPO = Path(__file__).resolve().parents[2]
DOCS = (REPO / "docs" / "data.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """Return the shell commands of the page, without those that are marked as long."""
    blocks = re.findall(r"(<!-- long -->\n)?```sh\n(.*?)```", DOCS, re.DOTALL)
    return [text for long, text in blocks if not long]


def test_the_quick_commands_ingest_a_teams_questions_and_run_their_gold(tmp_path: Path) -> None:
    script = "set -e\n" + "".join(commands()).replace(
        ".venv/bin/", f"{Path(sys.executable).parent}/"
    )
    root = tmp_path / "artifacts"
    environment = {**os.environ, "PYTHONPATH": str(REPO), "TEXT2SQL_ROOT": str(root)}
    environment.pop("DAGSTER_HOME", None)
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for split, count in (("train", 256), ("dev", 64)):
        questions = data.load_questions(root, split)
        assert len(questions) == count
        assert {q.database.parent for q in questions} == {tmp_path / "team" / "databases" / split}
        golds = data.load_golds(root, split)
        assert len(golds) == count and all(gold.usable for gold in golds.values())


def test_the_configs_on_the_page_are_valid() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL)
    configs = [yaml.safe_load(block) for block in blocks]
    archive = BirdConfig(**configs[0]["ops"]["bird_archive"]["config"])
    assert archive.source_of("train").questions.endswith(".jsonl")
    assert archive.source_of("dev").place.endswith("dev.zip")
    assert "base" in configs[1]["resources"]["policy"]["config"]
