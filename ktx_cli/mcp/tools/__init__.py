"""The tools of the server, each thin: it calls one function of the floors below."""

from __future__ import annotations

from typing import Final

from ktx_cli.mcp.tool import ServerTool
from ktx_cli.mcp.tools import connections, layer_asking

TOOLS: Final[tuple[ServerTool, ...]] = (*connections.TOOLS, *layer_asking.TOOLS)
"""All tools, in the order a client shows them."""
