"""Everything context is read from besides databases: dbt, BI tools, documents, query history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.sources.documents import documents_left
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
        QUERY_HISTORY,
        FetchContext,
        ProjectContext,
        Projection,
        Source,
        checked_source,
        source_for,
    )
    from ktx_cli.sources.query_history.evidence import QueryPattern, TableUsage, problems
    from ktx_cli.sources.query_history.model import History
    from ktx_cli.sources.query_history.pages import PREFIX, PageChange
    from ktx_cli.sources.query_history.readers import Place, read_history
    from ktx_cli.sources.query_history.source import QueryHistorySource
    from ktx_cli.sources.query_history.usage import TIER, UsageWritten

BUILT_IN: Final = ("dbt", "metricflow", "lookml", "looker", "metabase", "notion", "confluence", "documents")
"""The drivers of context sources, in the order of all lists."""

_HOMES = {
    "documents": "documents_left",
    "git": "LEFT_OUT",
    "http": "bound",
    "lookml.source": "is_lookml",
    "manifest": "FileState FileStatus Manifest RawStore compare manifest_path parse_manifest render_manifest",
    "port": "DRIVERS FetchContext ProjectContext Projection QUERY_HISTORY Source checked_source source_for",
    "query_history.evidence": "QueryPattern TableUsage problems",
    "query_history.model": "History",
    "query_history.pages": "PREFIX PageChange",
    "query_history.readers": "Place read_history",
    "query_history.source": "QueryHistorySource",
    "query_history.usage": "TIER UsageWritten",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
