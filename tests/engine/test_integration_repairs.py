"""The tools of a repair: the files of the task alone, and nothing in them that no agent may write."""

from __future__ import annotations

import asyncio

import pytest

from ktx_cli.engine.integration import RepairTools
from ktx_cli.llm.tools import check_tools, invoke
from ktx_cli.llm.types import ToolInvocation
from ktx_cli.project.layout import EmptyTree
from ktx_cli.project.workspace import Workspace

PAGE = "wiki/global/fees.md"
THEIRS = "the password: hunter2hunter"


def call(workspace: Workspace, name: str, **arguments: str) -> ToolInvocation:
    tools = check_tools(RepairTools(workspace, frozenset({PAGE})).tools())
    return asyncio.run(invoke(tools, name, arguments, "c1"))


def workspace(text: str = f"---\nsummary: Fees.\n---\n\n{THEIRS}\n") -> Workspace:
    found = Workspace(EmptyTree())
    found.write(PAGE, text)
    return found.child()


def test_the_files_of_the_task_are_read_written_and_deleted() -> None:
    tree = workspace()
    assert '<data id="' in call(tree, "read_repair_file", path=PAGE).text
    assert not call(tree, "write_repair_file", path=PAGE, content=f"New.\n{THEIRS}\n").is_error, "it stood there before"
    assert tree.read_text(PAGE) == f"New.\n{THEIRS}\n"
    assert not call(tree, "delete_repair_file", path=PAGE).is_error
    assert "does not exist" in call(tree, "read_repair_file", path=PAGE).text


@pytest.mark.table(
    ("tool", "arguments", "told"),
    [
        ("read_repair_file", {"path": "ktx.yaml"}, "not one of the files of this task"),
        ("write_repair_file", {"path": "wiki/global/other.md", "content": "x"}, "not one of the files of this task"),
        ("delete_repair_file", {"path": "../../etc/passwd"}, "not one of the files of this task"),
        ("write_repair_file", {"path": PAGE, "content": "a\nKey AKIAIOSFODNN7EXAMPLE."}, "line 2: text that looks"),
        ("write_repair_file", {"path": PAGE, "content": "the token: a1b2c3d4e5f6"}, "the value of `token`"),
        ("write_repair_file", {"path": PAGE, "content": "a\u200bb"}, "line 1: invisible characters"),
    ],
)
def test_what_a_repair_may_not_do(tool: str, arguments: dict[str, str], told: str) -> None:
    tree = workspace()
    done = call(tree, tool, **arguments)
    assert done.is_error
    assert told in done.text
    assert tree.changes() == {}
