"""Which tools the agents of each stage get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from pydantic import Field

from ktx_cli.agent_tools import accepted, discovery, layer_readers, layer_writers, reconcile, sql, wiki
from ktx_cli.agent_tools.fence import shortened
from ktx_cli.agent_tools.reconcile import evidence_tool
from ktx_cli.agent_tools.records import Failure
from ktx_cli.agent_tools.session import Input, Tool, ToolSession
from ktx_cli.core import listing
from ktx_cli.llm import RuntimeTool, ToolInvocation, ToolOutput, check_tools
from ktx_cli.prompts import for_stage
from ktx_cli.protection import Refused

Stage = Literal["unit", "reconcile", "curate", "memory"]

LONGEST_SKILL: Final = 23_000
_NOTES: Final = frozenset(tool.name for tool in discovery.FALLBACK_TOOLS)
_SEMANTIC_WRITERS: Final = frozenset({"sl_write_source", "sl_edit_source", "sl_rollback"})


class LoadSkill(Input):
    """Which skill to load."""

    name: str = Field(description="Name of a skill, as the task lists it.")


def _skill_tool(stage: Stage) -> Tool:
    def load(session: ToolSession, value: LoadSkill) -> ToolOutput:
        skill = session.skills.get(value.name)
        if skill is None or stage not in skill.stages:
            names = [each.name for each in for_stage(session.skills.values(), stage)]
            raise Refused(f"there is no skill `{value.name}` for this task; there are: {listing(names, 20) or 'none'}")
        return ToolOutput(shortened(skill.text, LONGEST_SKILL), {"success": True, "skill": skill.name})

    return Tool("load_skill", "Load a skill: how a kind of work is done here.", LoadSkill, load)


_SHARED: Final = (
    *discovery.DISCOVERY_TOOLS,
    *sql.TOOLS,
    *wiki.READING_TOOLS,
    *wiki.WRITING_TOOLS,
    *layer_readers.TOOLS,
    *layer_writers.TOOLS,
)
_SPAN: Final = tuple(tool for tool in discovery.RAW_TOOLS if tool.name == "read_raw_span")
_WHOLE_RUN: Final = (*_SPAN, *discovery.FALLBACK_TOOLS, *reconcile.RECONCILING_TOOLS)

READING_TOOLS: Final = tuple(
    tool
    for tool in (*discovery.DISCOVERY_TOOLS, *layer_readers.TOOLS, *wiki.READING_TOOLS)
    if tool.name not in ("sl_validate", "wiki_list_tags")
)
"""The tools of a model that answers a question and writes nothing."""

BY_STAGE: Final[Mapping[Stage, Sequence[Tool]]] = {
    "unit": (*_SHARED, *discovery.RAW_TOOLS, *discovery.FALLBACK_TOOLS),
    "reconcile": (*_SHARED, *_WHOLE_RUN),
    "curate": (*_SHARED, *_WHOLE_RUN),
    "memory": (*_SHARED, *accepted.TOOLS),
}
"""The tools of each stage, besides `load_skill` and those a session brings (`evidence`, `extra`)."""

WRITERS: Final = frozenset(tool.name for tools in BY_STAGE.values() for tool in tools if tool.target is not None)
"""Tools whose failures count until a later success makes them good."""


def tools_for(session: ToolSession, stage: Stage) -> list[RuntimeTool]:
    """Return the tools of a session's loop, sorted by name.

    A session that may not write the semantic layer has no tools that do; one without databases none that ask them.
    Raises `ValueError` where `extra` has a tool of a name that is taken.
    """
    chosen = [tool for tool in (*BY_STAGE[stage], _skill_tool(stage)) if _is_for(session, tool.name)]
    chosen += [] if session.evidence is None else [evidence_tool(session.evidence)]
    return list(check_tools([*(tool.on(session) for tool in chosen), *session.extra]).values())


def unresolved_failures(session: ToolSession, invocations: Iterable[ToolInvocation] = ()) -> tuple[Failure, ...]:
    """Return the tool failures that nothing made good; `invocations`: all calls of the loop."""
    writers = {name for name in WRITERS if _is_for(session, name)}
    writers |= set() if session.evidence is None else {session.evidence.tool}
    return session.pending.unresolved(frozenset(writers), invocations)


def _is_for(session: ToolSession, name: str) -> bool:
    if session.evidence is not None and name in WRITERS | _NOTES:
        return False
    if name == accepted.NAME:
        return session.accepted is not None
    if name in _SEMANTIC_WRITERS:
        return session.semantic and bool(session.connections)
    if name.startswith("sl_") or name in ("entity_details", "sql_execution"):
        return bool(session.connections)
    return name != "load_skill" or bool(session.skills)
