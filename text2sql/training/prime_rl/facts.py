"""Where a trained policy comes from: prime-rl, the environment, the configuration, the prompts."""

from __future__ import annotations

from pathlib import Path

from text2sql.common.files import file_digest
from text2sql.common.json_files import read_if_there, write_json
from text2sql.training.prime_rl.files import RunFiles
from text2sql.training.prime_rl.preflight import Found

_FILE = "found.json"


def keep_facts(found: Found, files: RunFiles, toml: Path, arguments: list[str]) -> None:
    """Keep what a person wants to know who asks later where the policy comes from."""
    facts = {
        "prime-rl commit": found.commit,
        "environment": f"text2sql {found.environment}",
        "environment code": found.environment_code,
        "rl.toml sha256": file_digest(toml),
        "prompts sha256": file_digest(files.prompts),
        "gold results sha256": file_digest(files.golds),
        "started with": " ".join(arguments),
        "logs": str(files.run_dir / "logs" / "latest"),
        "rollouts": str(files.run_dir / "rollouts"),
    }
    write_json(files.output_dir / _FILE, facts)


def read_facts(output_dir: Path) -> dict[str, str]:
    """Return what was kept when prime-rl was last started here; nothing where it never was."""
    return read_if_there(output_dir / _FILE)
