"""The server over stdin and stdout, for a client that starts it."""

from __future__ import annotations

import anyio
from mcp.server.stdio import stdio_server

from ktx_cli.mcp.server import ProjectServer


def serve_stdio(server: ProjectServer) -> None:
    """Serve until the client closes stdin; stdout carries the protocol alone."""
    anyio.run(_serve, server)


async def _serve(server: ProjectServer) -> None:
    async with stdio_server() as (read, write):
        await server.server.run(read, write, server.server.create_initialization_options())
