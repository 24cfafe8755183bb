"""A case in words: the configured model looks around and asks the semantic layer; its last query is its answer.

The model is told which columns came out and how many rows, never a value of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import Field

from ktx_cli.connectors.registry import dialect_of
from ktx_cli.context.tools import discovery, layer_reading, wiki_reading
from ktx_cli.context.tools.calling import Input, Tool
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.texts import text_of
from ktx_cli.core.errors import EXIT_FAILED, EXIT_USAGE, KtxError, ResultWarning
from ktx_cli.core.text import listing, plural
from ktx_cli.jobs.evals.comparing import Answer
from ktx_cli.jobs.evals.model import Case
from ktx_cli.jobs.evals.results import Taken
from ktx_cli.jobs.models.session import project_runtime, run_async
from ktx_cli.jobs.semantic.layers import calendar_of, layer_ids
from ktx_cli.llm.roles import NO_BACKEND
from ktx_cli.llm.tools import RuntimeTool, ToolOutput
from ktx_cli.llm.types import LoopResult
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout
from ktx_cli.project.tree import WorkingTree
from ktx_cli.project.workspace import Workspace

STEPS: Final = 20
"""Turns of the model one question may take."""

_LOOKING: Final = frozenset(
    {"discover_data", "entity_details", "sl_discover", "sl_read_source", "wiki_search", "wiki_read"}
)
_TOOLS: Final = tuple(
    tool for tool in (*discovery.TOOLS, *layer_reading.TOOLS, *wiki_reading.TOOLS) if tool.name in _LOOKING
)

Ask = Callable[[Mapping[str, Any], str | None], Answer]
"""Takes a query and a connection; returns what comes out. Raises `KtxError`."""


class AskLayer(Input):
    """What to ask the semantic layer."""

    query: dict[str, Any] = Field(
        description='measures: ["orders.revenue"]; dimensions: ["customers.country", {"field": "orders.ordered_at", '
        '"granularity": "month"}]; filters and having: SQL conditions; segments; order_by: ["revenue desc"]; limit; '
        'time_range: {"start": "2025-01-01", "end": "2026-01-01"}; via: {"regions": "bill_to"}.'
    )
    connection: str | None = Field(None, description="The connection; needed where there are several.")


def has_model(config: KtxConfig) -> bool:
    """Whether a model can be asked at all."""
    return config.llm.provider.backend != NO_BACKEND


@dataclass(slots=True)
class Interview:
    """One question put to the model. `answer`: of the last `query` that had one; `taken`: what the model took."""

    layout: Layout
    config: KtxConfig
    environ: Mapping[str, str]
    case: Case
    ask: Ask
    answer: Answer | None = None
    query: Mapping[str, Any] | None = None
    taken: Taken | None = None
    _broken: KtxError | None = field(default=None, repr=False)

    def run(self, warn: Callable[[ResultWarning], None]) -> Answer:
        """Return the answer of the model's last query; raises `LlmError`, and `KtxError` where none had an answer."""
        result = run_async(self._asked(warn))
        facts = result.facts
        self.taken = Taken(facts.resolved_model or facts.model, facts.usage.total, facts.cost.usd)
        if result.error is not None:
            raise result.error
        if self.answer is None and self._broken is not None:
            raise self._broken
        if self.answer is None:
            hint = "give the measure a name or a description the question's words are in, or correct the question"
            raise KtxError("the model made no query that has an answer", hint=hint, code="max_turns")
        return self.answer

    async def _asked(self, warn: Callable[[ResultWarning], None]) -> LoopResult:
        system, _ = text_of("prompts", "eval_question", self.layout.root)
        opened = project_runtime(self.layout, self.config, self.environ, command="ktx eval", warn=warn)
        async with opened as runtime:
            return await runtime.run_agent_loop(
                f"The question: {self.case.asked.question}",
                system=system,
                tools=self._tools(),
                step_budget=STEPS,
                label=self.case.name,
            )

    def _tools(self) -> list[RuntimeTool]:
        session = ToolSession(
            Workspace(WorkingTree(self.layout.root)),
            connections=self._connections(),
            configured=self.config.connections.keys(),
            calendar=calendar_of(self.config),
            privacy=self.config.scan.privacy,
        )
        query = Tool("sl_query", "Ask the semantic layer. It joins by declared paths alone.", AskLayer, self._query)
        return [tool.on(session) for tool in (*_TOOLS, query)]

    def _connections(self) -> dict[str, str]:
        """Return the databases with a semantic layer -> their dialects; of a case with a connection that one."""
        databases = self.config.databases()
        chosen = [self.case.connection] if self.case.connection else layer_ids(self.layout)
        found = {each: dialect_of(databases[each].driver) for each in chosen if each in databases}
        return {each: dialect for each, dialect in found.items() if dialect is not None}

    def _query(self, session: ToolSession, value: AskLayer) -> ToolOutput:
        try:
            self.answer = self.ask(value.query, session.connection(value.connection))
        except KtxError as error:
            if error.exit_code not in (EXIT_FAILED, EXIT_USAGE):
                self._broken = error
            raise
        self.query = value.query
        columns = listing(self.answer.columns, 50)
        told = f"{plural(len(self.answer.rows), 'row')} came out, with the columns {columns}. They are kept."
        return ToolOutput(told, {"success": True, "rows": len(self.answer.rows)})
