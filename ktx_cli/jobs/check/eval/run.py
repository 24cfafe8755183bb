"""Runs evals: asks the cases, compares the answers, and optionally accepts new answers as the expected results."""

from __future__ import annotations

import contextlib
import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from pydantic import Field

from ktx_cli.agent_tools import READING_TOOLS, Input, TaskPrompt, Tool, ToolSession
from ktx_cli.core import (
    EXIT_FAILED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    Command,
    ConfigError,
    Emit,
    Hint,
    KtxError,
    ResultWarning,
    StepProgress,
    UsageError,
    ignore_events,
    isoformat,
    listing,
    monotonic,
    now,
    plural,
    without_noise,
    yaml,
)
from ktx_cli.documents import WorkUnit
from ktx_cli.engine import AgentRunner, AgentTask, UnitOutcome
from ktx_cli.jobs.check.eval.cases import Case, Loaded, load_evals
from ktx_cli.jobs.check.eval.results import (
    CaseAnswer,
    CaseResult,
    ComparedAnswers,
    EvalReport,
    Past,
    Status,
    Taken,
    comparison,
    difference,
    read_history,
    write_history,
)
from ktx_cli.jobs.semantic.layers import choose_layer
from ktx_cli.jobs.semantic.question import LayerAnswer, Question, ask_layer
from ktx_cli.jobs.semantic.sql import only_database, run_sql
from ktx_cli.llm import NO_BACKEND, RuntimeTool, ToolOutput, project_runtime, run_async
from ktx_cli.project import EVALS_NAME, Edit, KtxConfig, Layout, WorkingTree, Workspace, apply, read_bytes, write_atomic
from ktx_cli.prompts import text_of
from ktx_cli.semantic import Caller, Model, QueryServices, calendar_of, layer_ids, load_layer
from ktx_cli.warehouses import ConnectorPool, dialect_of

MOST_ROWS: Final = 100_000
"""The maximum number of rows in an answer."""

Warn = Callable[[ResultWarning], None]

STEP: Final = "evals"

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """The cases to run.

    `accept` writes the answers of new cases as expected results. `save` stores the outcomes for the next run.
    """

    layout: Layout
    config: KtxConfig
    environ: Mapping[str, str]
    names: Sequence[str] = ()
    accept: bool = False
    save: bool = True
    emit: Emit = ignore_events
    warn: Warn = lambda warning: None


@dataclass(slots=True)
class Asker:
    """Asks the cases of one run. Connections stay open, and semantic layers are read once.

    ktx does not retry a database that it could not reach.
    """

    request: EvalRequest
    pool: ConnectorPool
    models: dict[str, Model] = field(default_factory=dict)
    unreachable: dict[str, KtxError] = field(default_factory=dict)

    def ask(self, result: CaseResult) -> None:
        """Set the answer in the result. Raises `KtxError`."""
        case = result.case
        if case.asked.kind == "ask":
            self._ask_model(result)
            return
        if case.asked.sql is not None:
            with _which(case):
                connection = case.connection or only_database(self.request.layout, self.request.config)
            result.answer = self._reached(connection, lambda: self._sql(case, connection))
        if case.asked.query is not None:
            reply, answer = self._answered(case, case.asked.query, case.connection)
            if case.asked.compares and result.answer is not None:
                result.compared = ComparedAnswers(result.answer, case.asked.sql or "", reply.sql, reply.receipt)
            result.answer = answer

    def _reached(self, connection: str, ask: Callable[[], _Found]) -> _Found:
        if connection in self.unreachable:
            raise self.unreachable[connection]
        try:
            return ask()
        except KtxError as error:
            if error.exit_code == EXIT_UNREACHABLE:
                self.unreachable[connection] = error
            raise

    def _sql(self, case: Case, connection: str) -> CaseAnswer:
        answer = run_sql(
            *(self.request.layout, self.request.config, str(case.asked.sql)),
            environ=self.request.environ,
            connection=connection,
            max_rows=MOST_ROWS,
            opener=self.pool.open,
            formats=case.asked.expect is None,  # only the answers of new cases are printed
        )
        _require_whole(answer.cut, case)
        ordered = _is_ordered(str(case.asked.sql), answer.dialect)
        return CaseAnswer(answer.columns, answer.rows, ordered, answer.formats)

    def _ask_layer(self, case: Case, query: Mapping[str, Any], connection: str | None) -> CaseAnswer:
        return self._answered(case, query, connection)[1]

    def _answered(self, case: Case, query: Mapping[str, Any], connection: str | None) -> tuple[LayerAnswer, CaseAnswer]:
        with _which(case):
            chosen = choose_layer(self.request.layout, self.request.config, connection)
        return self._reached(chosen, lambda: self._query(case, query, chosen))

    def _query(self, case: Case, query: Mapping[str, Any], connection: str) -> tuple[LayerAnswer, CaseAnswer]:
        result = ask_layer(
            *(self.request.layout, self.request.config),
            Question({"limit": MOST_ROWS, **query}, connection, caller=Caller.of(case.asked.attributes)),
            environ=self.request.environ,
            services=QueryServices(load=self._layer, opener=self.pool.open),
            formats=case.asked.expect is None,
        )
        error = result.error()
        if error is not None:
            raise error
        _require_whole(None if result.cut == "rows" and "limit" in query else result.cut, case)
        return result, CaseAnswer(result.columns, result.rows, bool(query.get("order_by")), result.formats)

    def _layer(self, layout: Layout, config: KtxConfig, connection: str) -> Model:
        if connection not in self.models:
            self.models[connection] = load_layer(layout, config, connection)
        return self.models[connection]

    def _ask_model(self, result: CaseResult) -> None:
        if self.request.config.llm.provider.backend == NO_BACKEND:
            result.status = "skip"
            result.reason = Hint("no model backend is configured: {}", Command("setup", "--only", "llm"))
            return
        interview = Interview(self.request, result.case, functools.partial(self._ask_layer, result.case))
        try:
            answer = interview.run()
        finally:
            result.taken, result.query = interview.taken, interview.query
        result.answer = replace(answer, ordered=False)  # the model chooses the order


