"""Checks the documentation against the code: links, files, tables, settings, the site."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from documentation import stage_picture
from documentation.command_page import command_contexts
from tests.documentation.docs_blocks import (
    DOCS,
    NEEDS,
    REPO,
    SHELLS,
    anchors,
    blocks,
    links,
    pages,
    prose,
)

SOURCES = ("text2sql", "assets", "resources", "pipelines")


def short(file: Path) -> str:
    return str(file.relative_to(REPO))


# -- links and files


def generated(file: Path) -> bool:
    """Say whether a page is written when the site is built."""
    return file.parent == DOCS / "project" or file in {
        DOCS / "reference" / f"{name}.md" for name in ("commands", "settings", "assets", "tables")
    }


@pytest.mark.parametrize("page", pages(), ids=short)
def test_links_and_anchors_lead_somewhere(page):
    for link in links(page):
        if re.match(r"https?://|mailto:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        if generated(file):
            continue
        assert file.exists(), f"{short(page)}: {link}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{short(page)}: {link}"


@pytest.mark.parametrize("page", pages(), ids=short)
def test_named_files_exist(page):
    """Paths in the text that begin with a folder of the repository."""
    folders = "assets|benchmarks|docs|documentation|examples|pipelines|resources|tests|text2sql"
    for name in re.findall(rf"`((?:{folders})/[\w/.-]+\.(?:py|md|toml|yaml|json))`", prose(page)):
        assert (REPO / name).exists() or not name.startswith("benchmarks/"), name
        assert (REPO / name).exists(), f"{short(page)}: {name}"


@pytest.mark.parametrize("page", pages(), ids=short)
def test_named_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (REPO / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"(?:`|\$ )make ((?:[a-z-]+ ?)+)", text)
    assert {target for words in named for target in words.split()} <= targets


def test_blocks_that_are_not_run_say_what_they_need():
    for page in pages():
        for block in blocks(page):
            assert not block.needs or block.needs in NEEDS, f"{block.name}: {block.needs}"
            assert not block.needs or block.kind in SHELLS, f"{block.name} is no shell block"


# -- the command line


def commands() -> dict[str, str]:
    """Return every command and its help."""
    return {" ".join(path): context.get_help() for path, context in command_contexts()}


def exit_statuses(help_text: str) -> Iterator[int]:
    """Yield the statuses that a help lists."""
    for line in help_text.partition("Exit status")[2].splitlines()[1:]:
        if not line.strip():
            return
        if found := re.match(r" +(\d+) ", line):
            yield int(found[1])


def test_the_page_of_exit_statuses_has_those_of_every_help():
    listed: dict[int, str] = {}
    status = 0
    for line in (DOCS / "reference" / "exit-statuses.md").read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if line.startswith("| ") and len(cells) == 3 and (cells[0].isdigit() or not cells[0]):
            status = int(cells[0]) if cells[0] else status
            listed[status] = listed.get(status, "") + " " + cells[2]
    assert set(listed) >= {0, 1, 2, 3, 4, 5, 6, 70, 130, 141}
    for name, text in commands().items():
        own = name.removeprefix("text2sql").strip()
        for status in exit_statuses(text):
            there = listed[status]
            missing = f"docs/reference/exit-statuses.md has no {status} of `{own}`"
            assert "all" in there or f"`{own}`" in there, missing


def test_every_command_that_prints_results_can_print_json():
    verbs = ("add", "edit", "enable", "disable", "delete")
    acknowledge = {f"questions {verb}" for verb in verbs}
    other_form = {"questions export", "serve"}  # YAML; what a server says
    for path, context in command_contexts():
        own = " ".join(path[1:])
        if hasattr(context.command, "commands") or hasattr(context.command, "list_commands"):
            continue
        names = {name for option in context.command.params for name in option.opts}
        lists = own in acknowledge | other_form
        assert ("--json" in names) != lists, f"{own}: needs --json, or a place in the sets above"


def test_every_option_has_a_help():
    for path, context in command_contexts():
        for option in context.command.params:
            if option.param_type_name == "option" and not getattr(option, "help", ""):
                raise AssertionError(f"{' '.join(path)}: {option.opts[0]} has no help")


# -- tables that repeat what the code says


def test_every_asset_check_is_explained():
    from pipelines.definitions import defs

    text = "\n".join(prose(page) for page in pages())
    checks = {key.name for key in defs.resolve_asset_graph().asset_check_keys}
    unexplained = sorted(name for name in checks if f"`{name}`" not in text)
    assert unexplained == [], "name these on the page in docs/ that explains their asset"


def rows(page: str, header: str) -> list[list[str]]:
    """Return the cells of the table with a header, without its first two lines."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    start = lines.index(header) + 2
    end = next(i for i in range(start, len(lines) + 1) if i == len(lines) or lines[i][:1] != "|")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:end]]


