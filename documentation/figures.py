"""The house in figures: ``python -m documentation.figures`` prints how large its rooms are.

Lines are all lines of Python files, blank ones and docstrings included.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
PRODUCT = ("text2sql", "text2sql_env", "assets", "resources", "pipelines")
SMALL = 60
_DIRECTIVE = re.compile(r"#\s*(noqa|fmt|type|ruff)\b(?!.* - )")
"""A comment for a tool, unless it gives a reason as well."""


@dataclass(frozen=True)
class Module:
    """One Python file."""

    file: Path

    @property
    def name(self) -> str:
        """Its path below the repository."""
        return self.file.relative_to(REPO).as_posix()

    @property
    def room(self) -> str:
        """The folder of the package that it lies in, empty for modules of the package itself."""
        parts = self.file.relative_to(REPO).parts
        return "/".join(parts[:2]) if len(parts) > 2 else ""

    @cached_property
    def lines(self) -> int:
        """The number of its lines."""
        return len(self.file.read_text(encoding="utf-8").splitlines())

    def comments(self) -> int:
        """The number of its comments, those for tools apart."""
        with tokenize.open(self.file) as source:
            found = tokenize.generate_tokens(source.readline)
            return sum(t.type == tokenize.COMMENT and not _DIRECTIVE.match(t.string) for t in found)

    def private_dagster(self) -> int:
        """How many of its imports are from Dagster's private modules."""
        tree = ast.parse(self.file.read_text(encoding="utf-8"))
        names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        for node in ast.walk(tree):
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        return sum(bool(re.match(r"dagster\w*\._", name)) for name in names)


def modules(*folders: str) -> list[Module]:
    """Return the Python files below folders of the repository."""
    return [Module(file) for folder in folders for file in sorted((REPO / folder).rglob("*.py"))]


def table() -> list[tuple[str, str]]:
    """Return each figure's name and value."""
    product = modules(*PRODUCT)
    lines = total(product)
    rooms: Counter[str] = Counter()
    for module in product:
        rooms[module.room] += module.lines
    ours = [module for module in product if module.file.name != "__init__.py"]
    small = sum(module.lines < SMALL for module in ours)
    folders = Counter(module.file.parent.relative_to(REPO).as_posix() for module in ours)
    fullest, files = folders.most_common(1)[0]
    longest = max(ours, key=lambda module: module.lines)
    comments = sum(module.comments() for module in product)
    templates = [file for folder in PRODUCT for file in (REPO / folder).rglob("templates/*.html")]
    return [
        ("product, lines", f"{lines:,}"),
        *((f"  {package}", f"{total(modules(package)):,}") for package in PRODUCT),
        ("rooms, lines", ""),
        *((f"  {room}", f"{count:,}") for room, count in sorted(rooms.items()) if room),
        ("HTML templates, lines", f"{sum(len(f.read_text().splitlines()) for f in templates):,}"),
        ("modules", f"{len(ours):,}"),
        (f"modules under {SMALL} lines", f"{small:,}"),
        ("fullest folder, modules", f"{files} ({fullest})"),
        ("longest module, lines", f"{longest.lines} ({longest.name})"),
        ("comments per 100 lines", f"{100 * comments / lines:.1f}"),
        ("imports of dagster._*", str(sum(module.private_dagster() for module in product))),
        ("tests, lines", f"{total(modules('tests')):,}"),
        (
            "benchmarks and documentation, lines",
            f"{total(modules('benchmarks', 'documentation')):,}",
        ),
    ]


def total(found: Iterable[Module]) -> int:
    """Return the number of lines of modules."""
    return sum(module.lines for module in found)


def main() -> None:
    """Print the table."""
    rows = table()
    width = max(len(name) for name, _ in rows) + 2
    for name, value in rows:
        print(f"{name:<{width}}{value}".rstrip())


if __name__ == "__main__":
    main()