@contextlib.contextmanager
def _which(case: Case) -> Iterator[None]:
    """Point the hint of a connection error to the eval file, because no option sets the connection."""
    try:
        yield
    except UsageError as error:
        if case.connection is None:
            error.hint = f"set `connection: ID` in {case.path}"
        raise


def _require_whole(cut: str | None, case: Case) -> None:
    if cut is not None:
        what = f"more than {plural(MOST_ROWS, 'row')}" if cut == "rows" else "too many values to compare"
        hint = f"add filters, or count rows in the question: {case.path}:{case.line}"
        raise KtxError(f"the answer of `{case.name}` has {what}", hint=hint, code="query")


def _is_ordered(sql: str, dialect: str) -> bool:
    """Whether a checked statement sorts its rows."""
    from sqlglot import parse_one

    return parse_one(sql, read=dialect).args.get("order") is not None


STEPS: Final = 20
"""The maximum number of model steps for one question."""

Ask = Callable[[Mapping[str, Any], str | None], CaseAnswer]
"""Takes a query and a connection; returns the answer. Raises `KtxError`."""


class AskLayer(Input):
    """A query for the semantic layer."""

    query: dict[str, Any] = Field(
        description='measures: ["orders.revenue"]; dimensions: ["customers.country", {"field": "orders.ordered_at", '
        '"granularity": "month"}]; filters and having: SQL conditions; segments; order_by: ["revenue desc"]; limit; '
        'time_range: {"start": "2025-01-01", "end": "2026-01-01"}; via: {"regions": "bill_to"}.'
    )
    connection: str | None = Field(None, description="The connection. Required if there are several.")


