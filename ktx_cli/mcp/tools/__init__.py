"""The tools of the server, each thin: it calls one function of the floors below."""

from __future__ import annotations

from typing import Final

from ktx_cli.mcp.tool import ServerTool
from ktx_cli.mcp.tools import layer, project, query, search

TOOLS: Final[tuple[ServerTool, ...]] = (
    project.connection_list,
    *(search.discover_data, search.dictionary_search, search.wiki_search, search.wiki_read),
    *(layer.entity_details, layer.sl_list, layer.sl_read_source, layer.sl_validate),
    *(query.sl_query, query.sl_explain, query.sql_execution),
    project.context_status,
    *(project.ingest_start, project.ingest_status, project.ingest_cancel),
    *(project.memory_ingest, project.memory_ingest_status),
)
"""All tools, in the order a client shows them."""
