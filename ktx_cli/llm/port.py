"""The port for all model calls of ktx: text, object, agent loop, probe."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from ktx_cli.llm.agent_loop import LoopJournal
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import LoopResult, ObjectResult, OnStepFinish, Output, ProbeReport, PromptText, TextResult


class Abort:
    """A switch that lets a caller stop calls; once thrown, it stays thrown."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def throw(self) -> None:
        """Stop every call that uses this switch."""
        self._event.set()

    @property
    def thrown(self) -> bool:
        """Return whether the switch was thrown."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until the switch is thrown."""
        await self._event.wait()


class LlmRuntime(Protocol):
    """The interface through which services call models. They do not know the backend; a role selects the model of a
    call.

    A prompt may come in parts: those marked `cached` get a cache mark if the backend sets marks itself; otherwise all
    are joined to one text. `model` replaces the role's model, `backend:model` also its backend. Every method raises
    `LlmError`; an abort or a cancelled task ends the call's processes and requests before the method returns.
    """

    async def generate_text(
        self,
        prompt: PromptText,
        *,
        system: str = "",
        role: str = "default",
        model: str | None = None,
        abort: Abort | None = None,
    ) -> TextResult:
        """Return the model's answer as text."""
        ...

    async def generate_object(
        self,
        prompt: PromptText,
        output: type[Output],
        *,
        system: str = "",
        role: str = "default",
        model: str | None = None,
        abort: Abort | None = None,
    ) -> ObjectResult[Output]:
        """Return the model's answer as an instance of `output`, validated."""
        ...

    async def run_agent_loop(
        self,
        prompt: PromptText,
        *,
        system: str,
        tools: Sequence[RuntimeTool],
        step_budget: int,
        role: str = "default",
        model: str | None = None,
        on_step_finish: OnStepFinish | None = None,
        abort: Abort | None = None,
        journal: LoopJournal | None = None,
        label: str = "",
    ) -> LoopResult:
        """Let the model call tools until it is done or the budget of steps is used up.

        `on_step_finish` receives each step, from 1, exactly once. A failure of the provider ends the loop with
        `stop_reason` `error`; an abort raises. `journal` stores the steps: a loop that it knows resumes after the last
        of them, if ktx holds the backend's history. `label`: the name of the work in transcripts.
        """
        ...

    async def probe(self, *, role: str = "default", model: str | None = None) -> ProbeReport:
        """Return whether the role's backend and model can be used: checks the account first, then runs one turn."""
        ...

    async def aclose(self) -> None:
        """Free every process and connection of every backend."""
        ...
