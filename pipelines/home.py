"""Dagster's home below the artifact root: made where missing, tidied before use."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from pipelines.pools import set_pools
from pipelines.runs.orphans import end_orphaned_runs
from pipelines.runs.records import hush_attempts, records_error
from pipelines.runs.variables import check_variables
from text2sql.common.artifacts import artifact_root
from text2sql.common.checkout import CHECKOUT
from text2sql.errors import Text2SqlError

CONFIG_VARIABLE = "TEXT2SQL_DAGSTER_YAML"
"""Names another dagster.yaml than the checkout's, such as deploy/postgres/dagster.yaml."""
_UNSET = re.compile(r'environment variable "(\w+)" which is not set')
OURS = [dg.AssetKey(name) for name in ("champion_policy", "bird_archive", "report_questions")]
"""Assets that an instance of this project knows soon: where one can begin."""


def prepare_home(root: Path | None = None) -> Path:
    """Make ``<root>/dagster_home`` with this project's dagster.yaml; use it from now on.

    Sets ``DAGSTER_HOME`` for this process and its children. Raises Text2SqlError where the
    folder cannot be made, or the dagster.yaml that was named is not there.
    """
    home = (root or artifact_root()) / "dagster_home"
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
        raise Text2SqlError(f"{CONFIG_VARIABLE} names {file}, which is not there.")
    return file


def open_instance(root: Path | None = None) -> dg.DagsterInstance:
    """Open Dagster's instance in the prepared home; use it in a ``with`` block."""
    check_variables()
    prepare_home(root)
    with _told_plainly():
        instance = dg.DagsterInstance.get()
        set_pools(instance)
    end_orphaned_runs(instance)
    return instance


def existing_instance(root: Path) -> dg.DagsterInstance | None:
    """Open the instance that is there as it is: below the root, else in ``DAGSTER_HOME``.

    None where there is none, or where the one in ``DAGSTER_HOME`` knows nothing of this project.
    Use it in a ``with`` block.
    """
    own, named = root / "dagster_home", os.environ.get("DAGSTER_HOME")
    places = [own, *([Path(named)] if named else [])]
    home = next((place for place in places if (place / "dagster.yaml").is_file()), None)
    if home is None:
        return None
    os.environ["DAGSTER_HOME"] = str(home.resolve())
    with _told_plainly():
        instance = dg.DagsterInstance.get()
        if home == own or any(map(instance.has_asset_key, OURS)):
            return instance
    instance.dispose()
    return None


@contextmanager
def _told_plainly() -> Iterator[None]:
    """Say in a sentence what is wrong with Dagster's configuration or with its database."""
    hush_attempts()
    try:
        yield
    except dg.DagsterInvalidConfigError as error:
        raise Text2SqlError(_mistake(error)) from error
    except Exception as error:
        if told := records_error(error):
            raise told from error
        raise


def _mistake(error: dg.DagsterInvalidConfigError) -> str:
    """Say what is wrong with the instance's dagster.yaml."""
    messages = [" ".join(one.message.split()) for one in error.errors]
    if unset := sorted({name for text in messages for name in _UNSET.findall(text)}):
        names = ", ".join(unset)
        return f"{instance_config()} needs environment variables that are not set: {names}."
    return f"{instance_config()} makes no sense: {messages[0]}"


def main() -> None:
    """Make the home and print its path: ``export DAGSTER_HOME=$(python -m pipelines.home)``."""
    with open_instance():
        print(os.environ["DAGSTER_HOME"])


if __name__ == "__main__":
    try:
        main()
    except Text2SqlError as error:
        sys.exit(f"error: {error}")