@dataclass(slots=True)
class Interview:
    """One question to the model. `answer` belongs to the last successful `query`; `taken` is the usage."""

    request: EvalRequest
    case: Case
    ask: Ask
    answer: CaseAnswer | None = None
    query: Mapping[str, Any] | None = None
    taken: Taken | None = None
    _broken: KtxError | None = field(default=None, repr=False)

    def run(self) -> CaseAnswer:
        """Return the answer to the model's last query. Raises `LlmError`, and `KtxError` if no query succeeded."""
        outcome = run_async(self._asked())
        if outcome.facts is not None:
            facts = outcome.facts
            self.taken = Taken(facts.resolved_model or facts.model, facts.usage.total, facts.cost.usd)
        if outcome.error is not None:
            raise outcome.error
        if self.answer is None and self._broken is not None:
            raise self._broken
        if self.answer is None:
            hint = "use the words of the question in the name or description of the measure, or correct the question"
            raise KtxError("no query by the model returned an answer", hint=hint, code="max_turns")
        return self.answer

    async def _asked(self) -> UnitOutcome:
        layout, config, environ = self.request.layout, self.request.config, self.request.environ
        opened = project_runtime(layout, config, environ, command=Command("eval"), warn=self.request.warn)
        async with opened as runtime:
            return await AgentRunner(runtime).run(self._task())

    def _task(self) -> AgentTask:
        system, _ = text_of("prompts", "eval_question", self.request.layout.root)
        return AgentTask(
            WorkUnit(self.case.name, self.case.name, ()),
            "default",
            prompt=lambda: TaskPrompt(system, f"The question: {self.case.asked.question}"),
            tools=self._tools,
            step_budget=STEPS,
        )

    def _tools(self) -> list[RuntimeTool]:
        session = ToolSession(
            Workspace(WorkingTree(self.request.layout.root)),
            connections=self._connections(),
            configured=self.request.config.connections.keys(),
            calendar=calendar_of(self.request.config),
            privacy=self.request.config.scan.privacy,
        )
        query = Tool("sl_query", "Query the semantic layer. It only uses declared joins.", AskLayer, self._query)
        return [tool.on(session) for tool in (*READING_TOOLS, query)]

    def _connections(self) -> dict[str, str]:
        """Return the dialects of the databases with a semantic layer, or of the case's connection."""
        databases = self.request.config.databases()
        chosen = [self.case.connection] if self.case.connection else layer_ids(self.request.layout)
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
        rows = plural(len(self.answer.rows), "row")
        text = f"The query returned {rows} with the columns {columns}. ktx keeps this result."
        return ToolOutput(text, {"success": True, "rows": len(self.answer.rows)})


MOST_ACCEPTED: Final = 1_000
"""The maximum number of rows to accept: nobody reviews more."""


def accept(layout: Layout, results: Sequence[CaseResult], warn: Callable[[ResultWarning], object]) -> None:
    """Write the answers to new cases into their files. Raises `ConfigError`, `StorageError`.

    An answer with more than `MOST_ACCEPTED` rows is skipped with a warning.
    """
    by_file: dict[str, list[CaseResult]] = defaultdict(list)
    for result in results:
        if result.status == "new" and result.answer is not None and _is_small(result, result.answer, warn):
            by_file[result.case.path].append(result)
    for path, accepted in by_file.items():
        _write(layout, path, accepted)


def _is_small(result: CaseResult, answer: CaseAnswer, warn: Callable[[ResultWarning], object]) -> bool:
    if len(answer.rows) <= MOST_ACCEPTED:
        return True
    message = f"the answer of `{result.case.name}` has {plural(len(answer.rows), 'row')}: too many to accept"
    hint = f"add filters, or write `expect: {{rows: {len(answer.rows)}}}` in {result.case.path}:{result.case.line}"
    warn(ResultWarning("not_accepted", message, hint=hint))
    return False


def _write(layout: Layout, path: str, accepted: Sequence[CaseResult]) -> None:
    file = layout.root / path
    if layout.evals.is_symlink():
        hint = Hint("{} && {}", Command(layout.evals, program="rm"), Command(layout.evals, program="mkdir"))
        raise ConfigError(f"{layout.evals} is a symbolic link; ktx does not write through links", hint=hint)
    if file.is_symlink():
        hint = Hint("remove the link: {}", Command(path, program="rm"))
        raise ConfigError(f"{path} is a symbolic link; ktx does not write through links", hint=hint)
    text = read_bytes(file) or b""
    _require_unchanged(text, path, accepted)
    edits = [
        Edit("set", ("cases", result.case.index, "expect"), expectation_of(result.answer))
        for result in accepted
        if result.answer is not None
    ]
    write_atomic(file, apply(text, edits, where=path))
    for result in accepted:
        result.accepted = True


def _require_unchanged(text: bytes, path: str, accepted: Sequence[CaseResult]) -> None:
    """Raise `ConfigError` if the file was edited during the run, because the cases may have moved."""
    raw = yaml.load(text, where=path)
    cases = raw.get("cases") if isinstance(raw, dict) else None
    ids = [case.get("id") if isinstance(case, dict) else None for case in cases or ()]
    if any(result.case.asked.id not in ids[result.case.index : result.case.index + 1] for result in accepted):
        hint = Command("eval", *(result.case.name for result in accepted[:5]), "--accept")
        raise ConfigError(f"{path} changed while the evals ran; ktx did not write to it", hint=hint)


