"""Asks cases: the semantic layer as `ktx sl query` does, a database as `ktx sql` does, or the configured model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from ktx_cli.agent_tools import READING_TOOLS, Input, TaskPrompt, Tool, ToolSession
from ktx_cli.core import (
    EXIT_FAILED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    Command,
    Hint,
    KtxError,
    ResultWarning,
    UsageError,
    listing,
    plural,
)
from ktx_cli.documents import WorkUnit
from ktx_cli.jobs.check.eval.cases import Case
from ktx_cli.jobs.check.eval.compare import Answer
from ktx_cli.jobs.check.eval.results import CaseResult, Taken
from ktx_cli.llm import NO_BACKEND, RuntimeTool, ToolOutput, project_runtime, run_async
from ktx_cli.project import KtxConfig, Layout, WorkingTree, Workspace
from ktx_cli.prompts import text_of
from ktx_cli.semantic import calendar_of, layer_ids
from ktx_cli.warehouses import dialect_of

if TYPE_CHECKING:
    from ktx_cli.engine import AgentTask, UnitOutcome
    from ktx_cli.semantic import Model
    from ktx_cli.warehouses import ConnectorPool


MOST_ROWS: Final = 100_000
"""How many rows an answer may have that is compared."""


@dataclass(slots=True)
class Asker:
    """Asks the cases of one run: connections are kept open, semantic layers read once.

    A database that could not be reached is not tried again.
    """

    layout: Layout
    config: KtxConfig
    environ: Mapping[str, str]
    warn: Callable[[ResultWarning], None]
    pool: ConnectorPool
    models: dict[str, Model] = field(default_factory=dict)
    unreachable: dict[str, KtxError] = field(default_factory=dict)

    def ask(self, result: CaseResult) -> None:
        """Put the answer of a case into its result; raises `KtxError`."""
        case = result.case
        if case.asked.kind == "ask":
            self._ask_model(result)
        elif case.asked.kind == "sql":
            connection = self._sql_connection(case)
            result.answer = self._reached(connection, lambda: self._sql(case, connection))
        else:
            connection = self._layer_connection(case, case.connection)
            result.answer = self._reached(connection, lambda: self._query(case, case.asked.query or {}, connection))

    def _reached(self, connection: str, ask: Callable[[], Answer]) -> Answer:
        if connection in self.unreachable:
            raise self.unreachable[connection]
        try:
            return ask()
        except KtxError as error:
            if error.exit_code == EXIT_UNREACHABLE:
                self.unreachable[connection] = error
            raise

    def _layer_connection(self, case: Case, connection: str | None) -> str:
        from ktx_cli.jobs.semantic.choice import the_layer

        with _which(case):
            return the_layer(self.layout, self.config, connection)

    def _sql_connection(self, case: Case) -> str:
        from ktx_cli.jobs.sql import only_database

        with _which(case):
            return case.connection or only_database(self.layout, self.config)

    def _sql(self, case: Case, connection: str) -> Answer:
        from ktx_cli.jobs.sql import run_sql

        answer = run_sql(
            self.layout,
            self.config,
            str(case.asked.sql),
            environ=self.environ,
            connection=connection,
            max_rows=MOST_ROWS,
            opener=self.pool.open,
            formats=case.asked.expect is None,  # the answers of new cases are printed
        )
        _require_whole(answer.cut, case)
        ordered = _is_ordered(str(case.asked.sql), answer.dialect)
        return Answer(answer.columns, answer.rows, ordered, answer.formats)

    def _query(self, case: Case, query: Mapping[str, Any], connection: str) -> Answer:
        from ktx_cli.jobs.semantic.answer import Question, ask_layer
        from ktx_cli.semantic import Means

        result = ask_layer(
            self.layout,
            self.config,
            Question({"limit": MOST_ROWS, **query}, connection, attributes=case.asked.attributes),
            environ=self.environ,
            means=Means(load=self._layer, opener=self.pool.open),
            formats=case.asked.expect is None,
        )
        error = result.error()
        if error is not None:
            raise error
        _require_whole(None if result.cut == "rows" and "limit" in query else result.cut, case)
        return Answer(result.columns, result.rows, bool(query.get("order_by")), result.formats)

    def _layer(self, layout: Layout, config: KtxConfig, connection: str) -> Model:
        from ktx_cli.semantic import load_layer

        if connection not in self.models:
            self.models[connection] = load_layer(layout, config, connection)
        return self.models[connection]

    def _ask_model(self, result: CaseResult) -> None:

        if not has_model(self.config):
            result.status, result.reason = (
                "skip",
                Hint("no model backend is configured: {}", Command("setup", "--only", "llm")),
            )
            return
        interview = Interview(self.layout, self.config, self.environ, result.case, self._asked_by(result.case))
        try:
            answer = interview.run(self.warn)
        finally:
            result.taken, result.query = interview.taken, interview.query
        result.answer = Answer(
            answer.columns, answer.rows, formats=answer.formats
        )  # in which order is the model's choice

    def _asked_by(self, case: Case) -> Callable[[Mapping[str, Any], str | None], Answer]:
        """Return what answers a query of the model."""

        def ask(query: Mapping[str, Any], connection: str | None) -> Answer:
            chosen = self._layer_connection(case, connection)
            return self._reached(chosen, lambda: self._query(case, query, chosen))

        return ask


@contextlib.contextmanager
def asking(
    layout: Layout, config: KtxConfig, environ: Mapping[str, str], warn: Callable[[ResultWarning], None]
) -> Iterator[Asker]:
    """Lend what asks the cases of one run; its connections are closed afterwards."""
    from ktx_cli.warehouses import ConnectorPool

    pool = ConnectorPool()
    try:
        yield Asker(layout, config, environ, warn, pool)
    finally:
        pool.close()


@contextlib.contextmanager
def _which(case: Case) -> Iterator[None]:
    """Let the hint of an error about which connection is meant name the file: there is no option to choose it by."""
    try:
        yield
    except UsageError as error:
        if case.connection is None:
            error.hint = f"name it in {case.path}: connection: ID"
        raise


def _require_whole(cut: str | None, case: Case) -> None:
    if cut is not None:
        what = f"more than {plural(MOST_ROWS, 'row')}" if cut == "rows" else "more values than are compared"
        hint = f"narrow it, or count in the question: {case.path}:{case.line}"
        raise KtxError(f"the answer of `{case.name}` has {what}", hint=hint, code="query")


def _is_ordered(sql: str, dialect: str) -> bool:
    """Whether a statement that was let through says in which order its rows come."""
    from sqlglot import parse_one

    return parse_one(sql, read=dialect).args.get("order") is not None


STEPS: Final = 20
"""Turns of the model one question may take."""

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
        outcome = run_async(self._asked(warn))
        if outcome.facts is not None:
            facts = outcome.facts
            self.taken = Taken(facts.resolved_model or facts.model, facts.usage.total, facts.cost.usd)
        if outcome.error is not None:
            raise outcome.error
        if self.answer is None and self._broken is not None:
            raise self._broken
        if self.answer is None:
            hint = "give the measure a name or a description the question's words are in, or correct the question"
            raise KtxError("the model made no query that has an answer", hint=hint, code="max_turns")
        return self.answer

    async def _asked(self, warn: Callable[[ResultWarning], None]) -> UnitOutcome:
        from ktx_cli.engine import AgentRunner

        opened = project_runtime(self.layout, self.config, self.environ, command=Command("eval"), warn=warn)
        async with opened as runtime:
            return await AgentRunner(runtime).run(self._task())

    def _task(self) -> AgentTask:
        from ktx_cli.engine import AgentTask

        system, _ = text_of("prompts", "eval_question", self.layout.root)
        return AgentTask(
            WorkUnit(self.case.name, self.case.name, ()),
            "default",
            prompt=lambda: TaskPrompt(system, f"The question: {self.case.asked.question}"),
            tools=self._tools,
            step_budget=STEPS,
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
        return [tool.on(session) for tool in (*READING_TOOLS, query)]

    def _connections(self) -> dict[str, str]:
        """Return the databases with a semantic layer -> their dialects; of a case with a connection that one."""
        databases = self.config.databases()
        chosen = [self.case.connection] if self.case.connection else layer_ids(self.layout)
        dialects = {name: dialect_of(databases[name].driver) for name in chosen if name in databases}
        return {name: dialect for name, dialect in dialects.items() if dialect is not None}

    def _query(self, session: ToolSession, value: AskLayer) -> ToolOutput:
        try:
            self.answer = self.ask(value.query, session.connection(value.connection))
        except KtxError as error:
            if error.exit_code not in (EXIT_FAILED, EXIT_USAGE):
                self._broken = error
            raise
        self.query = value.query
        columns = listing(self.answer.columns, 50)
        text = f"{plural(len(self.answer.rows), 'row')} came out, with the columns {columns}. They are kept."
        return ToolOutput(text, {"success": True, "rows": len(self.answer.rows)})
