"""Where everything lies below the artifact root: the one owner of its layout.

Each stage's folders and files have a function here, which takes the root; nobody else joins names
to the root.
"""

from __future__ import annotations

import os
from pathlib import Path

from text2sql.common.checkout import CHECKOUT

ROOT_VARIABLE = "TEXT2SQL_ROOT"


def artifact_root() -> Path:
    """Return the artifact root: the folder that holds everything the project makes.

    ``TEXT2SQL_ROOT`` names it. Without it, it is ``artifacts`` in the current directory or, where
    there is none, in the checkout that this package belongs to.
    """
    if named := os.environ.get(ROOT_VARIABLE):
        return Path(named).expanduser().resolve()
    here = Path.cwd()
    in_checkout = (CHECKOUT / "pyproject.toml").is_file()
    return (CHECKOUT if in_checkout and not (here / "artifacts").is_dir() else here) / "artifacts"


# Data


# Rollouts


# Training


# Evaluation


def evaluations_folder(root: Path) -> Path:
    """Return the folder with an evaluation on dev of each training run."""
    return root / "evaluation"


def evaluation_folder(root: Path, run: str) -> Path:
    """Return the folder of a training run's evaluation on dev."""
    return evaluations_folder(root) / run


def held_out_folder(root: Path, name: str = "") -> Path:
    """Return the folder of one evaluation on a held-out split, or of all of them."""
    return root / "held_out" / name


def held_out_log(root: Path) -> Path:
    """Return the log of all evaluations on held-out splits, JSON Lines."""
    return root / "held_out.jsonl"


# Promotion


def champion_file(root: Path) -> Path:
    """Return the record of the current champion."""
    return root / "champion.json"


def champion_history(root: Path) -> Path:
    """Return the record of all champions, JSON Lines, the latest last."""
    return root / "champion_history.jsonl"


def champion_lock(root: Path) -> Path:
    """Return the file that is locked while the champion changes."""
    return root / ".champion.lock"


def back_test_file(root: Path, run: str) -> Path:
    """Return the result of a training run's back-test."""
    return evaluation_folder(root, run) / "back_test.json"


# Reporting


def reporting_file(root: Path) -> Path:
    """Return the SQLite file with the reporting tables, unless a URL names another database."""
    return root / "reporting.sqlite"


def report_databases(root: Path) -> Path:
    """Return the folder with the databases of the shipped questions."""
    return root / "report_databases"


def day_page(root: Path, day: str) -> Path:
    """Return the HTML page of a day's answers."""
    return root / "reports" / f"{day}.html"


def answering_run_note(root: Path, dagster_run: str) -> Path:
    """Return the file that records with which code and champion a Dagster run answered."""
    return root / "reports" / "runs" / f"{dagster_run}.json"


def day_rollouts(root: Path, day: str) -> Path:
    """Return the folder with the rollouts of a day's questions."""
    return root / "rollouts" / "reports" / day


# Dagster and logs


def logs_folder(root: Path) -> Path:
    """Return the folder of the logs of runs and servers."""
    return root / "logs"


def dagster_home(root: Path) -> Path:
    """Return the folder of Dagster's instance."""
    return root / "dagster_home"
