"""The settings of a data dictionary in `ktx.yaml`."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, SourceConnection, setting


class DictionaryConnection(SourceConnection):
    """A data dictionary: one CSV file for each table."""

    driver: Literal["dictionary"] = setting(REQUIRED, "A data dictionary.")
    path: str = setting(REQUIRED, "Folder of the CSV files, relative to the project.", path=True, example="dictionary")
    database: str = setting(REQUIRED, "The connection whose tables the files describe.", example="warehouse")
