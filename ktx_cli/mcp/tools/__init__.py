"""The tools of the server, each thin: it calls one function of the floors below."""

from __future__ import annotations

from typing import Final

from ktx_cli.mcp.tool import ServerTool
from ktx_cli.mcp.tools import layer as entities
from ktx_cli.mcp.tools import layer as layer_reading
from ktx_cli.mcp.tools import memory, wiki
from ktx_cli.mcp.tools import project as connections
from ktx_cli.mcp.tools import project as ingesting
from ktx_cli.mcp.tools import project as status
from ktx_cli.mcp.tools import query as layer_asking
from ktx_cli.mcp.tools import query as sql
from ktx_cli.mcp.tools import search as searching

TOOLS: Final[tuple[ServerTool, ...]] = (
    *connections.CONNECTION_TOOLS,
    *searching.TOOLS,
    *wiki.TOOLS,
    *entities.ENTITY_TOOLS,
    *layer_reading.READING_TOOLS,
    *layer_asking.LAYER_TOOLS,
    *sql.SQL_TOOLS,
    *status.STATUS_TOOLS,
    *ingesting.INGEST_TOOLS,
    *memory.TOOLS,
)
"""All tools, in the order a client shows them."""