def test_the_rewards_are_the_judges():
    from text2sql.judge.reward import REWARD

    shown: dict[str, float | None] = {}
    for verdicts, _, reward in rows("reward.md", "| verdict | what happened | reward |"):
        value = None if reward == "none" else float(reward.replace("\N{MINUS SIGN}", "-"))
        shown |= dict.fromkeys(re.findall(r"`(\w+)`", verdicts), value)
    assert shown == {verdict.value: reward for verdict, reward in REWARD.items()}


def test_the_bounds_are_the_sandboxes():
    from text2sql.common.render import Budget
    from text2sql.sandbox.limits import MAX_SQL_CHARS, MAX_VALUE_BYTES, Limits

    limits, budget = Limits(), Budget()
    text = (DOCS / "sandbox.md").read_text()
    for words in (
        f"| {limits.seconds:g} s, wall clock",
        f"| {limits.memory_mb:,} MB",
        f"| {limits.max_rows:,} |",
        f"| {limits.max_bytes:,} |",
        f"| {MAX_VALUE_BYTES:,} bytes |",
        f"| {MAX_SQL_CHARS:,} characters |",
        f"{budget.rows} rows, {budget.cell}\ncharacters a cell, {budget.chars:,} in all",
    ):
        assert words in text, words


def test_the_environment_variables_are_those_of_the_code():
    code = "\n".join(
        file.read_text(encoding="utf-8") for name in SOURCES for file in (REPO / name).rglob("*.py")
    )
    read = set(re.findall(r"\"(TEXT2SQL_[A-Z_]+|PRIME_RL_DIR|XDG_CACHE_HOME)\"", code))
    named = set(re.findall(r"`([A-Z0-9_]{6,})`", (DOCS / "reference/environment.md").read_text()))
    assert read - named == set(), "docs/reference/environment.md lacks these"
    assert named - read - {"DAGSTER_HOME"} == set(), "no code reads these any more"


# -- settings that people copy


def yaml_blocks() -> list:
    return [
        pytest.param(block, id=block.name)
        for page in pages()
        for block in blocks(page)
        if block.kind == "yaml" and re.search(r"^(ops|resources):", block.text, re.MULTILINE)
    ]


@pytest.mark.parametrize("block", yaml_blocks())
def test_run_config_that_is_shown_is_accepted(block, monkeypatch, tmp_path):
    import dagster as dg

    from pipelines.definitions import defs

    monkeypatch.setenv("TEXT2SQL_ROOT", str(tmp_path))
    config = yaml.safe_load(block.text)
    if not set(config) <= {"ops", "resources", "execution"}:
        pytest.skip("no run config")
    job = defs.resolve_implicit_global_asset_job_def()
    named = [dg.AssetKey(name) for name in config.get("ops", {})]
    assert set(named) <= set(defs.resolve_asset_graph().get_all_asset_keys())
    dg.validate_run_config(job, config)


# -- the site


class Sources(HTMLParser):
    """Collects what a page loads by itself: scripts, styles, pictures, frames."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source") and values.get("src"):
            self.loaded.append(values["src"])
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(values.get("href", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built strictly: a broken link, anchor or page outside the navigation fails."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_the_site_builds_and_needs_no_network(site):
    found = []
    for page in site.rglob("*.html"):
        sources = Sources()
        sources.feed(page.read_text(encoding="utf-8"))
        found += [s for s in sources.loaded if re.match(r"(https?:)?//", s)]
        missing = [s for s in sources.loaded if not (page.parent / s.partition("?")[0]).exists()]
        assert [s for s in missing if not s.startswith("data:")] == [] or page.name == "404.html"
    assert found == []
    styles = "".join(file.read_text() for file in site.rglob("*.css"))
    assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", styles)


def test_the_reference_has_every_command_table_and_asset(site):
    from pipelines.definitions import defs
    from text2sql.reporting.tables.schema import metadata

    def text(name: str) -> str:
        return (site / "reference" / f"{name}.html").read_text(encoding="utf-8")

    for name, help_text in commands().items():
        usage = help_text.splitlines()[0]
        assert usage.replace("<", "&lt;") in text("commands").replace("&quot;", '"'), name
    for table in metadata.sorted_tables:
        assert all(f"<code>{column.name}</code>" in text("tables") for column in table.columns)
    assert 'id="latest_answers"' in text("tables")
    for key in defs.resolve_asset_graph().get_all_asset_keys():
        assert f'id="{key.to_user_string()}"' in text("assets")
    assert 'id="grpo_policy"' in text("settings")


# -- numbers


def test_benchmark_results_say_how_they_were_made():
    for file in (REPO / "benchmarks" / "results").glob("*.json"):
        found = json.loads(file.read_text())
        measured = found.get("measured", found)
        assert measured["command"].startswith("python -m benchmarks."), file.name
        assert re.match(r"\d{4}-\d\d-\d\dT", measured["date"]), file.name
        assert measured["cores"] >= 1, file.name


def test_the_page_of_benchmarks_is_what_the_results_say():
    from benchmarks.page import page

    assert (DOCS / "benchmarks.md").read_text(encoding="utf-8") == page()


def test_picture_of_the_stages_shows_the_assets_of_today():
    assert stage_picture.FILE.read_text(encoding="utf-8") == stage_picture.picture()
