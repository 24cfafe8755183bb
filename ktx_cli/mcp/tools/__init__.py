"""The tools of the server, each thin: it calls one function of the floors below."""

from __future__ import annotations

from typing import Final

from ktx_cli.mcp.tool import ServerTool
from ktx_cli.mcp.tools import (
    connections,
    entities,
    ingesting,
    layer_asking,
    layer_reading,
    memory,
    searching,
    sql,
    status,
    wiki,
)

TOOLS: Final[tuple[ServerTool, ...]] = (
    *connections.TOOLS,
    *searching.TOOLS,
    *wiki.TOOLS,
    *entities.TOOLS,
    *layer_reading.TOOLS,
    *layer_asking.TOOLS,
    *sql.TOOLS,
    *status.TOOLS,
    *ingesting.TOOLS,
    *memory.TOOLS,
)
"""All tools, in the order a client shows them."""
