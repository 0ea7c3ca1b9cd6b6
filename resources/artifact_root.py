"""The one folder that holds everything the pipelines write."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
from pydantic import Field

from text2sql.common.artifacts import artifact_root
from text2sql.errors import Text2SqlError


class ArtifactRoot(dg.ConfigurableResource):
    """The folder of corpora, rollouts, checkpoints, scores and the reporting database."""

    root: str = ""
    """The folder; empty means the project's: ``TEXT2SQL_ROOT``, or ``artifacts``."""

    data_docs: bool = Field(
        default=False,
        description="Also write Great Expectations' own pages of the dataset's checks; when "
        "opened, they fetch their style from public servers.",
    )

    @property
    def path(self) -> Path:
        """The artifact root as an absolute path; it is made when something is first written."""
        return Path(self.root).expanduser().resolve() if self.root else artifact_root()

    def make(self, folder: Path) -> Path:
        """Make a folder of the artifact root (``text2sql.common.artifacts``) and return it.

        Raises Text2SqlError if it cannot be made.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Text2SqlError(
                f"The artifact root cannot be written: {error.strerror} ({folder})."
            ) from error
        return folder
