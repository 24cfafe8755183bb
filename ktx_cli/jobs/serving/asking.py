"""Asks a served project: its semantic layer, or a database by SQL; an answer is kept for its next pages."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.connectors.sizes import row_memory
from ktx_cli.context.semantic.model import Model
from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.relations import read_relations
from ktx_cli.context.tools.row_makers import rows_of_values
from ktx_cli.context.tools.sql_protection import check_protected, has_protected
from ktx_cli.context.tools.sql_values import count_columns
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import shell_words
from ktx_cli.jobs.semantic.asking import Told, ask_layer
from ktx_cli.jobs.semantic.layers import the_layer
from ktx_cli.jobs.semantic.questions import Question
from ktx_cli.jobs.serving.attributes import missing_attributes_told
from ktx_cli.jobs.serving.project import ServedProject
from ktx_cli.jobs.serving.telling import told_with_care
from ktx_cli.jobs.serving.watching import Watch
from ktx_cli.jobs.sql import SqlAnswer, only_database, run_sql
from ktx_cli.project.tree import WorkingTree

MOST_BYTES: Final = 4_000_000
"""About how many bytes of values an answer to an agent has at most."""

WITHHELD: Final = "(withheld)"
"""Stands in the place of a value that does not leave this machine."""

ANEW: Final = ResultWarning(
    "asked_anew",
    "the answer of the page before is not kept any more: it was asked for again, and rows may have changed",
    hint="begin with offset 0 where the pages must be of one answer",
)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an answer that may be shown, from `offset` on. `count`: how many it has without regard to that."""

    rows: tuple[tuple[Any, ...], ...]
    count: int
    warnings: tuple[ResultWarning, ...] = ()


def ask_served(
    project: ServedProject, question: Question, *, offset: int, privacy: bool, watch: Watch
) -> tuple[Told, Rows]:
    """Return the answer of a question, and its rows from `offset` on: with `privacy` none.

    Raises as `ask_layer`, and `KtxError` (`not_verified`) for numbers that a second computation does not agree with.
    """
    config = project.config()
    connection = the_layer(project.layout, config, question.connection)
    model = project.load_layer(project.layout, config, connection)
    key, proof = _key("sl_query", dataclasses.asdict(question), connection), (config, model)
    told: Told | None = project.answers.get(key, proof) if offset else None
    anew = offset > 0 and told is None
    if told is None:
        watch.said(0.0, "compiling the question")
        with missing_attributes_told(), told_with_care("", model, privacy=privacy):
            told = ask_layer(
                project.layout,
                config,
                question,
                environ=project.environ,
                max_bytes=MOST_BYTES,
                suggest=None if privacy else True,  # whether a row has a value tells of values
                means=dataclasses.replace(
                    project.means,
                    load=lambda layout, config, connection: model,  # the one the answer is kept with
                    opener=watch.opener(project.pool.open),
                ),
            )
        _require_verified(told, privacy)
        project.answers.put(key, proof, told, _size(told.rows))
    watch.check()
    watch.said(1.0, "answered")
    rows = () if privacy else told.rows[offset:]
    return told, Rows(rows, len(told.rows), (*((ANEW,) if anew else ()), *told.warnings))


def run_served(
    project: ServedProject,
    sql: str,
    connection: str | None,
    *,
    max_rows: int,
    offset: int,
    privacy: bool,
    watch: Watch,
) -> tuple[SqlAnswer, Rows]:
    """Return the answer of a statement, and its rows from `offset` on: with `privacy` counts alone.

    Raises as `run_sql`, and `KtxError` (`hidden`) for a statement that may show what people hid.
    """
    config = project.config()
    chosen = connection or only_database(project.layout, config)
    model = _model(project, chosen)
    _require_open(project, model, sql)
    if privacy:
        _require_no_made_rows(sql, model)
    key, proof = _key("sql_execution", sql, chosen, max_rows), (config, model)
    told: SqlAnswer | None = project.answers.get(key, proof) if offset else None
    anew = offset > 0 and told is None
    if told is None:
        watch.said(0.0, "checking the statement")
        with told_with_care(sql, model, privacy=privacy):
            told = run_sql(
                project.layout,
                config,
                sql,
                environ=project.environ,
                connection=chosen,
                max_rows=max_rows,
                max_bytes=MOST_BYTES,
                opener=watch.opener(project.pool.open),
            )
        project.answers.put(key, proof, told, _size(told.rows))
    watch.check()
    watch.said(1.0, "answered")
    rows = _counts_alone(told, sql) if privacy else told.rows
    return told, Rows(rows[offset:], len(told.rows), (ANEW,) if anew else ())


def _model(project: ServedProject, connection: str) -> Model | None:
    """Return the semantic layer of a connection, an empty one where it has no files; None: it is no database."""
    config = project.config()
    if connection not in config.databases():
        return None
    return project.load_layer(project.layout, config, connection)


def _require_open(project: ServedProject, model: Model | None, sql: str) -> None:
    if model is None:
        return
    try:
        scanned = read_relations(WorkingTree(project.layout.root), model.connection) if has_protected(model) else None
        check_protected(model, sql, scanned)
    except Refused as error:
        broken = bool(model.barred) or model.sealed is not None
        check = shell_words("ktx", "sl", "validate", "-c", model.connection, "--no-data")
        hint = "ask by sl_query, which keeps to what may be seen"
        hint += f"; people correct the files with errors: {check}" if broken else ""
        raise KtxError(str(error), hint=hint, code="hidden") from None


def _require_no_made_rows(sql: str, model: Model | None) -> None:
    made = None if model is None else rows_of_values(sql, model.dialect)
    if made is not None:
        raise KtxError(
            f"`{made}` makes rows out of values, so that their number would tell a value, and this server was started "
            "with --privacy",
            hint="count rows of tables; arguments in FROM, LIMIT and bounds of a recursion must be constants",
            code="hidden",
        )


def _require_verified(told: Told, privacy: bool) -> None:
    error = told.error(values=not privacy)
    if error is not None:
        raise KtxError(
            error.message,
            hint="do not use the answer, and tell the user: a definition or the compiler is wrong; sl_explain shows "
            "how it was computed",
            details=error.details,
            code=error.code,
        )


def _counts_alone(told: SqlAnswer, sql: str) -> tuple[tuple[Any, ...], ...]:
    counts = count_columns(sql, told.dialect, len(told.columns))
    if not counts:
        return ()
    return tuple(tuple(value if place in counts else WITHHELD for place, value in enumerate(row)) for row in told.rows)


def _size(rows: Sequence[Sequence[Any]]) -> int:
    return sum(map(row_memory, rows))


def _key(*parts: Any) -> str:
    return json.dumps(parts, sort_keys=True, default=str)
