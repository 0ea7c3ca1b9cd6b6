"""prime-rl's configuration files of the presets; run it to write the golden files anew."""

from pathlib import Path

from text2sql.training.prime_rl.files import RunFiles
from text2sql.training.prime_rl.settings import PRESETS, read_settings
from text2sql.training.prime_rl.toml import rl_config, toml_text

GOLDEN = Path(__file__).resolve().parent / "golden"
FILES = RunFiles(
    name="qwen3.5-9b-text2sql",
    model="Qwen/Qwen3.5-9B",
    prompts=Path("/data/prompts.jsonl"),
    golds=Path("/data/golds.jsonl"),
    output_dir=Path("/data/runs"),
    evaluation_prompts=Path("/data/dev_prompts.jsonl"),
    evaluation_golds=Path("/data/dev_golds.jsonl"),
    package=Path("/srv/text2sql"),
    prime_rl_dir=Path("/srv/prime-rl"),
)


def config_of(preset, **changes):
    """The configuration of a preset."""
    return rl_config(read_settings(preset, changes), FILES)


def golden_file(preset):
    """Where the text of a preset's file is kept."""
    return GOLDEN / f"prime_rl_{preset}.toml"


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name in PRESETS:
        golden_file(name).write_text(toml_text(config_of(name)), encoding="utf-8")
