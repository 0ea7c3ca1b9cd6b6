"""What a GRPO run leaves on disk: its policy, whole or not at all."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from typing import Any

import text2sql
from text2sql.common.files import file_digest, whole_folder
from text2sql.common.json_files import write_json
from text2sql.policy.weights import TOKENIZER_FILES, directory_revision
from text2sql.training.trl.config import GrpoRun

_COPIED = (*TOKENIZER_FILES, "generation_config.json", "agent_config.json")


def start_afresh(run: GrpoRun) -> None:
    """Remove what an earlier run with the same output directory left."""
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    shutil.rmtree(run.policy, ignore_errors=True)
    run.metrics.unlink(missing_ok=True)


def write_policy(run: GrpoRun, model: Any) -> None:
    """Write the trained policy as a Hugging Face directory, in one rename.

    Tokenizer, chat template, generation and agent settings are the base policy's own files;
    training.json says what the policy was trained from, on what, and how.
    """
    with whole_folder(run.policy) as partial:
        model.save_pretrained(partial)
        for pattern in _COPIED:
            for file in run.policy_dir.glob(pattern):
                shutil.copyfile(file, partial / file.name)
        write_json(partial / "training.json", _provenance(run))


def _provenance(run: GrpoRun) -> dict[str, Any]:
    packages = ("torch", "transformers", "trl")
    return {
        "base": run.policy_dir.name,
        "base_revision": directory_revision(run.policy_dir),
        "prompts_sha256": file_digest(run.prompts),
        "recipe": run.recipe(),
        "versions": {"text2sql": text2sql.__version__} | {name: version(name) for name in packages},
    }
