"""The query history of a database: what people query, but not the values that they search for."""

from ktx_cli.project import Database
from ktx_cli.sources.registry import SourceKind


def _is_read(entry: Database) -> bool:
    return entry.context is not None and entry.context.query_history.enabled


SOURCE = SourceKind(
    driver="query-history",
    settings="ktx_cli.project:QueryHistory",
    source="ktx_cli.sources.query_history.source:QueryHistorySource",
    of_database=_is_read,
)
