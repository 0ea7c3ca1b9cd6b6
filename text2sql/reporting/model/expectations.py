"""What the owner of a question expects of its answer, whatever the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError
from text2sql.reporting.model.values import ResultTable, clean_text, safe_names


@dataclass(frozen=True)
class Expectations:
    """Bounds on an answer; one that breaks them is not to be published.

    ``columns`` are exactly the answer's columns, in order, compared as the view names them
    (``COUNT(*)`` is ``count``). ``least_rows`` and ``most_rows`` bound the rows of the result.
    ``not_empty`` asks for at least one value that is not NULL: an average over nothing has a row.
    """

    columns: tuple[str, ...] = ()
    least_rows: int | None = None
    most_rows: int | None = None
    not_empty: bool = False

    def __bool__(self) -> bool:
        """Say whether anything is expected."""
        return self != Expectations()

    def to_dict(self) -> dict[str, Any]:
        """Return what is expected as plain JSON values, without what is not."""
        stated = {name: value for name, value in asdict(self).items() if value not in ((), None)}
        stated = {name: value for name, value in stated.items() if value is not False}
        return stated | ({"columns": list(self.columns)} if self.columns else {})

    def broken_by(self, table: ResultTable) -> list[str]:
        """Return a sentence for each expectation that an answer breaks."""
        found = [column.name for column in table.columns]
        problems = []
        if self.columns and found != safe_names(self.columns):
            wanted = ", ".join(safe_names(self.columns))
            problems.append(f"its columns are {', '.join(found)}, expected are {wanted}")
        rows = counted(table.total, "row")
        if self.least_rows is not None and table.total < self.least_rows:
            problems.append(f"it has {rows}, expected are at least {self.least_rows}")
        if self.most_rows is not None and table.total > self.most_rows:
            problems.append(f"it has {rows}, expected are at most {self.most_rows}")
        whole = table.total <= len(table.rows)  # what is not kept may have values
        if self.not_empty and whole and all(v is None for row in table.rows for v in row.values()):
            problems.append("it has no value, expected is at least one")
        return problems


def read_expectations(values: object) -> Expectations:
    """Read expectations from plain values, as a file or a JSON column has them.

    Raises Text2SqlError that names the field, for example ``expectations.most_rows must be …``.
    """
    if not isinstance(values, Mapping):
        raise Text2SqlError(f"expectations must be a mapping with {', '.join(_NAMES)}")
    for name, value in values.items():
        if name not in _NAMES:
            known = ", ".join(_NAMES)
            raise Text2SqlError(f"expectations has no field {name!r}; there are {known}")
        if problem := _problem(name, value):
            raise Text2SqlError(f"expectations.{name} must be {problem}, not {value!r}")
    given = {name: value for name, value in values.items() if value is not None}
    columns = tuple(clean_text(name) for name in given.get("columns", ()))
    found = Expectations(**given | {"columns": columns})
    least, most = found.least_rows, found.most_rows
    if least is not None and most is not None and least > most:
        raise Text2SqlError(f"expectations.least_rows ({least}) is above most_rows ({most})")
    return found


def _problem(name: str, value: object) -> str:
    """Return what a field must be, empty where it is."""
    if value is None:
        return ""
    if name == "columns":
        return "" if _are_names(value) else "a list of column names"
    if name == "not_empty":
        return "" if isinstance(value, bool) else "true or false"
    return "" if type(value) is int and value >= 0 else "a whole number from 0"


def _are_names(value: object) -> bool:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return False
    return bool(value) and all(isinstance(name, str) and name.strip() for name in value)


_NAMES = tuple(field.name for field in fields(Expectations))
