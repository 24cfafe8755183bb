"""Decisions are people's: no tool of an agent decides or writes `decisions.yaml`, whatever a model asks for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ktx_cli.agent_tools import tools_for
from ktx_cli.mcp.tools import TOOLS
from ktx_cli.project import DECISIONS_NAME
from tests.agent_tools.conftest import Shop

Make = Callable[..., Shop]
ANSWER = "decisions:\n- {point: orders.internal.is_test, alternative: exclude}\n"
PLACES = (DECISIONS_NAME, "../../decisions", f"../../{DECISIONS_NAME}", "/decisions.yaml", "wiki/../decisions.yaml")


@pytest.mark.parametrize("stage", ["unit", "memory", "reconcile", "curate"])
def test_no_tool_of_a_loop_or_of_the_server_decides(shop: Make, stage: str) -> None:
    made = shop(stage=stage)
    names = {each.name for each in tools_for(made.session, made.stage)} | {each.name for each in TOOLS}
    assert names
    assert {name for name in names if "decide" in name or "decision" in name} <= {"emit_eviction_decision"}


@pytest.mark.parametrize("place", PLACES)
def test_no_tool_writes_the_file_of_decisions(shop: Make, place: str) -> None:
    made = shop()
    made.call("wiki_write", key=place, content=ANSWER, summary="An answer.")
    made.call("sl_write_source", source=place, yaml=f"name: {place}\n{ANSWER}")
    assert DECISIONS_NAME not in made.session.workspace.changes()
