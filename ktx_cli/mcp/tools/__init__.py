"""The tools of the server, each thin: it calls one function of the floors below."""

from __future__ import annotations

from typing import Final

from ktx_cli.mcp.tool import ServerTool
from ktx_cli.mcp.tools import project as memory
from ktx_cli.mcp.tools import search
from ktx_cli.mcp.tools import search as wiki
from ktx_cli.mcp.tools.layer import ENTITY_TOOLS, READING_TOOLS
from ktx_cli.mcp.tools.project import CONNECTION_TOOLS, INGEST_TOOLS, STATUS_TOOLS
from ktx_cli.mcp.tools.query import LAYER_TOOLS, SQL_TOOLS

TOOLS: Final[tuple[ServerTool, ...]] = (
    *CONNECTION_TOOLS,
    *search.SEARCH_TOOLS,
    *wiki.WIKI_TOOLS,
    *ENTITY_TOOLS,
    *READING_TOOLS,
    *LAYER_TOOLS,
    *SQL_TOOLS,
    *STATUS_TOOLS,
    *INGEST_TOOLS,
    *memory.MEMORY_TOOLS,
)
"""All tools, in the order a client shows them."""