def expectation_of(answer: CaseAnswer) -> Any:
    """Return the expectation for an answer: one value, rows as mappings, or rows as lists with `columns`.

    Floats are rounded as for the comparison.
    """
    rows = [[without_noise(value) if isinstance(value, float) else value for value in row] for row in answer.rows]
    if len(rows) == len(answer.columns) == 1:
        return {"value": rows[0][0]}
    if not rows:
        return {"rows": 0}
    if len(set(answer.columns)) < len(answer.columns):
        return {"columns": list(answer.columns), "rows": rows}
    return [dict(zip(answer.columns, row, strict=True)) for row in rows]


def run_evals(request: EvalRequest) -> EvalReport:
    """Run the cases and return their results.

    Raises `ConfigError` for an invalid eval file, `UsageError` for an unknown name and, with `accept`, `StorageError`
    and `ConfigError` for a file that cannot be written.
    """
    started = monotonic()
    loaded = load_evals(request.layout)
    _warn_of_cases(loaded, request.warn)
    cases = loaded.named(request.names)
    history = _history(request)
    report = EvalReport()
    with contextlib.closing(ConnectorPool()) as pool:
        asker = Asker(request, pool)
        for done, case in enumerate(cases, start=1):
            report.results.append(run_case(case, asker, history.get(case.name)))
            request.emit(StepProgress(STEP, done, len(cases)))
    if request.accept:
        accept(request.layout, report.results, request.warn)
    if request.save and report.results:
        report.saved = _saved(request, report.results, loaded)
    report.seconds = monotonic() - started
    return report


def _warn_of_cases(loaded: Loaded, warn: Warn) -> None:
    for warning in loaded.warnings:
        warn(warning)
    if not loaded.cases:
        hint = f"create {EVALS_NAME}/first.yaml with: cases: [{{id: orders, sql: SELECT count(*) FROM orders}}]"
        warn(ResultWarning("no_evals", f"{EVALS_NAME}/*.yaml contains no cases", hint=hint))


def _history(request: EvalRequest) -> dict[str, Past]:
    """Return the previous outcomes. If they cannot be read, warn and return none."""
    try:
        return read_history(request.layout)
    except KtxError as error:
        request.warn(ResultWarning("eval_history", error.message, hint=error.hint))
        return {}


def _saved(request: EvalRequest, results: Sequence[CaseResult], loaded: Loaded) -> bool:
    """Store the outcomes of cases, or warn if that fails."""
    finished = isoformat(now())
    ended = {result.case.name: _past(result, finished) for result in results if result.status not in ("new", "skip")}
    try:
        write_history(request.layout, ended, {case.name for case in loaded.cases}, request.warn)
    except KtxError as error:
        message = f"ktx could not store the results, so the next run cannot detect regressions: {error.message}"
        request.warn(ResultWarning("eval_history", message, hint=error.hint))
        return False
    return True


def _past(result: CaseResult, finished: str) -> Past:
    before = result.before.passed if result.before is not None else None
    passed = finished if result.status == "pass" else before
    return Past(result.case.digest, result.status, finished, passed, result.milliseconds)


def run_case(case: Case, asker: Asker, before: Past | None = None) -> CaseResult:
    """Run a case and compare its answer. `before` is its previous outcome. An error is part of the result."""
    same = before if before is not None and before.digest == case.digest else None
    started = monotonic()
    result = CaseResult(case, "error", before=same)
    try:
        asker.ask(result)
        _judge(result)
    except KtxError as error:
        if error.code == "cancelled":
            raise
        result.error = error
    result.seconds = monotonic() - started
    return result


def _judge(result: CaseResult) -> None:
    expect, answer = result.case.asked.expect, result.answer
    if result.status == "skip":
        return
    compared = result.compared
    if answer is None or (expect is None and compared is None):
        result.status = "new"
        return
    result.difference = None if expect is None else difference(expect, answer)
    if result.difference is None and compared is not None:
        result.difference = comparison(compared.answer, answer, result.case.asked.tolerance)
    passed_once = result.before is not None and result.before.passed is not None
    wrong: Status = "regress" if passed_once else "fail"
    result.status = "pass" if result.difference is None else wrong
