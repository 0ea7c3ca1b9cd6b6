"""prime-rl's configuration of the backends, for paths that are the same everywhere."""

from pathlib import Path

from text2sql.training.prime_rl.settings import LaunchPlan, read_settings
from text2sql.training.prime_rl.toml import rl_config

FILES = LaunchPlan(
    backend="prime_rl",
    settings={},
    agent={},
    name="qwen3.5-9b-text2sql",
    policy_dir="Qwen/Qwen3.5-9B",
    prompts=Path("/data/prompts.jsonl"),
    golds=Path("/data/golds.jsonl"),
    output_dir=Path("/data/runs"),
    evaluation_prompts=Path("/data/dev_prompts.jsonl"),
    evaluation_golds=Path("/data/dev_golds.jsonl"),
    package=Path("/srv/text2sql"),
    prime_rl_dir=Path("/srv/prime-rl"),
)


def config_of(backend, **changes):
    """The configuration of a backend."""
    return rl_config(read_settings(backend, changes), FILES)
