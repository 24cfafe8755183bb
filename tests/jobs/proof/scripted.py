"""A model behind the runtime port, in this process, for proofs with more attempts than a server answers in a test."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ktx_cli import llm
from ktx_cli.llm.tools import RuntimeTool, invoke
from ktx_cli.llm.types import CallFacts, Cost, LoopResult, ProbeReport, Usage
from ktx_cli.testing.model_script import Call

Results = Sequence[tuple[str, bool]]
Agent = Callable[[str, Mapping[str, RuntimeTool], Results], Call | None]
"""Takes the question, the tools, and text and error flag of each result so far; returns the next call, None to stop."""


@dataclass
class ScriptedRuntime:
    """Runs loops of an agent; `labels`: what was asked."""

    agent: Agent
    labels: list[str] = field(default_factory=list)

    async def run_agent_loop(
        self, prompt: Any, *, system: str, tools: Sequence[RuntimeTool], label: str, **options: Any
    ) -> LoopResult:
        self.labels.append(label)
        by_name = {tool.name: tool for tool in tools}
        results: list[tuple[str, bool]] = []
        while (call := self.agent(str(prompt), by_name, results)) is not None:
            done = await invoke(by_name, call.name, call.arguments, str(len(results)))
            results.append((done.text, done.is_error))
        steps, usage = len(results) + 1, Usage(100 + sum(len(text) for text, _ in results), 20)
        facts = CallFacts(
            "anthropic", "default", "m", "m", steps, len(results), usage=usage, cost=Cost(0.001, "list_price")
        )
        return LoopResult("done", "natural", facts)

    async def probe(self, *, role: str, model: str) -> ProbeReport:
        facts = CallFacts("anthropic", role, model)
        return ProbeReport("anthropic", model, model, "scripted", 0.0, facts)


def play(monkeypatch: pytest.MonkeyPatch, agent: Agent) -> ScriptedRuntime:
    """Have every model call of a project answered by an agent."""
    runtime = ScriptedRuntime(agent)

    @contextlib.asynccontextmanager
    async def opened(*args: Any, **options: Any) -> AsyncIterator[ScriptedRuntime]:
        yield runtime

    monkeypatch.setattr(llm, "project_runtime", opened, raising=False)
    return runtime


LLM = """\
llm:
  provider: {backend: anthropic, anthropic: {api_key: "env:SCRIPTED_KEY"}}
  models: {default: claude-sonnet-5-5}
"""
