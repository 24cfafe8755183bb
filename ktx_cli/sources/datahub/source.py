"""DataHub's metadata as a context source: which files are exports, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from ktx_cli.sources.data_catalogs.source import CatalogSource, Reader, detected_exports
from ktx_cli.sources.registry import Detected, Folder

_SIGNS: Final = re.compile(r"(?:^|[^a-z])(?:datahub|mces?|mcps?)(?:[^a-z].*)?\.jsonl?$")
"""Names of exports: `datahub.json`, `snowflake_mces.json`."""


class DatahubSource(CatalogSource):
    """Metadata of DataHub that its file sink wrote."""

    kind: ClassVar[str] = "datahub"
    noun: ClassVar[str] = "DataHub"
    skills: ClassVar[tuple[str, ...]] = ("datahub_ingest",)

    def reader(self, entry: Any) -> Reader:
        """Implements `CatalogSource`."""
        from ktx_cli.sources.datahub.export import DatahubReader

        return DatahubReader(entry.environment)


def detect(folders: Sequence[Folder]) -> Iterator[Detected]:
    """Yield each folder near a project with files whose names look like exports of DataHub."""
    yield from detected_exports(folders, _SIGNS)
