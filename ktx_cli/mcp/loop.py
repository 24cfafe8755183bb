"""The server's tools for ktx's own agent loops, with the same calls and answers as for an agent client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.jobs.proof.agent import KeepRows
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.llm import RuntimeTool
from ktx_cli.mcp.prompts import instructions
from ktx_cli.mcp.server import listed, offered
from ktx_cli.mcp.tool import Call, Options, ServerTool, compact_json, fit_answer

_OPTIONS = Options(read_only=True)
_ROWS = frozenset(("sl_query", "sql_execution", "mongo_query"))
"""The tools whose answers are rows of a query."""


@dataclass(frozen=True, slots=True)
class ServerToolbox:
    """Provides an agent loop with the tools that a read-only server lists in a profile."""

    profile: Profile = Profile.DEFAULT

    def instructions(self, *, privacy: bool) -> str:
        """Return the instructions that the server sends to every client."""
        return instructions(replace(_OPTIONS, privacy=privacy, profile=self.profile))

    def tools(
        self, project: ServedProject, *, privacy: bool, attributes: Mapping[str, Any], keep: KeepRows
    ) -> Sequence[RuntimeTool]:
        """Return the tools for a project and a caller with the given attributes.

        `keep` stores the rows of each query and returns the id of the result.
        """
        options = replace(_OPTIONS, privacy=privacy, attributes=attributes, profile=self.profile)
        tools = listed(options, offered(options), project)
        return [_loop_tool(each, Call(project, options), keep) for each in tools.values()]


def _loop_tool(tool: ServerTool, call: Call, keep: KeepRows) -> RuntimeTool:
    def handle(value: Any) -> str:
        output = tool.run(call, value)
        data = fit_answer(output, getattr(value, "offset", 0))
        result = _kept(tool, call, value, output, keep) if tool.name in _ROWS else None
        return compact_json(data if result is None else {"result": result, **data})

    return RuntimeTool(tool.name, tool.description, tool.input_model, handle, read_only=not tool.writes, common=True)


def _kept(tool: ServerTool, call: Call, value: Any, output: Any, keep: KeepRows) -> str | None:
    """Return the id of a result with all rows; with privacy, the rows are stored without being shown."""
    if getattr(value, "offset", 0):
        return None
    if call.options.privacy:
        output = tool.run(replace(call, options=replace(call.options, privacy=False)), value)
    statement = value.sql if tool.name == "sql_execution" else value.model_dump(mode="json", exclude_defaults=True)
    whole = output.cut is None and len(output.rows) == output.row_count
    return keep(tool.name, statement, output.columns, output.rows, whole)
