"""Bounded repair by the model: a few files it may change, and a check that alone decides whether it worked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, Field

from ktx_cli.context.prompts import Prompt
from ktx_cli.context.tools.unfit import unfit_lines
from ktx_cli.context.tools.untrusted import wrapped
from ktx_cli.core.text import listing
from ktx_cli.llm.runtime import Abort, LlmRuntime
from ktx_cli.llm.tools import RuntimeTool, ToolError
from ktx_cli.project.workspace import Workspace

ATTEMPTS: Final = 2
CONFLICT_STEPS: Final = 12
GATE_STEPS: Final = 16
LONGEST: Final = 200_000
"""Characters of a file that a repair may write."""

Check = Callable[[Workspace], Sequence[str]]
"""Returns what is wrong, one line each; nothing when the repair worked."""


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
        told = unfit_lines(asked.content, self.workspace.read(path))
        if told:
            raise ToolError("this may not be in a file, so nothing was written:\n" + "\n".join(told))
        self.workspace.write(path, asked.content)
        return f"{asked.path} is written."

    async def _delete(self, asked: DeleteFile) -> str:
        self.workspace.delete(self._checked(asked.path))
        return f"{asked.path} is deleted."

    def _checked(self, path: str) -> str:
        if path not in self.allowed:
            raise ToolError(f"{path} is not among the files of this task", hint=f"they are {listing(self.allowed)}")
        return path


async def repair(
    runtime: LlmRuntime,
    workspace: Workspace,
    *,
    prompt: Prompt,
    task: str,
    allowed: Collection[str],
    check: Check,
    steps: int,
    abort: Abort | None = None,
) -> Sequence[str]:
    """Let the model change the allowed files until nothing is wrong, at most twice; return what still is.

    Nothing of a repair that failed stays in the overlay. Raises `LlmError` when the model failed.
    """
    problems = check(workspace)
    for _ in range(ATTEMPTS):
        if not problems:
            break
        trial = workspace.child()
        result = await runtime.run_agent_loop(
            f"{task}\n\n" + "\n".join(f"- {problem}" for problem in problems),
            system=prompt.text,
            tools=RepairTools(trial, frozenset(allowed)).tools(),
            step_budget=steps,
            role="repair",
            abort=abort,
            label=prompt.name,
        )
        if result.error is not None:
            raise result.error
        left = check(trial)
        if trial.changes() and not left:
            for path, content in trial.changes().items():
                if content is None:
                    workspace.delete(path)
                else:
                    workspace.write(path, content)
        problems = left if trial.changes() else problems
    return problems
