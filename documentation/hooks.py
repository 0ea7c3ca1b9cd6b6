"""What ``mkdocs build`` adds to the pages below ``docs/``: the reference, changelog, guide."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

REPO = Path(__file__).resolve().parent.parent
if str(REPO) not in sys.path:  # mkdocs starts elsewhere
    sys.path.insert(0, str(REPO))

from documentation import asset_page, command_page, setting_page, table_page  # noqa: E402 - needs the path above

GENERATED = {
    "reference/commands.md": command_page.page,
    "reference/settings.md": setting_page.page,
    "reference/assets.md": asset_page.page,
    "reference/tables.md": table_page.page,
    "project/changelog.md": lambda: root_page("CHANGELOG.md"),
    "project/contributing.md": lambda: root_page("CONTRIBUTING.md"),
}
"""Each generated page and the function that writes it."""


def root_page(name: str) -> str:
    """Return a page of the repository's root, with links that work from ``project/``."""
    return (REPO / name).read_text(encoding="utf-8").replace("](docs/", "](../")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for path, write in GENERATED.items():
        files.append(File.generated(config, path, content=write()))
    return files
