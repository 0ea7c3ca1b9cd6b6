"""The figures of the house are counted from its files."""

import subprocess
import sys

from documentation.figures import PRODUCT, REPO, Module


def test_the_script_prints_every_figure():
    command = [sys.executable, "-m", "documentation.figures"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True)
    rows = [line.rsplit("  ", 1) for line in done.stdout.splitlines()]
    found = {name.strip(): value.strip() for name, value in (row for row in rows if len(row) == 2)}
    packages = [int(found[package].replace(",", "")) for package in PRODUCT]
    assert sum(packages) == int(found["product, lines"].replace(",", ""))
    rooms = [value for name, value in found.items() if name.startswith("text2sql/")]
    assert 0 < sum(int(value.replace(",", "")) for value in rooms) <= packages[0]
    named = ("modules", "modules under 60 lines", "fullest folder, modules", "tests, lines")
    assert set(named) | {"longest module, lines", "comments per 100 lines"} <= set(found)
    assert "imports of dagster._*" in found


def test_comments_for_tools_do_not_count(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        "import dagster._core  # noqa: F401\n"
        "from dagster._utils import x  # fmt: skip\n"
        "import dagster as dg\n"
        "y = '# no comment'  # why\n"
        "z = 1  # noqa: E501 - a reason\n"
    )
    module = Module(file)
    assert (module.lines, module.comments(), module.private_dagster()) == (5, 2, 2)
