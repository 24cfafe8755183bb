"""Context sources, with one folder for each: dbt, BI tools, documents, query history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.sources.conventions import open_conventions, recorded_conventions
    from ktx_cli.sources.dbt.project import PROJECT_FILES
    from ktx_cli.sources.dbt.sql import query_lines
    from ktx_cli.sources.deliveries import (
        Delivery,
        FetchState,
        FetchStates,
        FileState,
        FileStatus,
        LastFetch,
        RawStore,
        SourceKey,
        compare,
        declared_joins,
        delivery_digest,
        delivery_path,
        last_fetches,
        load_fetches,
        of_manifest,
        parse_delivery,
        render_delivery,
        without_declared,
        written_items,
    )
    from ktx_cli.sources.document_units import document_units
    from ktx_cli.sources.documents.source import read_folder
    from ktx_cli.sources.git import LEFT_OUT
    from ktx_cli.sources.http import HttpClient, Site, bound
    from ktx_cli.sources.ownership import leftovers, where_now, wrote_join
    from ktx_cli.sources.passage_questions import (
        DocumentQuestions,
        PassageQuestions,
        PathStamps,
        asked_contents,
        forget_questions,
        load_questions,
        passage_digest,
        question_stamps,
        save_questions,
    )
    from ktx_cli.sources.port import (
        Conclusion,
        DigestForm,
        EvidenceForm,
        FetchContext,
        ProjectContext,
        Projection,
        Source,
        UnitEvidence,
        documents_left,
    )
    from ktx_cli.sources.query_history.model import History
    from ktx_cli.sources.query_history.pages import TIER
    from ktx_cli.sources.query_history.readers import HistoryPlace, read_history
    from ktx_cli.sources.registry import (
        Detected,
        Folder,
        SourceKind,
        WebAddress,
        detected,
        has_source,
        missing_source_package,
        source_for,
        sources_of,
        topmost,
    )
    from ktx_cli.sources.table_texts import TableText, write_texts

BUILT_IN: Final = (
    *("dbt", "metricflow", "lookml", "powerbi", "tableau", "odcs"),
    *("looker", "metabase", "notion", "confluence", "gdrive", "jira", "documents"),
    *("datahub", "openmetadata", "sigma"),
)
"""The drivers of context sources, in the order used in all lists."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
