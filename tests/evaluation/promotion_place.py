"""An artifact root with training runs that were trained and evaluated: the files, not the work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.evaluation.test_evaluation import policy, score
from text2sql.common.json_files import write_json
from text2sql.evaluation.scores import BASE, TRAINED
from text2sql.policy.weights import directory_revision

QUESTIONS = 40
DATASET, PROMPTS = "data-1", "prompts-1"


def trained(root: Path, run: str, weights: str | None = None) -> Path:
    """Write a policy directory and what the training recorded; return the directory."""
    folder = root / "training" / run / "v1" / "policy"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_text(weights or run)
    (folder / "config.json").write_text("{}")
    note(root, run, str(folder), directory_revision(folder))
    return folder


def note(root: Path, run: str, policy: str, revision: str) -> None:
    """Record a policy as a training run's."""
    record = {"policy": policy, "policy_revision": revision, "base": "b", "base_revision": "base"}
    record |= {"prompts": 9, "seconds": 1.0, "settings": {}}
    write_json(root / "training" / run / "training.json", record)


def evaluate(root: Path, run: str, right: int, *, first: int = 0, base: int = 10, of=QUESTIONS,
             tail: str = "", dataset: str = DATASET, prompts: str = PROMPTS,
             **changes: Any) -> None:  # fmt: skip
    """Write an evaluation in which ``right`` questions from ``first`` on are answered right.

    ``tail`` are the letters of the last questions (i infrastructure, x write, …).
    """
    letters = "".join("m" if first <= n < first + right else "w" for n in range(of))
    letters = letters[: of - len(tail)] + tail
    about = json.loads((root / "training" / run / "training.json").read_text())
    bases = "m" * base + "w" * (of - base)
    scores = score(policy(BASE, bases), policy(TRAINED, letters), questions=of)
    revisions = {BASE: "base", TRAINED: about["policy_revision"]}
    provenance = {"dataset": dataset, "prompt_revision": prompts}
    scores = replace(scores, revisions=revisions, provenance=provenance, **changes)
    folder = root / "evaluation" / run
    outcomes = {f"dev/{n}": float(one == "m") for n, one in enumerate(letters) if one != "i"}
    write_json(folder / "scores.json", scores.to_dict())
    write_json(folder / "outcomes.json", {"greedy": outcomes})


def candidate(root: Path, run: str, right: int, weights: str | None = None, **options: Any) -> Path:
    """Train and evaluate a run; return the directory of its weights."""
    folder = trained(root, run, weights)
    evaluate(root, run, right, **options)
    return folder


def champion(root: Path) -> Mapping[str, Any]:
    """Return the champion's file as it is."""
    return json.loads((root / "champion.json").read_text())
