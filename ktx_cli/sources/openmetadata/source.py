"""OpenMetadata's entities as a context source: which files are exports, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from ktx_cli.sources.data_catalogs.source import CatalogSource, Reader, detected_exports
from ktx_cli.sources.registry import Detected, Folder

_SIGNS: Final = re.compile(r"(?:^|[^a-z])open[-_]?metadata(?:[^a-z].*)?\.(?:jsonl?|csv)$")
"""Names of exports: `openmetadata.json`, `open_metadata_tables.jsonl`."""


class OpenmetadataSource(CatalogSource):
    """Entities of OpenMetadata as JSON or CSV."""

    kind: ClassVar[str] = "openmetadata"
    noun: ClassVar[str] = "OpenMetadata"
    skills: ClassVar[tuple[str, ...]] = ("openmetadata_ingest",)
    suffixes: ClassVar[tuple[str, ...]] = (*CatalogSource.suffixes, ".csv")

    def reader(self, entry: Any) -> Reader:
        """Implements `CatalogSource`."""
        from ktx_cli.sources.openmetadata.export import OpenmetadataReader

        return OpenmetadataReader()


def detect(folders: Sequence[Folder]) -> Iterator[Detected]:
    """Yield each folder near a project with files whose names look like exports of OpenMetadata."""
    yield from detected_exports(folders, _SIGNS)
