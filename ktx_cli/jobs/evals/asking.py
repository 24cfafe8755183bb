"""Asks cases: the semantic layer as `ktx sl query` does, a database as `ktx sql` does, or the configured model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core.errors import EXIT_UNREACHABLE, KtxError, ResultWarning, UsageError
from ktx_cli.core.text import plural
from ktx_cli.jobs.evals.comparing import Answer
from ktx_cli.jobs.evals.model import Case
from ktx_cli.jobs.evals.results import CaseResult
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout

if TYPE_CHECKING:
    from ktx_cli.connectors.pooling import ConnectorPool
    from ktx_cli.context.semantic.model import Model

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
        from ktx_cli.jobs.semantic.layers import the_layer

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
        from ktx_cli.jobs.semantic.asking import ask_layer
        from ktx_cli.jobs.semantic.means import Means
        from ktx_cli.jobs.semantic.questions import Question

        told = ask_layer(
            self.layout,
            self.config,
            Question({"limit": MOST_ROWS, **query}, connection, attributes=case.asked.attributes),
            environ=self.environ,
            means=Means(load=self._layer, opener=self.pool.open),
            formats=case.asked.expect is None,
        )
        error = told.error()
        if error is not None:
            raise error
        _require_whole(None if told.cut == "rows" and "limit" in query else told.cut, case)
        return Answer(told.columns, told.rows, bool(query.get("order_by")), told.formats)

    def _layer(self, layout: Layout, config: KtxConfig, connection: str) -> Model:
        from ktx_cli.jobs.semantic.layers import load_layer

        if connection not in self.models:
            self.models[connection] = load_layer(layout, config, connection)
        return self.models[connection]

    def _ask_model(self, result: CaseResult) -> None:
        from ktx_cli.jobs.evals.interview import Interview, has_model

        if not has_model(self.config):
            result.status, result.reason = "skip", "no model backend is configured: ktx setup --only llm"
            return
        interview = Interview(self.layout, self.config, self.environ, result.case, self._asked_by(result.case))
        try:
            found = interview.run(self.warn)
        finally:
            result.taken, result.query = interview.taken, interview.query
        result.answer = Answer(found.columns, found.rows, formats=found.formats)  # in which order is the model's choice

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
    from ktx_cli.connectors.pooling import ConnectorPool

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
