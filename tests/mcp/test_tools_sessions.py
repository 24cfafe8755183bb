"""The same tools through other doors: JSON-RPC in memory with the older handshake, and stdio of another process."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters
from mcp.shared.memory import create_client_server_memory_streams

from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.mcp.server import ProjectServer
from ktx_cli.mcp.tool import Call, Options
from ktx_cli.mcp.tools import PROFILES
from ktx_cli.mcp.tools.query import sl_query
from ktx_cli.project import Layout
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
    return in_memory_of(ProjectServer(company.served(), Options(**options)), work)


def in_memory_of(project_server: ProjectServer, work: Callable[[ClientSession], Awaitable[Any]]) -> Any:
    """Let such a session of a server do something."""

    async def main() -> Any:
        server = project_server.server
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


@pytest.mark.parametrize("ends", ["with its answer", "cancelled while it runs", "cancelled while it waits"])
def test_a_project_stays_open_until_the_last_call_that_uses_it_ends(company: Company, ends: str) -> None:
    begun, finish = threading.Event(), threading.Event()
    old, new = company.served(), ServedProject(Layout(company.folder), {})
    company.projects.append(new)

    def slow(call: Call, value: Any) -> Any:
        begun.set()
        assert finish.wait(30) and call.project is old
        return sl_query.run(call, value)

    async def work(server: ProjectServer, session: ClientSession) -> Any:
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await session.call_tool("sl_query", REVENUE))

        waits, slots = ends == "cancelled while it waits", server._slots()
        if waits:
            slots.total_tokens = 1
            await slots.acquire_on_behalf_of(ends)
        async with anyio.create_task_group() as tasks:
            cancelled = await tasks.start(_cancellable, ask)
            if waits:
                await anyio.sleep(0.2)
            else:
                await anyio.to_thread.run_sync(begun.wait, 30)
            server.serve(new)
            assert not old.calls.end()
            if ends != "with its answer":
                cancelled.cancel()
                await anyio.sleep(0.2)
                assert old.calls.end() is waits
            if waits:
                slots.release_on_behalf_of(ends)
            assert (await session.list_tools()).tools, "the newer project answers"
            finish.set()
            with anyio.fail_after(30):
                while not (old.calls.end() and (answers or cancelled.cancel_called)):
                    await anyio.sleep(0.01)
        old.close()
        return answers

    server = ProjectServer(old, Options())
    server._tools = {"sl_query": replace(sl_query, run=slow)}
    answers = in_memory_of(server, lambda session: work(server, session))
    assert [each.structured_content["rows"] for each in answers] == (
        [[["NO", 10.0], ["SE", 20.0]]] if ends == "with its answer" else []
    )


async def _cancellable(
    work: Callable[[], Awaitable[None]], *, task_status: anyio.abc.TaskStatus[anyio.CancelScope]
) -> None:
    with anyio.CancelScope() as scope:
        task_status.started(scope)
        await work()


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
