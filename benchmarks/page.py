"""The page of benchmarks: the ratios and costs in ``benchmarks/results``, in tables.

``python -m benchmarks.page`` writes ``docs/benchmarks.md``; a test says when it is not current.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.page_rows import GAINS, SECTIONS, Section
from text2sql.common.checkout import CHECKOUT

RESULTS = CHECKOUT / "benchmarks" / "results"
PAGE = CHECKOUT / "docs" / "benchmarks.md"

_TOP = """# Benchmarks

`make bench` runs all of them and writes this page; `python -m benchmarks.all --only sandbox` runs
one, and `--quick` a short form of each, which writes to `build/benchmarks` and not here. Compare
ratios, not seconds, with those of another machine. The whole results are in `benchmarks/results/`.

| benchmark | what | value |
|---|---|---|
"""
_ABOUT = """
## How it was measured

The load counts programs of idle priority as well, which run only where nothing else wants a core.

| benchmark | command | date | machine |
|---|---|---|---|
"""


def page() -> str:
    """Return the page for the results that are there."""
    found = {name: _read(name) for name in (*(one.result for one in SECTIONS), *GAINS)}
    there = {name: values for name, values in found.items() if values}
    lines = [line for one in SECTIONS for line in _lines(one, there.get(one.result, {}))]
    about = [line for name, values in there.items() for line in _measured(name, values)]
    gains = [_gain(title, there[name]) for name, title in GAINS.items() if name in there]
    return "".join([_TOP, *lines, _ABOUT, *about, *gains])


def _read(name: str) -> dict[str, Any]:
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _lines(section: Section, found: dict[str, Any]) -> Iterator[str]:
    for row in section.rows:
        value = _at(found, row.path)
        if value is not None:
            shown = f"{_shown(value)} {row.unit}".strip()
            yield f"| {section.title} | {row.what} | {shown} |\n"


def _measured(name: str, found: dict[str, Any]) -> Iterator[str]:
    """Say with what command, when and where something was measured, parts of it perhaps later."""
    yield _measured_by(name, found.get("measured", found))
    for part, about in found.get("again", {}).items():
        yield _measured_by(f"{name}: {part}", about)


def _measured_by(name: str, about: dict[str, Any]) -> str:
    on = [f"{kind} {about[kind]}" for kind in ("python", "sqlite") if kind in about]
    on += [f"load before {about['load_before']}"] if "load_before" in about else []
    where = ", ".join([f"{about['cores']} cores", about["machine"], *on])
    return f"| {name} | `{about['command']}` | {about['date'][:10]} | {where} |\n"


def _at(found: Any, path: str) -> Any:
    """Return the value at a path; None where there is none."""
    for name in path.split("/"):
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return found


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _gain(title: str, found: dict[str, Any]) -> str:
    """Show what GRPO gains the pocket policy, one line for each training run and setting."""
    lines = [f"\n## {title}\n\n| training run | setting | base | trained |\n|---|---|---|---|\n"]
    for run, scores in found["scores"].items():
        whole = [one for one in scores["scores"] if one["part"] == "all"]
        for setting in dict.fromkeys(one["setting"] for one in whole):
            values = [_percent(one) for one in whole if one["setting"] == setting]
            lines.append(f"| {run} | {setting} | {' | '.join(values)} |\n")
    return "".join(lines)


def _percent(score: dict[str, Any]) -> str:
    low, high = 100 * score["low"], 100 * score["high"]
    return f"{100 * score['value']:.1f} [{low:.1f}, {high:.1f}] n={score['n']}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
