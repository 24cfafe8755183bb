"""The same turns in bare `ClaudeSDKClient` sessions, each used once: what Claude Code takes without ktx around it.

The options, the prompts and the definitions of the tools are those of a work unit; the tools give fixed texts.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.ingest_model import Model
from benchmarks.ingest_project import LONG
from ktx_cli.agent_tools.prompts import load_prompts
from ktx_cli.agent_tools.session import ToolSession
from ktx_cli.agent_tools.toolset import tools_for
from ktx_cli.llm.backends.claude.binary import claude_host
from ktx_cli.llm.backends.claude_code.isolation import ProcessSpec
from ktx_cli.llm.backends.claude_code.pool import Process, describe_tools, sdk_client
from ktx_cli.llm.types import ToolInvocation
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.layout import EmptyTree
from ktx_cli.project.workspace import Workspace


def bare_sessions(model: Model, names: Sequence[str], at_once: int, project: Path) -> tuple[float, float]:
    """Return seconds and CPU seconds of one session for each name, so many at once."""
    config = KtxConfig.model_validate(
        {"llm": {"provider": {"backend": "claude-code"}, "models": {"default": "sonnet"}}}
    )
    host, _ = claude_host("claude-code", config, project_dir=project, environ=model.environ)
    session = ToolSession(Workspace(EmptyTree()), {"shop": "sqlite"})
    tools = {tool.name: tool for tool in tools_for(session, "unit")}
    spec = ProcessSpec("sonnet", load_prompts()["work_unit"].text, 40, describe_tools(tools), retries=5)

    async def tool(name: str, arguments: Mapping[str, Any], call_id: str | None) -> ToolInvocation:
        return ToolInvocation(call_id or "", name, arguments, LONG if name == "read_raw_file" else "nothing", False)

    async def one(name: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            process = Process(spec, host, sdk_client)
            process.tools.bind(tool)
            await process.connect()
            await process.client.query(f"Task: {name}.md")
            async for _ in process.client.receive_response():
                pass
            await process.close()

    async def everything() -> None:
        slots = asyncio.Semaphore(at_once)
        await asyncio.gather(*(one(name, slots) for name in names))

    cpu, started = _cpu(), time.perf_counter()
    asyncio.run(everything())
    return time.perf_counter() - started, _cpu() - cpu


def _cpu() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
