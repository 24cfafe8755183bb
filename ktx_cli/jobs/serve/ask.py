"""Queries a served project: its semantic layer, or a database with SQL; answers are cached for their next pages."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from ktx_cli.agent_tools import count_columns, refused_text, rows_of_values
from ktx_cli.core import CancelledError, Command, Hint, KtxError, ResultWarning, SourceError, monotonic, one_line
from ktx_cli.jobs.semantic.federation import FEDERATED
from ktx_cli.jobs.semantic.layers import choose_layer
from ktx_cli.jobs.semantic.question import LayerAnswer, Question, ask_layer
from ktx_cli.jobs.semantic.sql import PipelineAnswer, SqlAnswer, only_database, prepare_pipeline, run_pipeline, run_sql
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.jobs.serve.state import user_attributes_required
from ktx_cli.project import KtxConfig, WorkingTree
from ktx_cli.protection import Refused, Relations, check_collections, check_protected, has_protected, read_relations
from ktx_cli.semantic import Caller, Model, SemanticError, VisibleModel
from ktx_cli.warehouses import Connector, ForwardingConnector, Opener, QueryResult, Scope, TableRef, row_memory

MOST_BYTES: Final = 4_000_000
"""Approximate maximum size of the values in an answer to an agent, in bytes."""

HIDDEN: Final = "(hidden)"
"""Replaces a value that must not leave this machine."""

ASKED_AGAIN: Final = ResultWarning(
    "asked_anew",
    "the answer for the previous page is no longer cached, so the query was run again and rows may have changed",
    hint="start again with offset 0 if all pages must come from one answer",
)


@dataclass(frozen=True, slots=True)
class RowPage:
    """The rows of an answer that may be shown, starting at `offset`. `count`: the number of all its rows."""

    rows: tuple[tuple[Any, ...], ...]
    count: int
    warnings: tuple[ResultWarning, ...] = ()


Answer = TypeVar("Answer", LayerAnswer, SqlAnswer, PipelineAnswer)


def ask_served(
    project: ServedProject, question: Question, *, offset: int, privacy: bool, watch: Watch, asker: str = ""
) -> tuple[LayerAnswer, RowPage]:
    """Return the answer to a question, and its rows starting at `offset`: no rows with `privacy`.

    `asker`: distinguishes callers, whose answers are never another's next page. Raises the errors of `ask_layer`, and
    `KtxError` (`not_verified`) for numbers that a second computation does not confirm.
    """
    config = project.config()
    connection = choose_layer(project.layout, config, question.connection)
    model = project.load_layer(project.layout, config, connection)

    def ask() -> LayerAnswer:
        watch.report(0.0, "compiling the question")
        with (
            user_attributes_required(),
            hidden_names_redacted(model, question),
            row_values_redacted("", model, privacy=privacy),
        ):
            answer = ask_layer(
                project.layout,
                config,
                dataclasses.replace(question, connection=connection),
                environ=project.environ,
                max_bytes=MOST_BYTES,
                suggest=None if privacy else True,  # whether a row has a value reveals values
                effects=not privacy,
                services=dataclasses.replace(
                    project.services,
                    load=lambda layout, config, connection: model,  # the one with which the answer is cached
                    opener=watch.opener(project.pool.open),
                ),
            )
        error = answer.error(values=not privacy)
        if error is not None:
            error.hint = Hint(
                "do not use the answer, and tell the user: a definition or the compiler is wrong; sl_query "
                "with explain: true shows how it was computed"
            )
            raise error
        return answer

    asked = ("sl_query", asker, dataclasses.asdict(question), connection)
    answer, warnings = _kept(project, asked, (config, model), ask, offset, watch)
    rows = () if privacy else answer.rows[offset:]
    return answer, RowPage(rows, len(answer.rows), (*warnings, *answer.warnings))


def _kept(
    project: ServedProject, asked: Any, proof: tuple[object, ...], ask: Callable[[], Answer], offset: int, watch: Watch
) -> tuple[Answer, tuple[ResultWarning, ...]]:
    """Return the cached answer, or else a new one, which is cached for its next pages."""
    key = json.dumps(asked, sort_keys=True, default=str)
    kept: Answer | None = project.answers.get(key, proof) if offset else None
    answer = ask() if kept is None else kept
    if kept is None:
        project.answers.put(key, proof, answer, sum(map(row_memory, answer.rows)))
    watch.check()
    watch.report(1.0, "answered")
    return answer, (ASKED_AGAIN,) if offset > 0 and kept is None else ()


def run_served(
    project: ServedProject,
    sql: str,
    connection: str | None,
    *,
    caller: Caller,
    max_rows: int,
    offset: int,
    privacy: bool,
    watch: Watch,
    asker: str = "",
) -> tuple[SqlAnswer, RowPage]:
    """Return the answer to a statement, and its rows starting at `offset`: only counts with `privacy`.

    Raises the errors of `run_sql`, and `KtxError` (`hidden`) for a statement that may show hidden data.
    """
    config = project.config()
    chosen = connection or only_database(project.layout, config)
    model = project.load_layer(project.layout, config, chosen) if chosen in config.databases() else None
    _require_open(project, model, sql, caller)
    if privacy:
        if chosen == FEDERATED:
            message = "a server that was started with --privacy cannot join the tables of several databases"
            raise KtxError(message, hint="query each connection for counts", code="hidden")
        _require_no_made_rows(sql, model)

    def ask() -> SqlAnswer:
        watch.report(0.0, "checking the statement")
        with row_values_redacted(sql, model, privacy=privacy):
            return run_sql(
                project.layout,
                config,
                sql,
                environ=project.environ,
                connection=chosen,
                max_rows=max_rows,
                max_bytes=MOST_BYTES,
                opener=watch.opener(project.pool.open),
                model=model,
                effects=not privacy,
                check=lambda member, part: _require_open(
                    project, project.load_layer(project.layout, config, member), part, caller
                ),
            )

    asked = ("sql_execution", asker, sql, chosen, max_rows, caller.to_json())
    layers: tuple[Model | None, ...] = (model,)
    if chosen == FEDERATED:
        layers = tuple(project.load_layer(project.layout, config, each) for each in sorted(config.databases()))
    answer, warnings = _kept(project, asked, (config, *layers), ask, offset, watch)
    rows = _counts_alone(answer, sql) if privacy else answer.rows
    return answer, RowPage(rows[offset:], len(answer.rows), warnings)


def aggregate_served(
    project: ServedProject,
    collection: str,
    pipeline: str,
    connection: str | None,
    *,
    caller: Caller,
    max_rows: int,
    offset: int,
    privacy: bool,
    watch: Watch,
    asker: str = "",
) -> tuple[PipelineAnswer, RowPage]:
    """Return the answer to a pipeline in Extended JSON, and its rows starting at `offset`: only counts with `privacy`.

    Raises the errors of `prepare_pipeline` and `run_pipeline`, and `KtxError` (`hidden`) for a pipeline that may show
    hidden data.
    """
    config = project.config()
    prepared = prepare_pipeline(project.layout, config, collection, pipeline, connection)
    model = project.load_layer(project.layout, config, prepared.connection)
    try:
        check_collections(model, collection, prepared.checked.reads, _scanned(project, model, caller), caller)
    except Refused as error:
        hint = "use sl_query, which only reads what may be shown"
        raise KtxError(str(error), hint=hint, code="hidden") from None
    if privacy and prepared.checked.multiplies:
        message = (
            f"`{prepared.checked.multiplies}` turns values into results, so the number of results would reveal a "
            "value, and this server was started with --privacy"
        )
        raise KtxError(message, hint="count documents without it", code="hidden")

    def ask() -> PipelineAnswer:
        watch.report(0.0, "checking the pipeline")
        with row_values_redacted("", model, privacy=privacy):
            return run_pipeline(
                project.layout,
                config,
                prepared,
                environ=project.environ,
                max_rows=max_rows,
                max_bytes=MOST_BYTES,
                opener=watch.opener(project.pool.open),
            )

    asked = ("mongo_query", asker, collection, pipeline, prepared.connection, max_rows, caller.to_json())
    answer, warnings = _kept(project, asked, (config, model), ask, offset, watch)
    rows = answer.rows
    if privacy:
        rows = tuple(
            tuple(value if place in answer.counts else HIDDEN for place, value in enumerate(row))
            for row in (rows if answer.counts else ())
        )
    return answer, RowPage(rows[offset:], len(answer.rows), warnings)


def _scanned(project: ServedProject, model: Model, caller: Caller) -> Relations | None:
    """Return what the last scan found, or None if nothing is hidden from the caller."""
    if not has_protected(model, caller):
        return None
    return read_relations(WorkingTree(project.layout.root), model.connection)


def _require_open(project: ServedProject, model: Model | None, sql: str, caller: Caller) -> None:
    if model is None:
        return
    try:
        check_protected(model, sql, _scanned(project, model, caller), caller)
    except Refused as error:
        broken = bool(model.barred) or model.sealed is not None
        check = Command("sl", "validate", "-c", model.connection, "--no-data")
        hint = Hint("use sl_query, which only reads what may be shown")
        hint += Hint("; people correct the files with errors: {}", check) if broken else ""
        raise KtxError(str(error), hint=hint, code="hidden") from None


def _require_no_made_rows(sql: str, model: Model | None) -> None:
    made = None if model is None else rows_of_values(sql, model.dialect)
    if made is not None:
        raise KtxError(
            f"`{made}` turns values into rows, so the number of rows would reveal a value, and this server "
            "was started with --privacy",
            hint="count rows of tables; arguments in FROM, LIMIT and bounds of a recursion must be constants",
            code="hidden",
        )


def _counts_alone(answer: SqlAnswer, sql: str) -> tuple[tuple[Any, ...], ...]:
    counts = count_columns(sql, answer.dialect, len(answer.columns))
    if not counts:
        return ()
    return tuple(tuple(value if place in counts else HIDDEN for place, value in enumerate(row)) for row in answer.rows)


def may_quote_rows(model: Model | None, *, privacy: bool) -> bool:
    """Return whether errors about rows may be shown unchanged: not with `privacy`, nor if any rows are hidden."""
    return not privacy and (model is None or not has_protected(model))


@contextlib.contextmanager
def row_values_redacted(sql: str, model: Model | None, *, privacy: bool) -> Iterator[None]:
    """Reduce a database error to its kind if it may quote rows that must not be shown."""
    try:
        yield
    except SourceError as error:
        if may_quote_rows(model, privacy=privacy):
            raise
        sources = [] if model is None else list(model.sources.values())
        names = [name for each in sources for name in (each.name, *(each.table or ()), *each.columns)]
        refusal = refused_text(error, sql, "" if model is None else model.dialect, names, "off")
        if refusal.startswith(one_line(error.message, 1_000)):
            raise
        details = {key: each for key, each in error.details.items() if key == "connection"}
        refused = KtxError(refusal, hint="request counts, or less data", details=details, code=error.code)
        refused.where = error.where
        raise refused from None


_BACKTICKED: Final = re.compile(r"`([^`]*)`")
_WORD: Final = re.compile(r"\w+")
_SEE: Final = "use sl_read_source to see what is available"


@contextlib.contextmanager
def hidden_names_redacted(model: Model, question: Question) -> Iterator[None]:
    """Keep hidden names out of an error about a definition in a question, unless the question contains them."""
    try:
        yield
    except SemanticError as error:
        shown, asked = VisibleModel(model, internal=True), set(_WORD.findall(str(question.query)))
        for key in ("candidates", "choices"):
            names = error.details.get(key) or ()
            hidden = [each for each in names if shown.hides(str(each))]
            if hidden:
                error.details[key] = [each for each in names if each not in hidden]
                error.hint = _SEE
            paths = (each["path"] for each in hidden if isinstance(each, Mapping))
            for path in sorted(paths, key=len, reverse=True):
                error.message = error.message.replace(path, "(a hidden path)")
        if shown.hides(str(error.details.get("join", ""))):
            del error.details["join"]
            error.hint = _SEE
        named = (word for text in _BACKTICKED.findall(error.message) for word in _WORD.findall(text))
        if any(shown.hides(each) for each in named if each not in asked):
            message = "a definition that the question uses has an error, in a part of it that is hidden"
            hint = Hint("people find it with {}", Command("sl", "validate"))
            raise SemanticError(message, hint=hint, code=error.code) from None
        raise


_AGAIN: Final = 0.05
"""Seconds until work in progress is ended again: a statement may not have arrived in its database at first."""

_AGAIN_AT_MOST: Final = 1.0
_ENDING_SECONDS: Final = 10.0


class Stop:
    """A flag that the caller has disconnected, with the work to end then; thread-safe."""

    def __init__(self) -> None:
        self._set = False
        self._ends: list[Callable[[], None]] = []
        self._changed = threading.Condition()

    def set(self) -> None:
        """Set the flag, and begin to end work in progress; returns at once, because a database may answer late."""
        with self._changed:
            first, self._set = not self._set, True
            if first and self._ends:
                # The end of the process waits for it a moment, so that the database learns of it.
                threading.Thread(target=self._end_all, name="stop", daemon=False).start()

    def _end_all(self) -> None:
        until, seconds = monotonic() + _ENDING_SECONDS, _AGAIN
        with self._changed:
            while self._ends and monotonic() < until:
                for end in self._ends:
                    end()
                self._changed.wait(seconds)
                seconds = min(2 * seconds, _AGAIN_AT_MOST)

    def is_set(self) -> bool:
        """Whether the caller has disconnected."""
        return self._set

    @contextlib.contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """Do work that `end` can end: it is called until this work ends, and only during it."""
        with self._changed:
            if self._set:
                raise CancelledError("the client cancelled the call")
            self._ends.append(end)
        try:
            yield
        finally:
            with self._changed:
                self._ends.remove(end)
                self._changed.notify()


@dataclass(frozen=True, slots=True)
class Watch:
    """The client that waits for an answer. `report`: receives the progress from 0 to 1, and the current action."""

    stop: Stop = field(default_factory=Stop)
    report: Callable[[float, str], None] = lambda progress, message: None

    def check(self) -> None:
        """Raise `CancelledError` if the caller has disconnected."""
        if self.stop.is_set():
            raise CancelledError("the client cancelled the call")

    def opener(self, opener: Opener) -> Opener:
        """Return an opener for connections whose statements only begin and continue while the caller waits."""

        def opened(
            config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
        ) -> tuple[Connector, Scope]:
            self.check()
            try:
                connector, scope = opener(config, connection, project_dir=project_dir, environ=environ)
            except SourceError as error:
                error.details.setdefault("connection", connection)
                raise
            self.report(0.3, f"querying {connection}")
            return _Watched(connector, self.stop), scope

        return opened


class _Watched(ForwardingConnector):
    """A connection whose statements only begin while the caller waits, and are cancelled if the
    database supports that.
    """

    def __init__(self, inner: Connector, stop: Stop) -> None:
        super().__init__(inner)
        self._stop = stop

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """See `Connector`."""
        with self._stop.ending(self.interrupt):
            return super().query(sql, parameters, max_rows=max_rows)

    def aggregate(self, ref: TableRef, pipeline: Sequence[Mapping[str, Any]], *, max_rows: int = 1000) -> QueryResult:
        """See `Aggregating`."""
        with self._stop.ending(self.interrupt):
            return super().aggregate(ref, pipeline, max_rows=max_rows)
