"""Repairs: a model changes a few named files until a check finds nothing wrong in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, Field

from ktx_cli.agent_tools import TaskPrompt, unfit_lines, wrapped
from ktx_cli.core import listing
from ktx_cli.documents import WorkUnit
from ktx_cli.engine.task import AgentRunner, AgentTask
from ktx_cli.llm import RuntimeTool, ToolError
from ktx_cli.project import Workspace
from ktx_cli.prompts import Prompt

ATTEMPTS: Final = 2
CONFLICT_REPAIR: Final = "conflict_repair"
GATE_REPAIR: Final = "gate_repair"
_STEPS: Final[Mapping[str, int]] = {CONFLICT_REPAIR: 12, GATE_REPAIR: 16}
"""The prompt of a repair -> the steps of an attempt."""

LONGEST: Final = 200_000
"""Characters of a file that a repair may write."""

Check = Callable[[Workspace], Sequence[str]]
"""Returns what is wrong, one line each; nothing when the repair worked."""


@dataclass(frozen=True, slots=True)
class Repairer:
    """Repairs overlays of a run with its model."""

    runner: AgentRunner
    prompts: Mapping[str, Prompt]

    async def repair(
        self, workspace: Workspace, kind: str, task: str, allowed: Collection[str], check: Check
    ) -> Sequence[str]:
        """Let the model change the allowed files until nothing is wrong, at most twice; return what still is.

        `kind`: `conflict_repair` or `gate_repair`. Nothing of a repair that failed stays in the overlay, and nothing
        is tried where the run begins no new task.
        """
        problems = check(workspace)
        for _ in range(ATTEMPTS):
            if not problems or self.runner.cancellation.is_set:
                break
            trial = workspace.child()
            outcome = await self.runner.run(repair_task(trial, self.prompts[kind], task, allowed, problems))
            if outcome.error is not None:
                return [outcome.reason]
            left = check(trial)
            if trial.changes() and not left:
                workspace.apply(trial.changes())
            problems = left if trial.changes() else problems
        return problems


def repair_task(
    trial: Workspace, prompt: Prompt, task: str, allowed: Collection[str], problems: Sequence[str]
) -> AgentTask:
    """Return the task of one attempt at a repair."""
    text = f"{task}\n\n" + "\n".join(f"- {problem}" for problem in problems)
    return AgentTask(
        WorkUnit(prompt.name, prompt.name, ()),
        "repair",
        prompt=lambda: TaskPrompt(prompt.text, text),
        tools=RepairTools(trial, frozenset(allowed)).tools,
        step_budget=_STEPS[prompt.name],
    )


class ReadFile(BaseModel):
    """Which file to read."""

    path: str = Field(description="One of the files named in the task.")


class WriteFile(BaseModel):
    """A whole file."""

    path: str = Field(description="One of the files named in the task.")
    content: str = Field(description="The whole new content.", max_length=LONGEST)


class DeleteFile(BaseModel):
    """Which file to delete."""

    path: str = Field(description="One of the files named in the task.")


@dataclass(frozen=True, slots=True)
class RepairTools:
    """The tools of a repair: of the whole project they reach the allowed paths alone."""

    workspace: Workspace
    allowed: frozenset[str]

    def tools(self) -> list[RuntimeTool]:
        """Return the tools for a loop."""
        return [
            RuntimeTool("read_repair_file", "Read one of the files to repair.", ReadFile, self._read, read_only=True),
            RuntimeTool("write_repair_file", "Replace one of the files to repair.", WriteFile, self._write),
            RuntimeTool("delete_repair_file", "Delete one of the files to repair.", DeleteFile, self._delete),
        ]

    async def _read(self, asked: ReadFile) -> str:
        text = self.workspace.read_text(self._checked(asked.path))
        return "There is no such file now." if text is None else wrapped(text, asked.path)

    async def _write(self, asked: WriteFile) -> str:
        path = self._checked(asked.path)
        unfit = unfit_lines(asked.content, self.workspace.read(path))
        if unfit:
            raise ToolError("this may not be in a file, so nothing was written:\n" + "\n".join(unfit))
        self.workspace.write(path, asked.content)
        return f"{asked.path} is written."

    async def _delete(self, asked: DeleteFile) -> str:
        self.workspace.delete(self._checked(asked.path))
        return f"{asked.path} is deleted."

    def _checked(self, path: str) -> str:
        if path not in self.allowed:
            raise ToolError(f"{path} is not among the files of this task", hint=f"they are {listing(self.allowed)}")
        return path
