"""Runs evals: each case is asked as `ktx sl query` and `ktx sql` ask, and its answer compared with what is expected."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ktx_cli.core.clock import isoformat, monotonic, now
from ktx_cli.core.errors import EXIT_UNREACHABLE, KtxError, ResultWarning, UsageError
from ktx_cli.core.events import Emit, StepProgress, ignore_events
from ktx_cli.core.text import plural
from ktx_cli.jobs.evals.accepting import accept
from ktx_cli.jobs.evals.comparing import Answer, difference
from ktx_cli.jobs.evals.history import Past, read_history, write_history
from ktx_cli.jobs.evals.loading import Loaded, load_evals
from ktx_cli.jobs.evals.model import Case
from ktx_cli.jobs.evals.results import CaseResult, EvalReport, Status
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import EVALS_NAME, Layout

if TYPE_CHECKING:
    from ktx_cli.connectors.pooling import ConnectorPool
    from ktx_cli.context.semantic.model import Model

Warn = Callable[[ResultWarning], object]

MOST_ROWS: Final = 100_000
"""How many rows an answer may have that is compared."""

STEP: Final = "evals"


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """What to run. `accept`: new answers become what is expected; `save`: how cases ended is kept for the next run."""

    layout: Layout
    config: KtxConfig
    environ: Mapping[str, str]
    names: Sequence[str] = ()
    accept: bool = False
    save: bool = True
    emit: Emit = ignore_events
    warn: Warn = lambda warning: None


def run_evals(request: EvalRequest) -> EvalReport:
    """Run the cases and return how they ended.

    Raises `ConfigError` for a file of evals that cannot be used, `UsageError` for a name that nothing has and, with
    `accept`, `StorageError`, `ConfigError` for a file that cannot be written.
    """
    started = monotonic()
    loaded = load_evals(request.layout)
    _told(loaded, request.warn)
    cases = loaded.named(request.names)
    history = _history(request)
    report = EvalReport()
    with _asking(request) as asker:
        for done, case in enumerate(cases, start=1):
            report.results.append(_run(case, asker, history.get(case.name)))
            request.emit(StepProgress(STEP, done, len(cases)))
    if request.accept:
        accept(request.layout, report.results, request.warn)
    if request.save and report.results:
        report.saved = _saved(request, report.results, loaded)
    report.seconds = monotonic() - started
    return report


def _told(loaded: Loaded, warn: Warn) -> None:
    for warning in loaded.warnings:
        warn(warning)
    if not loaded.cases:
        hint = f"write one into {EVALS_NAME}/first.yaml: cases: [{{id: orders, sql: SELECT count(*) FROM orders}}]"
        warn(ResultWarning("no_evals", f"there are no cases in {EVALS_NAME}/*.yaml", hint=hint))


def _history(request: EvalRequest) -> dict[str, Past]:
    """Return how cases ended before; what cannot be read is told, and is nothing."""
    try:
        return read_history(request.layout)
    except KtxError as error:
        request.warn(ResultWarning("eval_history", error.message, hint=error.hint))
        return {}


def _saved(request: EvalRequest, results: Sequence[CaseResult], loaded: Loaded) -> bool:
    """Keep how cases ended; where that cannot be, it is told."""
    finished = isoformat(now())
    ended = {each.case.name: _past(each, finished) for each in results if each.status not in ("new", "skip")}
    try:
        write_history(request.layout, ended, {case.name for case in loaded.cases}, request.warn)
    except KtxError as error:
        message = f"how the evals ended is not kept, so that the next run knows of no regressions: {error.message}"
        request.warn(ResultWarning("eval_history", message, hint=error.hint))
        return False
    return True


def _past(result: CaseResult, finished: str) -> Past:
    before = result.before.passed if result.before is not None else None
    passed = finished if result.status == "pass" else before
    return Past(result.case.digest, result.status, finished, passed, result.milliseconds)


def _run(case: Case, asker: Asker, before: Past | None) -> CaseResult:
    same = before if before is not None and before.digest == case.digest else None
    started = monotonic()
    result = CaseResult(case, "error", before=same)
    try:
        result.answer = asker.answer(case)
        _judge(result)
    except KtxError as error:
        if error.code == "cancelled":
            raise
        result.error = error
    result.seconds = monotonic() - started
    return result


def _judge(result: CaseResult) -> None:
    expect, answer = result.case.asked.expect, result.answer
    if answer is None or expect is None:
        result.status = "new"
        return
    result.difference = difference(expect, answer)
    passed_once = result.before is not None and result.before.passed is not None
    wrong: Status = "regress" if passed_once else "fail"
    result.status = "pass" if result.difference is None else wrong


@dataclass(slots=True)
class Asker:
    """Asks the cases of one run: connections are kept open, semantic layers read once.

    A database that could not be reached is not tried again.
    """

    request: EvalRequest
    pool: ConnectorPool
    models: dict[str, Model] = field(default_factory=dict)
    unreachable: dict[str, KtxError] = field(default_factory=dict)

    def answer(self, case: Case) -> Answer:
        """Return what comes out of a case; raises `KtxError`."""
        connection = self._connection(case)
        if connection in self.unreachable:
            raise self.unreachable[connection]
        try:
            return self._sql(case, connection) if case.asked.kind == "sql" else self._query(case, connection)
        except KtxError as error:
            if error.exit_code == EXIT_UNREACHABLE:
                self.unreachable[connection] = error
            raise

    def _connection(self, case: Case) -> str:
        from ktx_cli.jobs.semantic.layers import the_layer
        from ktx_cli.jobs.sql import only_database

        config = self.request.config
        try:
            if case.asked.kind == "query":
                return the_layer(self.request.layout, config, case.connection)
            return case.connection or only_database(config)
        except UsageError as error:
            if case.connection is None:
                error.hint = f"name it in {case.path}: connection: ID"
            raise

    def _sql(self, case: Case, connection: str) -> Answer:
        from ktx_cli.jobs.sql import run_sql

        answer = run_sql(
            self.request.layout,
            self.request.config,
            str(case.asked.sql),
            environ=self.request.environ,
            connection=connection,
            max_rows=MOST_ROWS,
            opener=self.pool.open,
        )
        _require_whole(answer.cut, case)
        return Answer(answer.columns, answer.rows, _is_ordered(str(case.asked.sql), answer.dialect))

    def _query(self, case: Case, connection: str) -> Answer:
        from ktx_cli.jobs.semantic.asking import ask_layer
        from ktx_cli.jobs.semantic.means import Means
        from ktx_cli.jobs.semantic.questions import Question

        asked = case.asked.query or {}
        told = ask_layer(
            self.request.layout,
            self.request.config,
            Question({"limit": MOST_ROWS, **asked}, connection, attributes=case.asked.attributes),
            environ=self.request.environ,
            means=Means(load=self._layer, opener=self.pool.open),
        )
        _require_whole(None if told.cut == "rows" and "limit" in asked else told.cut, case)
        return Answer(told.columns, told.rows, bool(asked.get("order_by")))

    def _layer(self, layout: Layout, config: KtxConfig, connection: str) -> Model:
        from ktx_cli.jobs.semantic.layers import load_layer

        if connection not in self.models:
            self.models[connection] = load_layer(layout, config, connection)
        return self.models[connection]


@contextlib.contextmanager
def _asking(request: EvalRequest) -> Iterator[Asker]:
    from ktx_cli.connectors.pooling import ConnectorPool

    pool = ConnectorPool()
    try:
        yield Asker(request, pool)
    finally:
        pool.close()


def _require_whole(cut: str | None, case: Case) -> None:
    if cut is not None:
        what = f"more than {plural(MOST_ROWS, 'row')}" if cut == "rows" else "more values than are compared"
        hint = f"narrow it, or count in the question: {case.path}:{case.line}"
        raise KtxError(f"the answer of `{case.name}` has {what}", hint=hint, code="query")


def _is_ordered(sql: str, dialect: str) -> bool:
    """Whether a statement that was let through says in which order its rows come."""
    from sqlglot import parse_one

    return parse_one(sql, read=dialect).args.get("order") is not None
