"""Dagster's home below the artifact root: created if missing, tidied before use."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import yaml

from assets.common.pools import sampling_pool
from pipelines.code_links import git_url
from pipelines.executors import choose_executor
from pipelines.pools import sampling_slots, set_pools
from pipelines.runs.records import fail_lost_runs, records_error
from resources.automation import project_time_zone
from resources.step_pods import sampling_pod, training_pod
from text2sql.common.artifacts import artifact_root, dagster_home
from text2sql.common.checkout import CHECKOUT
from text2sql.errors import Text2SqlError

CONFIG_VARIABLE = "TEXT2SQL_DAGSTER_YAML"
"""Names another dagster.yaml than the checkout's, such as deploy/postgres/dagster.yaml."""
OURS = [dg.AssetKey(name) for name in ("champion_policy", "bird_archive", "report_questions")]
"""The assets that an instance of this project materializes first, wherever one starts."""


def prepare_home(root: Path | None = None) -> Path:
    """Make ``<root>/dagster_home`` with this project's dagster.yaml; use it from now on.

    Sets ``DAGSTER_HOME`` for this process and its children. Raises Text2SqlError if the folder
    cannot be made, or if the dagster.yaml that was named does not exist.
    """
    home = dagster_home(root or artifact_root())
    link, target = home / "dagster.yaml", instance_config()
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink() or link.resolve() != target:
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    except OSError as error:
        raise Text2SqlError(
            f"The artifact root cannot be written: {error.strerror} ({error.filename})."
        ) from error
    os.environ["DAGSTER_HOME"] = str(home)
    return home


def instance_config() -> Path:
    """Return the dagster.yaml in force: ``TEXT2SQL_DAGSTER_YAML``, or the checkout's."""
    named = os.environ.get(CONFIG_VARIABLE)
    file = (CHECKOUT / Path(named or "dagster.yaml").expanduser()).resolve()
    if not file.is_file():
        raise Text2SqlError(f"{CONFIG_VARIABLE} names {file}, which does not exist.")
    return file


def open_instance(root: Path | None = None) -> dg.DagsterInstance:
    """Open Dagster's instance in the prepared home; use it in a ``with`` block."""
    check_variables()
    prepare_home(root)
    config = yaml.safe_load(instance_config().read_text()) or {}
    named = re.findall(r"\benv: (\w+)$", yaml.safe_dump(config), re.MULTILINE)
    if unset := sorted(set(named) - set(os.environ)):  # Dagster would show a traceback
        raise Text2SqlError(
            f"{instance_config()} needs environment variables that are not set: {', '.join(unset)}."
        )
    with _explained():
        instance = dg.DagsterInstance.get()
        set_pools(instance)
        # With its records in SQLite, all of an instance's runs are on this machine.
        fail_lost_runs(instance, local=set(config.get("storage") or {"sqlite"}) == {"sqlite"})
    return instance


def check_variables() -> None:
    """Raise Text2SqlError for an invalid environment variable that the definitions read.

    Dagster would show it as an error in the code.
    """
    readers = (project_time_zone, sampling_pool, sampling_slots, sampling_pod, training_pod)
    for read in (*readers, choose_executor, git_url):
        read()


def existing_instance(root: Path) -> dg.DagsterInstance | None:
    """Open the instance that exists, unchanged: below the root, else in ``DAGSTER_HOME``.

    None if there is none, or if the one in ``DAGSTER_HOME`` has nothing of this project. Use it in
    a ``with`` block.
    """
    own, named = dagster_home(root), os.environ.get("DAGSTER_HOME")
    places = [own, *([Path(named)] if named else [])]
    home = next((place for place in places if (place / "dagster.yaml").is_file()), None)
    if home is None:
        return None
    os.environ["DAGSTER_HOME"] = str(home.resolve())
    with _explained():
        instance = dg.DagsterInstance.get()
        if home == own or any(map(instance.has_asset_key, OURS)):
            return instance
    instance.dispose()
    return None


@contextmanager
def _explained() -> Iterator[None]:
    """Raise an error of Dagster's configuration or of its database as one sentence."""
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)  # each attempt to reach the database would be a warning
    try:
        yield
    except dg.DagsterInvalidConfigError as error:
        mistake = " ".join((error.errors[0].message if error.errors else str(error)).split())
        raise Text2SqlError(f"{instance_config()} is invalid: {mistake}") from error
    except Exception as error:
        if explained := records_error(error):
            raise explained from error
        raise
    finally:
        logger.setLevel(level)


if __name__ == "__main__":  # export DAGSTER_HOME=$(python -m pipelines.home)
    with open_instance():
        print(os.environ["DAGSTER_HOME"])
