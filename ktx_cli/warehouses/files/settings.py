"""The settings of a connection to files."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Database, setting


class FilesConnection(Database):
    """A folder of CSV, TSV, Parquet and JSON files; each file is a table."""

    driver: Literal["files"] = setting(REQUIRED, "A folder of data files.")
    path: str = setting(
        REQUIRED, "Folder, relative to the project; `~` works.", path=True, example="data/exports", min_length=1
    )
