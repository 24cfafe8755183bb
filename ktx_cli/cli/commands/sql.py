"""`ktx sql` and `ktx mongo-query`: one read-only statement or aggregation pipeline on a database."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from ktx_cli.cli.blocks import Block, Lines, RowFormat, as_lines, as_table
from ktx_cli.cli.commands.completion import connection_option
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.settings import EXPANDED, current_folder
from ktx_cli.cli.streams import STDIN, text_of
from ktx_cli.core import Command, Hint, Placeholder, ResultWarning, UsageError

if TYPE_CHECKING:
    from ktx_cli.jobs.semantic.sql import PipelineAnswer, SqlAnswer

commands = typer.Typer()


@command(commands, "sql")
def sql(
    session: Session,
    statement: Annotated[
        str | None, Argument(metavar="SQL", help="A single read-only statement, or `-` to read it from stdin.")
    ] = None,
    connection: Annotated[
        str | None, connection_option("Database to query. Optional if the project has only one.")
    ] = None,
    file: Annotated[
        str | None,
        Option("--file", "-f", metavar="FILE", help="Read the statement from a file, or from stdin with `-`."),
    ] = None,
    max_rows: Annotated[int, Option("--max-rows", min=1, max=100_000, help="Maximum number of rows to print.")] = 1000,
    form: Annotated[RowFormat, Option("--format", help="Output format. --json takes precedence.")] = RowFormat.TABLE,
    expanded: EXPANDED = False,
) -> Result:
    """Run one read-only SQL statement and print its rows.

    ktx parses the statement before it sends it, and refuses anything but a single query whose functions have no side
    effects. The session on the database is read-only as well.

    `-c _ktx_federated` joins tables of several databases. Their names begin with the id of their connection, and the
    dialect is DuckDB's.

    Examples:
        ktx sql "SELECT count(*) FROM shop.orders"
        ktx sql --format csv -c _ktx_federated "SELECT * FROM warehouse.shop.regions"
        ktx sql --file monthly.sql --max-rows 50
    """
    session.require_project()
    text = _statement(statement, file)
    return session.run_at(
        connection,
        lambda session, connection: _answered(
            session, text, connection, max_rows=max_rows, form=form, expanded=expanded
        ),
        asks="database",
    )


def _answered(
    session: Session, text: str, connection: str | None, *, max_rows: int, form: RowFormat, expanded: bool
) -> Result:
    from ktx_cli.jobs.semantic.sql import run_sql

    layout, config = session.load_project(with_mounts=True)
    answer = run_sql(
        layout,
        config,
        text,
        environ=os.environ,
        connection=connection,
        max_rows=max_rows,
        formats=not session.settings.json and form is not RowFormat.JSONL,
    )
    answer = replace(answer, connection=session.qualified(answer.connection))
    _warn_when_cut(
        session,
        answer,
        narrow="narrow the statement",
        shorten="select fewer columns, or shorten long strings with substr()",
    )
    notes = ["note: " + each for each in answer.notes]
    if form is RowFormat.TABLE or session.settings.json:
        return Result(answer.to_json(), [_shown(answer, expanded)], notes=notes)
    return Result(answer.to_json(), text=as_lines(form, answer.columns, answer.rows, answer.formats), notes=notes)


@command(commands, "mongo-query")
def mongo_query(
    session: Session,
    collection: Annotated[
        str,
        Argument(metavar="COLLECTION", help="The collection, with its database if there are several: `shop.orders`."),
    ],
    pipeline: Annotated[
        str | None,
        Argument(metavar="PIPELINE", help="A list of stages as Extended JSON, or `-` to read it from stdin."),
    ] = None,
    connection: Annotated[
        str | None, connection_option("MongoDB connection to query. Optional if the project has only one.")
    ] = None,
    file: Annotated[
        str | None,
        Option("--file", "-f", metavar="FILE", help="Read the pipeline from a file, or from stdin with `-`."),
    ] = None,
    max_rows: Annotated[int, Option("--max-rows", min=1, max=100_000, help="Maximum number of rows to print.")] = 1000,
    form: Annotated[RowFormat, Option("--format", help="Output format. --json takes precedence.")] = RowFormat.TABLE,
    expanded: EXPANDED = False,
) -> Result:
    """Run one read-only aggregation pipeline on a MongoDB collection and print its results.

    ktx refuses every stage and operator that is not known to only read before it sends anything. MongoDB computes the
    results, so a collection may be larger than the limit of `ktx sql`.

    Examples:
        ktx mongo-query orders '[{"$sortByCount": "$status"}]'
        ktx mongo-query orders '[{"$count": "n"}]' --format csv
        ktx mongo-query orders --file monthly.json --max-rows 50
    """
    session.require_project()
    text = _pipeline(pipeline, file)
    return session.run_at(
        connection,
        lambda session, connection: _aggregated(
            session, collection, text, connection, max_rows=max_rows, form=form, expanded=expanded
        ),
        asks="database",
    )


def _aggregated(
    session: Session,
    collection: str,
    text: str,
    connection: str | None,
    *,
    max_rows: int,
    form: RowFormat,
    expanded: bool,
) -> Result:
    from ktx_cli.jobs.semantic.sql import prepare_pipeline, run_pipeline

    layout, config = session.load_project(with_mounts=True)
    prepared = prepare_pipeline(layout, config, collection, text, connection)
    formats = not session.settings.json and form is not RowFormat.JSONL
    answer = run_pipeline(layout, config, prepared, environ=os.environ, max_rows=max_rows, formats=formats)
    answer = replace(answer, connection=session.qualified(answer.connection))
    _warn_when_cut(session, answer, narrow="narrow the pipeline", shorten="keep fewer fields with $project")
    if form is RowFormat.TABLE or session.settings.json:
        return Result(answer.to_json(), [as_table(answer.columns, answer.rows, answer.formats, expanded=expanded)])
    return Result(answer.to_json(), text=as_lines(form, answer.columns, answer.rows, answer.formats))


def _pipeline(pipeline: str | None, file: str | None) -> str:
    if (pipeline is None) == (file is None):
        problem = "a pipeline is required" if file is None else "a pipeline and --file cannot be used together"
        example = Command("mongo-query", "orders", Placeholder("""'[{"$count": "n"}]'"""))
        raise UsageError(problem, hint=Hint("for example: {}", example))
    if pipeline is not None and pipeline != STDIN:
        return pipeline
    name = "stdin" if STDIN in (pipeline, file) else str(current_folder() / str(file))
    return text_of(
        file or STDIN, name=name, too_large="shorten the pipeline", unread="check --file", what="the pipeline"
    )


def _shown(answer: SqlAnswer, expanded: bool) -> Block:
    """Return a query plan as lines, because a table would lose their indentation, and other rows as a table."""
    texts = [str(row[-1]) for row in answer.rows] if answer.explains else []
    if any(text.startswith(" ") or "\n" in text for text in texts):
        return Lines(tuple(line for text in texts for line in text.splitlines()), whole=True)
    return as_table(answer.columns, answer.rows, answer.formats, expanded=expanded)


def _statement(statement: str | None, file: str | None) -> str:
    if (statement is None) == (file is None):
        problem = "a statement is required" if file is None else "a statement and --file cannot be used together"
        example = Command("sql", Placeholder('"SELECT count(*) FROM orders"'))
        raise UsageError(problem, hint=Hint("for example: {}", example))
    if statement is not None and statement != STDIN:
        return statement
    name = "stdin" if STDIN in (statement, file) else str(current_folder() / str(file))
    return text_of(
        file or STDIN, name=name, too_large="shorten the statement", unread="check --file", what="the statement"
    )


def _warn_when_cut(session: Session, answer: SqlAnswer | PipelineAnswer, *, narrow: str, shorten: str) -> None:
    count = f"{len(answer.rows):,}"
    if answer.cut == "rows":
        hint = Hint("raise --max-rows, or {}", narrow)
        session.warn(ResultWarning("truncated", f"only the first {count} rows are shown", hint=hint))
    elif answer.cut == "bytes":
        message = f"only the first {count} rows are shown: row {len(answer.rows) + 1:,} did not fit"
        session.warn(ResultWarning("truncated", message, hint=shorten))
