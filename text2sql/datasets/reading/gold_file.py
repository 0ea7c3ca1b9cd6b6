"""Gold queries in a .sql file beside the questions: one line each, the SQL, a tab, the database.

BIRD and Spider ship such a file too; it is read only where the questions file has no SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from text2sql.common.counting import counted
from text2sql.common.files import read_text
from text2sql.datasets.reading.folders import entries
from text2sql.datasets.reading.rows import Field, Row, read_rows
from text2sql.errors import Text2SqlError
from text2sql.sandbox.sql.statements import BIRD_SEPARATOR


def gold_beside(questions: Path) -> Path | None:
    """Return the gold file of a questions file that has no SQL; raise as ``read_rows`` does."""
    return find_gold_file(questions, read_rows(questions))


def find_gold_file(questions: Path, rows: Sequence[Row]) -> Path | None:
    """Return ``<name>_gold.sql`` or ``<name>.sql``, in any case, where no row has a SQL.

    A SQL that is null or blank, as in questions whose gold is held back, is none.
    """
    if not rows or any(row.gold() for row in rows):
        return None
    beside = {file.name.lower(): file for file in entries(questions.parent) if file.is_file()}
    names = (f"{questions.stem}_gold.sql", f"{questions.stem}.sql")
    return next((beside[name.lower()] for name in names if name.lower() in beside), None)


def read_gold_file(file: Path, rows: Sequence[Row]) -> list[str]:
    """Return the gold SQL of each row, paired line by line.

    The last tab of a line separates: a query may have tabs of its own. Raises Text2SqlError
    when a pair does not fit, as after a line break within a query: what follows would be shifted.
    """
    lines = read_text(file, "the gold queries").rstrip("\n").split("\n")
    if len(lines) != len(rows):
        raise Text2SqlError(
            f"line_count_mismatch: {file} has {counted(len(lines), 'line')} for "
            f"{counted(len(rows), 'question')}; "
            "it needs one line for each, without line breaks within a query."
        )
    return [_gold(line, row, file) for line, row in zip(lines, rows, strict=True)]


def _gold(line: str, row: Row, file: Path) -> str:
    sql, tab, database = line.rstrip().rpartition("\t")
    expected = row.text(Field.DATABASE)
    if not tab or database.strip() != expected:
        raise Text2SqlError(
            f"{file}: line {row.position + 1} must end in a tab and the question's database "
            f"'{expected}', not in '{database.strip()[-40:]}'."
        )
    return sql.removesuffix(BIRD_SEPARATOR.rstrip()).strip()
