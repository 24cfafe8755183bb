"""The tools of the server. Each is thin: it calls one function of a lower package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.mcp.tool import ServerTool
from ktx_cli.mcp.tools import layer, project, query, search

TOOLS: Final[tuple[ServerTool, ...]] = (
    search.context_pack,
    project.connection_list,
    *(search.discover_data, search.context_read, search.dictionary_search, search.wiki_search, search.wiki_read),
    *(layer.entity_details, layer.sl_list, layer.sl_read_source, layer.sl_validate),
    *(query.sl_query, query.sl_explain, query.sql_execution, query.mongo_query),
    project.context_status,
    *(project.ingest_start, project.ingest_status, project.ingest_cancel),
    *(project.memory_ingest, project.memory_ingest_status),
)
"""All tools, in the order a client shows them."""

PROFILES: Final[Mapping[Profile, tuple[str, ...]]] = {
    Profile.DEFAULT: (
        *("context_pack", "discover_data", "context_read", "sl_query", "sql_execution", "mongo_query"),
        *("memory_ingest", "context_status"),
    ),
    Profile.ADMIN: tuple(each.name for each in TOOLS),
}
"""The names of the tools that a server lists, by its profile."""
