"""`ktx sl query` and `ktx sl explain`: a question to the semantic layer, answered, or told how it would be."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ktx_cli.cli.blocks import Block, Fields, Lines, RowFormat, Table, as_lines, as_table, render_plain
from ktx_cli.cli.commands.sl_question import project_of, with_question
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.core import KtxError, ResultWarning, UsageError, shell_words

if TYPE_CHECKING:
    from ktx_cli.jobs.semantic.answer import Explained, LayerAnswer, Question


class AnswerFormat(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    SQL = "sql"


_TOTAL: Final = "total"

_ANSWERING: Final[dict[str, tuple[Any, Any]]] = {
    "execute": (
        Annotated[bool, typer.Option("--execute/--no-execute", help="Ask the database, or only compile.")],
        True,
    ),
    "form": (
        Annotated[
            AnswerFormat,
            typer.Option("--format", help="How the answer is printed without --json; sql asks no database."),
        ],
        AnswerFormat.TABLE,
    ),
    "verify": (
        Annotated[
            bool | None,
            typer.Option(
                "--verify/--no-verify",
                show_default=False,
                help="Recompute every row from raw rows, or none; exit 1 where a number differs. Without it: a sample, "
                "where there is a running, windowed, earlier or compared value.",
            ),
        ],
        None,
    ),
    "receipt": (
        Annotated[bool, typer.Option("--receipt", help="Print the whole receipt; --json always has it.")],
        False,
    ),
}


def register(commands: typer.Typer) -> None:
    """Add the commands to the group."""
    _register_query(commands)
    _register_explain(commands)


def _register_query(commands: typer.Typer) -> None:
    @command(commands, "query", schema="sl-query")
    @with_question(_ANSWERING)
    def query(
        session: Session, question: Question, *, execute: bool, form: AnswerFormat, verify: bool | None, receipt: bool
    ) -> Result:
        """Ask the semantic layer. The answer has a receipt: which rows it is made of, by which joins."""
        if not execute or form is AnswerFormat.SQL:
            if verify:
                raise UsageError("--verify needs an answer", hint="leave out --no-execute and --format sql")
            return _compiled(session, question, form)
        from ktx_cli.jobs.semantic.answer import ask_layer

        layout, config = project_of(session)
        printed = not session.settings.json and form is not AnswerFormat.JSON
        asked = replace(question, verified=verify)
        with _paths_as_flags():
            reply = ask_layer(layout, config, asked, environ=os.environ, suggest=True, formats=printed)
        session.warn(*reply.warnings)
        _warn_when_cut(session, reply)
        if session.settings.json:
            return Result(reply.to_json(), error=reply.error())
        notes = tuple(_notes(reply, form, receipt))
        if form is AnswerFormat.TABLE:
            return Result(reply.to_json(), [_table(reply)], reply.error(), notes=notes)
        return Result(reply.to_json(), error=reply.error(), text=_text(reply, form), notes=notes)


def _register_explain(commands: typer.Typer) -> None:
    @command(commands, "explain", schema="sl-explain")
    @with_question()
    def explain(session: Session, question: Question) -> Result:
        """Say how a question would be answered: facts, joins, conditions, SQL. No database is asked."""
        from ktx_cli.jobs.semantic.answer import choices_of, explain_question

        layout, config = project_of(session)
        try:
            with _paths_as_flags():
                explained = explain_question(layout, config, question)
        except KtxError as error:
            choices = tuple(choices_of(error.details))
            return Result(blocks=[Table(("choice", "means"), choices)] if choices else (), error=error)
        return Result(explained.to_json(), _explained_blocks(explained))


@contextlib.contextmanager
def _paths_as_flags() -> Iterator[None]:
    """Name the flags that choose a join path in the hint of a question that has several."""
    try:
        yield
    except KtxError as error:
        target, choices = error.details.get("target"), error.details.get("choices")
        if error.code == "ambiguous_path" and target and choices:
            flags = (shell_words("--via", f"{target}={choice['via']}") for choice in choices)
            error.hint = f"choose a path: {' or '.join(f'`{flag}`' for flag in flags)}"
        raise


def _compiled(session: Session, question: Question, form: AnswerFormat) -> Result:
    """Return the statement alone, in the envelope as that of an answer without rows."""
    from ktx_cli.jobs.semantic.answer import explain_question

    layout, config = project_of(session)
    with _paths_as_flags():
        explained = explain_question(layout, config, question)
    data = {
        "connection": explained.connection,
        "columns": [each["name"] for each in explained.columns],
        "rows": None,
        "row_count": None,
        "totals": None,
        "truncated": False,
        "cut": None,
        "sql": explained.sql,
        "receipt": dict(explained.receipt),
    }
    text = json.dumps(data, ensure_ascii=False, indent=2) if form is AnswerFormat.JSON else explained.sql
    return Result(data, [Lines(tuple(text.splitlines()))])


def _explained_blocks(explained: Explained) -> list[Block]:
    columns = tuple((each["name"], each["kind"], str(each["of"])) for each in explained.columns)
    return [Table(("column", "kind", "of"), columns), Lines(("", *explained.steps(), "", *explained.sql.splitlines()))]


def _warn_when_cut(session: Session, reply: LayerAnswer) -> None:
    if reply.cut is None:
        return
    why, hint = {
        "rows": ("", "raise --limit, or go on with --offset"),
        "bytes": (": they are large", "ask for fewer columns"),
    }[reply.cut]
    session.warn(ResultWarning("truncated", f"only the first {len(reply.rows):,} rows are shown{why}", hint=hint))


def _text(reply: LayerAnswer, form: AnswerFormat) -> str:
    if form is AnswerFormat.CSV:
        return as_lines(RowFormat.CSV, reply.columns, reply.rows, reply.formats)
    return json.dumps(reply.to_json(), ensure_ascii=False, indent=2) + "\n"


def _table(reply: LayerAnswer) -> Table:
    table = as_table(reply.columns, reply.rows, reply.formats)
    if reply.totals is None:
        return table
    before = len(reply.columns) - len(reply.totals)
    label = [_TOTAL, *[""] * (before - 1)][:before]
    formats = (*[None] * before, *reply.formats[before:])
    row = as_table(reply.columns, [(*label, *reply.totals.values())], formats).rows[0]
    return replace(table, rows=(*table.rows, row))


def _notes(reply: LayerAnswer, form: AnswerFormat, receipt: bool) -> Iterator[str]:
    """Yield what is said about an answer beside its rows."""
    from ktx_cli.jobs.semantic.answer import fact_lines, verification_lines

    if reply.totals is not None and form is AnswerFormat.CSV:
        shown = as_table(list(reply.totals), [list(reply.totals.values())], reply.formats[-len(reply.totals) :]).rows[0]
        yield f"totals: {', '.join(f'{name} = {value}' for name, value in zip(reply.totals, shown, strict=True))}"
    yield from fact_lines(reply.receipt)
    yield from (f"note: {each}" for each in reply.receipt["notes"])
    yield from verification_lines(reply.receipt["verified"])
    if receipt:
        yield from render_plain([Fields(tuple(_receipt_rows(reply)))]).splitlines()
        yield from reply.sql.splitlines()


def _receipt_rows(reply: LayerAnswer) -> Iterator[tuple[str, str]]:
    shown = ("sources", "having", "time", "policies", "parameters", "timing_ms")
    for name in shown:
        value = reply.receipt[name]
        if value:
            yield name, ", ".join(value) if isinstance(value, list) else json.dumps(value, ensure_ascii=False)
