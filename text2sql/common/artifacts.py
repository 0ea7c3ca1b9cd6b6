"""Where everything lies below the artifact root: the one owner of its layout.

Each stage's folders and files have a function here, which takes the root; nobody else joins names
to the root.
"""

from __future__ import annotations

import os
from pathlib import Path

from text2sql.common.checkout import CHECKOUT
from text2sql.errors import Text2SqlError

ROOT_VARIABLE = "TEXT2SQL_ROOT"


def artifact_root() -> Path:
    """Return the artifact root: the folder that holds everything the project makes.

    ``TEXT2SQL_ROOT`` names it. Without it, it is ``artifacts`` in the current directory or, where
    there is none, in the checkout that this package belongs to. Raises Text2SqlError if it names
    a file.
    """
    if named := os.environ.get(ROOT_VARIABLE):
        root = Path(named).expanduser().resolve()
        if root.is_file():
            raise Text2SqlError(f"{ROOT_VARIABLE} names {root}, which is a file: give a folder.")
        return root
    here = Path.cwd()
    in_checkout = (CHECKOUT / "pyproject.toml").is_file()
    return (CHECKOUT if in_checkout and not (here / "artifacts").is_dir() else here) / "artifacts"


# Data
def downloads_folder(root: Path) -> Path:
    """Return the folder of downloaded files, one subfolder an address."""
    return root / "downloads"


def archives_folder(root: Path) -> Path:
    """Return the folder of unpacked archives, one subfolder a content."""
    return root / "archives"


def corpus_folder(root: Path, version: str) -> Path:
    """Return the folder of a generated pocket corpus."""
    return root / "corpus" / version


def known_results_folder(root: Path, version: str) -> Path:
    """Return the folder of the query results that a version of the judge has cached."""
    return root / "known_results" / version


def dataset_folder(root: Path, fingerprint: str = "") -> Path:
    """Return the folder of what is made from one dataset, or from all of them."""
    return root / "bird" / fingerprint


def latest_dataset_file(root: Path) -> Path:
    """Return the record of the dataset that was ingested last, whether or not its checks passed."""
    return dataset_folder(root) / "archive.json"


def current_dataset_file(root: Path) -> Path:
    """Return the record of the dataset that passed its checks last."""
    return dataset_folder(root) / "current.json"


def file_digests(root: Path) -> Path:
    """Return the cache of the datasets' file digests: unchanged files are not read again."""
    return dataset_folder(root) / "digests.json"


def table_rows_file(root: Path) -> Path:
    """Return the record of each source's tables and rows, as they were ingested last."""
    return dataset_folder(root) / "table_rows.json"


def database_reports_folder(root: Path) -> Path:
    """Return the folder of the reports on databases, one a content."""
    return dataset_folder(root) / "reports"


def dataset_file(root: Path, fingerprint: str) -> Path:
    """Return the record of one dataset: where it came from, and where its splits lie."""
    return dataset_folder(root, fingerprint) / "archive.json"


def split_folder(root: Path, fingerprint: str, split: str) -> Path:
    """Return the folder of what is made from one split of a dataset."""
    return dataset_folder(root, fingerprint) / split


# Rollouts
def rollouts_folder(root: Path, name: str = "") -> Path:
    """Return the folder of one set of rollouts, a store for each shard in it, or of all sets."""
    return root / "rollouts" / name


def base_rollouts_file(root: Path) -> Path:
    """Return the record of the base policy's rollouts that the difficulty filter reads."""
    return rollouts_folder(root) / "base_rollouts.json"


# Training
def prompts_folder(root: Path) -> Path:
    """Return the folder of the training prompts: questions, gold results and ratings."""
    return root / "prompts"


def training_folder(root: Path, run: str = "", version: str = "") -> Path:
    """Return the folder of a training run, or of all of them.

    A run with certain settings and data writes into the subfolder of that version.
    """
    return root / "training" / run / version


def training_record_file(root: Path, run: str) -> Path:
    """Return the record of a training run, which exists once its policy is trained."""
    return training_folder(root, run) / "training.json"


def training_plan_file(root: Path, run: str) -> Path:
    """Return the plan of a training run, which exists once it has started."""
    return training_folder(root, run) / "plan.json"


# Evaluation
def evaluation_folder(root: Path, run: str = "") -> Path:
    """Return the folder of a training run's evaluation on dev, or of all of them."""
    return root / "evaluation" / run


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


def back_test_rollouts(root: Path, revision: str) -> Path:
    """Return the folder of a policy's rollouts in back-tests."""
    return rollouts_folder(root, "back_tests") / revision


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


def summary_file(root: Path) -> Path:
    """Return the numbers of the last lifecycle, for programs."""
    return root / "summary.json"
