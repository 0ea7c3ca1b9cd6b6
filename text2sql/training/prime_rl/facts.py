"""Where a trained policy comes from: prime-rl, the environment, the configuration, the prompts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from text2sql.training.prime_rl.files import RunFiles
from text2sql.training.prime_rl.preflight import Found

_FILE = "found.json"


def keep_facts(found: Found, files: RunFiles, toml: Path, arguments: list[str]) -> None:
    """Keep what a person wants to know who asks later where the policy comes from."""
    facts = {
        "prime-rl commit": found.commit,
        "environment": f"text2sql {found.environment}",
        "environment code": found.environment_code,
        "rl.toml sha256": _sha256(toml),
        "prompts sha256": _sha256(files.prompts),
        "gold results sha256": _sha256(files.golds),
        "started with": " ".join(arguments),
        "logs": str(files.run_dir / "logs" / "latest"),
        "rollouts": str(files.run_dir / "rollouts"),
    }
    text = json.dumps(facts, indent=2)
    (files.output_dir / _FILE).write_text(f"{text}\n", encoding="utf-8")


def read_facts(output_dir: Path) -> dict[str, str]:
    """Return what was kept when prime-rl was last started here; nothing where it never was."""
    file = output_dir / _FILE
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
