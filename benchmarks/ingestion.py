"""What ingestion costs: against copying, hashing and running the gold once; memory; a rerun.

``python -m benchmarks.ingestion`` generates a corpus of 11 databases and 1,500 questions and
ingests its folder with the project's assets in a process of its own. The floor does what cannot
be avoided, one after the other as a script would: copy the files, hash them, run each gold query
on a new connection. Memory is the largest of any one process. All ratios are from one run.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.ingestion_corpus import SHARES, build
from benchmarks.measuring import seconds, surroundings, write
from text2sql.common.files import file_digest
from text2sql.datasets.reading.layout import find_split


def main() -> None:
    """Parse the command line, measure, and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=1000, help="of all databases (1000)")
    parser.add_argument("--questions", type=int, default=1500, help="with a gold query (1500)")
    parser.add_argument("--folder", type=Path, help="where to work (a temporary folder)")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    given = parser.parse_args()
    found: dict[str, Any] = {"measured": surroundings()}
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        work = Path(folder)
        corpus = build(work / "corpus", given.megabytes, given.questions)
        found["corpus"] = describe(corpus, given.questions)
        found["seconds"] = compare(corpus, work)
        found["memory"] = memory(work, given.megabytes)
    write(found, given.out)


def describe(corpus: Path, questions: int) -> dict[str, Any]:
    """Say how large the corpus is."""
    sizes = [file.stat().st_size for file in find_split(corpus, "dev").databases.values()]
    return {
        "questions": questions,
        "databases": len(sizes),
        "megabytes": round(sum(sizes) / 1e6),
        "largest_megabytes": round(max(sizes) / 1e6),
    }


def compare(corpus: Path, work: Path) -> dict[str, Any]:
    """Return the time of the floor, of a first ingestion and of one with nothing changed."""
    copying, hashing, gold = floor(corpus, work / "copy")
    first = seconds(lambda: ingest(corpus, work / "root"))
    again = seconds(lambda: ingest(corpus, work / "root"))
    whole = copying + hashing + gold
    return {
        "copy": round(copying, 2),
        "hash": round(hashing, 2),
        "gold": round(gold, 2),
        "floor": round(whole, 2),
        "ingestion": round(first, 2),
        "ingestion_to_floor": round(first / whole, 2),
        "nothing_changed": round(again, 2),
    }


def floor(corpus: Path, target: Path) -> tuple[float, float, float]:
    """Copy and hash the databases and run the gold queries; return the seconds of each."""
    layout = find_split(corpus, "dev")
    copying = seconds(lambda: shutil.copytree(corpus, target))
    hashing = seconds(lambda: [file_digest(file) for file in layout.databases.values()])
    rows = json.loads(layout.questions.read_text(encoding="utf-8"))
    asked = [(layout.databases[row["db_id"]], row["SQL"]) for row in rows]
    gold = seconds(lambda: [run(database, sql) for database, sql in asked])
    shutil.rmtree(target)
    return copying, hashing, gold


def run(database: Path, sql: str) -> list[Any]:
    """Run one query as a plain evaluator does; return its rows."""
    connection = sqlite3.connect(database)
    rows = connection.execute(sql).fetchall()
    connection.close()
    return rows


def ingest(corpus: Path, root: Path) -> int:
    """Ingest in a process of its own; return the peak memory of its largest process in bytes."""
    arguments = [sys.executable, "-m", "benchmarks.ingestion_run", str(corpus), str(root)]
    subprocess.run(arguments, check=True, capture_output=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def memory(work: Path, megabytes: float) -> list[dict[str, Any]]:
    """Return the peak memory for databases of three sizes, smallest first."""
    found = []
    for part in (100, 10, 1):
        corpus = build(work / f"part{part}", megabytes / part, 2 * len(SHARES))
        root = work / f"root{part}"
        peak = _alone(corpus, root)
        found.append({"megabytes": megabytes / part, "peak_megabytes": round(peak / 1e6)})
        shutil.rmtree(corpus)
    return found


def _alone(corpus: Path, root: Path) -> int:
    """Ingest below a new process, so that peaks of earlier children do not count."""
    script = (
        "import sys; from pathlib import Path; from benchmarks.ingestion import ingest; "
        "print(ingest(Path(sys.argv[1]), Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", script, str(corpus), str(root)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
