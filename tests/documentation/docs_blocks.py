"""Reading the documentation as its readers do: links, headings, and blocks to type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
DOCS = REPO / "docs"
SHELLS = {"console", "sh", "bash", "shell"}
NEEDS = {"a GPU", "a cluster", "a network", "a policy server", "PostgreSQL", "minutes"} | {
    "your files"
}
"""What a block may need that keeps it from being run: ``<!-- needs: a GPU -->`` before it."""

_FENCE = re.compile(
    r"(?:<!-- needs: (?P<needs>[^>]+?) -->\n)?^```(?P<kind>[\w-]*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block; ``needs`` says what it takes to run it, empty where nothing does."""

    file: Path
    line: int
    kind: str
    text: str
    needs: str

    @property
    def name(self) -> str:
        return f"{self.file.relative_to(REPO)}:{self.line}"


def pages() -> list[Path]:
    """Return every page that people read: those in the root, and those below ``docs``."""
    root = [REPO / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
    return [*root, *sorted(DOCS.rglob("*.md"))]


def blocks(file: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    text = file.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("text"))
        yield Block(file, line, found["kind"], found["text"], found["needs"] or "")


def prose(file: Path) -> str:
    """Return a page without its blocks."""
    return _FENCE.sub("", file.read_text(encoding="utf-8"))


def links(file: Path) -> list[str]:
    """Return what a page links to, pictures included."""
    return _LINK.findall(prose(file))


def anchors(file: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MkDocs make them."""
    titles = re.findall(r"^#+ (.+)$", prose(file), re.MULTILINE)
    texts = (re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", title).strip().lower() for title in titles)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", title)) for title in texts}


@dataclass(frozen=True)
class Step:
    """A command of a ``console`` block, and the output that is shown below it."""

    command: str
    output: str


def steps(block: Block) -> list[Step]:
    """Split a block: ``$`` begins a command, ``>`` or a backslash continues it; the rest is output.

    A block of another kind is one command without output.
    """
    if block.kind != "console":
        return [Step(block.text, "")]
    found: list[list[str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], ""])
        elif found and not found[-1][1] and (line.startswith("> ") or found[-1][0].endswith("\\")):
            found[-1][0] += "\n" + line.removeprefix("> ")
        elif found:
            found[-1][1] += line + "\n"
    return [Step(command, output) for command, output in found]
