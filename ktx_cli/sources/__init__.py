"""Everything context is read from besides databases: dbt, BI tools, documents, query history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.sources.git import LEFT_OUT
    from ktx_cli.sources.http import bound
    from ktx_cli.sources.lookml.source import is_lookml
    from ktx_cli.sources.manifest import (
        FileState,
        FileStatus,
        Manifest,
        RawStore,
        compare,
        manifest_path,
        parse_manifest,
        render_manifest,
    )
    from ktx_cli.sources.port import (
        DRIVERS,
        Conclusion,
        EvidenceForm,
        FetchContext,
        ProjectContext,
        Projection,
        Source,
        UnitEvidence,
        documents_left,
        source_for,
        sources_of,
    )
    from ktx_cli.sources.query_history.model import History
    from ktx_cli.sources.query_history.readers import Place, read_history
    from ktx_cli.sources.query_history.usage import TIER

BUILT_IN: Final = ("dbt", "metricflow", "lookml", "looker", "metabase", "notion", "confluence", "documents")
"""The drivers of context sources, in the order of all lists."""

_HOMES = {
    "git": "LEFT_OUT",
    "http": "bound",
    "lookml.source": "is_lookml",
    "manifest": "FileState FileStatus Manifest RawStore compare manifest_path parse_manifest render_manifest",
    "port": (
        "Conclusion DRIVERS EvidenceForm FetchContext ProjectContext Projection Source UnitEvidence documents_left "
        "source_for sources_of"
    ),
    "query_history.model": "History",
    "query_history.readers": "Place read_history",
    "query_history.usage": "TIER",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
