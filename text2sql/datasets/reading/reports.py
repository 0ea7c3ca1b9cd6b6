"""What is known of each database's content: looked into once, whatever its path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

from text2sql.agent.schema.descriptions import description_files, unread_files
from text2sql.common.files import write_whole
from text2sql.datasets.gold.checks import OK, DatabaseReport, inspect_database
from text2sql.datasets.reading.digests import Digests, combine_digests
from text2sql.sandbox import Sandbox


class Reports:
    """Reports on databases, kept in ``folder`` by content.

    ``version`` names the code that looks into them; reports of another are not used. Only
    sound databases are remembered: what is wrong with one may be mended without changing it.
    ``indexes`` asks for every index to be compared with its table.
    """

    def __init__(self, folder: Path, version: str, digests: Digests, indexes: bool = False) -> None:
        self._folder, self._digests, self._indexes = folder, digests, indexes
        self._version = f"{version} with indexes" if indexes else version
        self.inspected: list[Path] = []
        """The databases that had to be looked into."""

    def of(self, databases: Mapping[str, Path], sandbox: Sandbox) -> list[DatabaseReport]:
        """Return a report for each database by db_id; all workers are used.

        Several sound files of one content are looked into once; what is wrong with a file may
        lie in its place.
        """
        contents = {db_id: self._content(file) for db_id, file in databases.items()}
        files = {contents[db_id]: file for db_id, file in databases.items()}
        with ThreadPoolExecutor(sandbox.workers, "text2sql-reports") as pool:
            found = pool.map(lambda item: self._of(item[0], item[1], sandbox), files.items())
            reports = dict(zip(files, found, strict=True))
        return [
            replace(self._own(file, reports[contents[db_id]], sandbox), db_id=db_id, path=str(file))
            for db_id, file in databases.items()
        ]

    def _own(self, file: Path, report: DatabaseReport, sandbox: Sandbox) -> DatabaseReport:
        """Return the report on a content where it holds for this file, else one of its own."""
        shared = report.state == OK or report.path == str(file)
        return report if shared else self._look(file, sandbox)

    def _of(self, content: str, file: Path, sandbox: Sandbox) -> DatabaseReport:
        """Return what is known of a content, or look into the file that has it."""
        store = self._folder / f"{content}.json"
        if kept := _kept(store):
            return kept
        report = self._look(file, sandbox)
        if report.state == OK:
            write_whole(store, json.dumps(asdict(report)))
        return report

    def _look(self, file: Path, sandbox: Sandbox) -> DatabaseReport:
        self.inspected.append(file)
        return inspect_database(file, sandbox, self._digests.of(file), self._indexes)

    def _content(self, file: Path) -> str:
        """Return what changes when the database, its log or its descriptions do."""
        logs = [file.with_name(f"{file.name}{suffix}") for suffix in ("-wal", "-journal")]
        files = [file, *(log for log in logs if log.is_file()), *description_files(file)]
        names = ["database", *(part.name for part in files[1:])]
        digests = [self._digests.of(part) for part in files]
        parts = dict(zip(names, digests, strict=True))
        unread = "\n".join(part.name for part in unread_files(file))
        return combine_digests({"version": self._version, "unread": unread, **parts})


def _kept(store: Path) -> DatabaseReport | None:
    """Return what was remembered, None where nothing was or the file is damaged."""
    try:
        return DatabaseReport(**json.loads(store.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None
