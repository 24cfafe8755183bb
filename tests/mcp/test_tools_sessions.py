"""The same tools through other doors: JSON-RPC in memory with the older handshake, and stdio of another process."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters
from mcp.shared.memory import create_client_server_memory_streams

from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.mcp.server import ProjectServer
from ktx_cli.mcp.tool import Options
from ktx_cli.mcp.tools import PROFILES
from tests.mcp.conftest import Company

SERVE = """
import sys
from pathlib import Path
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.mcp.server import ProjectServer
from ktx_cli.mcp.serving import serve_stdio
from ktx_cli.mcp.tool import Options
from ktx_cli.project.layout import Layout
project = ServedProject(Layout(Path(sys.argv[1])), {})
serve_stdio(ProjectServer(project, Options()))
project.close()
"""
REVENUE = {"measures": ["orders.revenue"], "dimensions": ["customers.country"], "order_by": ["customers.country"]}


def in_memory(company: Company, work: Callable[[ClientSession], Awaitable[Any]], **options: bool) -> Any:
    """Let a session do something that shook hands as clients before 2026 do, every message as JSON-RPC has it."""

    async def main() -> Any:
        server = ProjectServer(company.served(), Options(**options)).server
        async with create_client_server_memory_streams() as (near, far), anyio.create_task_group() as tasks:
            tasks.start_soon(server.run, *far, server.create_initialization_options())
            async with ClientSession(*near) as session:
                await session.initialize()
                found = await work(session)
            tasks.cancel_scope.cancel()
        return found

    return anyio.run(main)


def over_stdio(company: Company, work: Callable[[Client], Awaitable[Any]]) -> Any:
    """Let a client do something with a server in a process of its own."""

    async def main() -> Any:
        arguments = ["-c", SERVE, str(company.folder)]
        async with Client(StdioServerParameters(command=sys.executable, args=arguments)) as client:
            return await work(client)

    return anyio.run(main)


def test_a_client_that_shakes_hands_gets_the_same_answers(company: Company) -> None:
    async def work(session: Any) -> tuple[Any, ...]:
        heard: list[float] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append(progress)

        tools = [each.name for each in (await session.list_tools()).tools]
        answer = await session.call_tool("sl_query", REVENUE, progress_callback=hear)
        page = await session.read_resource("ktx://wiki/refunds")
        return tools, answer.structured_content, page.contents[0].text, heard

    tools, answer, page, heard = in_memory(company, work)
    assert tools == [name for name in PROFILES[Profile.DEFAULT] if name != "mongo_query"]
    assert answer["rows"] == [["NO", 10.0], ["SE", 20.0]]
    assert page.startswith("---\nsummary")
    assert heard == [0.0, 0.3, 1.0]


def test_a_cancelled_call_is_not_waited_for(company: Company) -> None:
    slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000000) SELECT count(*) FROM n"

    async def work(session: Any) -> bool:
        with anyio.move_on_after(0.2) as scope:
            await session.call_tool("sql_execution", {"sql": slow})
        after = await session.call_tool("connection_list", {})
        return scope.cancelled_caught and not after.is_error

    assert in_memory(company, work)


@pytest.mark.slow
def test_a_process_answers_refuses_pages_and_ends(company: Company) -> None:
    async def work(client: Client) -> tuple[Any, ...]:
        first = await client.call_tool("sql_execution", {"sql": "SELECT id, words FROM facts ORDER BY id"})
        offset = (first.structured_content or {})["next_offset"]
        second = await client.call_tool(
            "sql_execution", {"sql": "SELECT id, words FROM facts ORDER BY id", "offset": offset}
        )
        refused = await client.call_tool("sl_query", {"measures": ["orders.revenu"]})
        answer = await client.call_tool("sl_query", REVENUE)
        return first.structured_content, second.structured_content, refused, answer.structured_content

    first, second, refused, answer = over_stdio(company, work)
    assert first["rows"][-1][0] + 1 == second["rows"][0][0]
    assert refused.is_error and json.loads(refused.content[0].text)["error"]["code"] == "unknown_name"
    assert answer["rows"] == [["NO", 10.0], ["SE", 20.0]]


def test_a_private_session_gives_no_values(company: Company) -> None:
    async def work(session: ClientSession) -> Any:
        return (await session.call_tool("sl_query", REVENUE)).structured_content

    assert in_memory(company, work, privacy=True)["rows"] == []
