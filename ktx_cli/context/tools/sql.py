"""The tool that asks a database: one read-only statement through the one guard, a bounded answer, errors as text."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from ktx_cli.connectors.port import QueryResult
from ktx_cli.context.semantic.model import Model
from ktx_cli.context.tools.calling import Input, Tool
from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.ledger import noted_ids, sources_of
from ktx_cli.context.tools.limits import LONGEST, RESERVE, Parts, joined
from ktx_cli.context.tools.relations import read_relations
from ktx_cli.context.tools.row_makers import rows_of_values
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.sql_names import Named, names_in
from ktx_cli.context.tools.sql_protection import check_protected, has_protected
from ktx_cli.context.tools.sql_values import refused_text, shown_values
from ktx_cli.context.tools.untrusted import wrapped
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import one_line, plural
from ktx_cli.llm.tools import ToolOutput

MOST_ROWS: Final = 1_000
SHOWN_ROWS: Final = 20


class Execute(Input):
    """What to ask."""

    connection: str | None = Field(None, description="The connection; needed where there are several.")
    sql: str = Field(min_length=1, max_length=20_000, description="One SELECT in the dialect of the connection.")
    row_limit: int = Field(100, ge=1, le=MOST_ROWS, description="Rows that are read at most; 20 are shown.")


def _execute(session: ToolSession, value: Execute) -> ToolOutput:
    connection = session.connection(value.connection)
    with session.lock:
        model = session.model(connection)
        relations = read_relations(session.workspace, connection) if has_protected(model) else None
    check_protected(model, value.sql, relations)
    made = None if session.privacy == "off" else rows_of_values(value.sql, model.dialect)
    if made is not None:
        raise Refused(
            f"`{made}` makes rows out of values, so that their number would tell a value, and scan.privacy is "
            f"{session.privacy}: count rows of tables; arguments in FROM, LIMIT and bounds of a recursion are constants"
        )
    named = names_in(value.sql, model.dialect)
    if session.run_sql is None:
        raise Refused(f"the database of `{connection}` cannot be asked here")
    try:
        result = session.run_sql(connection, value.sql, value.row_limit)
    except KtxError as error:
        if error.code == "cancelled":
            raise
        return ToolOutput(_failed(session, error, value.sql, model), {"success": False, "code": error.code})
    with session.lock:
        _note(session, model, named)
    return _answer(session, connection, value.sql, model.dialect, result)


def _answer(session: ToolSession, connection: str, sql: str, dialect: str, result: QueryResult) -> ToolOutput:
    rows, withheld = shown_values(result, sql, dialect, session.privacy)
    names = [one_line(name, 80).replace("|", "\\|") for name in result.columns]
    parts = Parts(LONGEST - 4 * RESERVE)
    parts.add(f"| {' | '.join(names)} |")
    parts.add(f"|{'---|' * len(names)}")
    for row in rows[:SHOWN_ROWS]:
        parts.add(f"| {' | '.join(row)} |")
    shown = max(0, parts.shown - 2)
    more = ", and there are more" if result.truncated else ""
    note = f"{plural(len(rows), 'row')} read{more}; {shown} shown." if rows else "No rows."
    if shown < min(len(rows), SHOWN_ROWS) or parts.shown < 2:
        note += " (cut: ask for fewer columns)"
    told = wrapped(parts.text(), f"rows of {connection}")
    reasons = Parts(RESERVE)
    for line in withheld:
        reasons.add(line)
    left = f"\n(and {reasons.left_out} more columns)" if reasons.left_out else ""
    return ToolOutput(
        joined(told, note, reasons.text() + left),
        {"success": True, "rows": len(rows), "columns": list(result.columns), "truncated": result.truncated},
    )


def _note(session: ToolSession, model: Model, named: Named | None) -> None:
    """Note the tables and columns a statement read without an error: they are there."""
    if named is None:
        return
    for table in named.tables:
        session.ledger.add(*noted_ids(model, table))
    for tables, column in named.columns:
        owners = [table for table in tables if any(each.column(column) for each in sources_of(model, table))]
        sure = owners or (list(tables) if len(tables) == 1 else [])
        for table in sure:
            session.ledger.add(*noted_ids(model, table, column))


def _failed(session: ToolSession, error: KtxError, sql: str, model: Model) -> str:
    names = [
        name for source in model.sources.values() for name in (source.name, *(source.table or ()), *source.columns)
    ]
    told = refused_text(error, sql, list(names), session.privacy)
    return f"The statement was not answered.\n\n{wrapped(told, 'the database')}"


TOOLS: Final = (
    Tool(
        "sql_execution",
        "Ask a database one read-only SELECT: to see that a table, column or join is as you think. Rows are bounded;"
        " where values of rows must stay on the machine, counts alone are told.",
        Execute,
        _execute,
        alone=False,
    ),
)
