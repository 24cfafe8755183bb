"""The tools that query a database: one read-only statement or pipeline through its guard, a bounded answer, errors as
text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from pydantic import Field

from ktx_cli.agent_tools.fence import LONGEST, RESERVE, Parts, joined, wrapped
from ktx_cli.agent_tools.ledger import noted_ids
from ktx_cli.agent_tools.session import Input, ToolSession, tool
from ktx_cli.core import KtxError, json_value, one_line, plural
from ktx_cli.faces import exp
from ktx_cli.llm import ToolOutput
from ktx_cli.privacy import ValueKind, refusal
from ktx_cli.project import Privacy
from ktx_cli.protection import (
    Named,
    Refused,
    check_collections,
    check_protected,
    has_protected,
    names_in,
    read_relations,
    sources_of,
)
from ktx_cli.semantic import Model
from ktx_cli.warehouses import (
    Dialect,
    PipelineRefusedError,
    QueryResult,
    StatementRefusedError,
    check_pipeline,
    dialect_named,
    driver_error_name,
    parse_pipeline,
    silence_parser,
)

SETS: Final = frozenset(
    (
        *("unnest", "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack"),
        *("arrayjoin", "flatten", "generate_series", "generate_subscripts", "regexp_matches", "regexp_split_to_table"),
        *("string_to_table", "split_to_table", "json_array_elements", "json_array_elements_text", "json_each"),
        *("json_each_text", "json_object_keys", "json_populate_recordset", "json_to_recordset", "json_tree"),
        *("jsonb_array_elements", "jsonb_array_elements_text", "jsonb_each", "jsonb_each_text", "jsonb_object_keys"),
        *("jsonb_path_query", "jsonb_path_query_tz", "jsonb_populate_recordset", "jsonb_to_recordset", "ts_parse"),
        *("ts_token_type", "ts_debug", "ts_stat", "aclexplode", "unpivot", "variant_explode", "json_tuple"),
    )
)
"""Functions that return several rows wherever they appear; in FROM, any function may."""


def rows_of_values(sql: str, dialect: str) -> str | None:
    """Return the part of a statement that generates as many rows as a value says, or None if there is none.

    Text that cannot be parsed generates none, because it is not run.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    silence_parser()
    try:
        trees = [tree for tree in sqlglot.parse(sql, read=dialect or None) if tree is not None]
        found = next((node for tree in trees for node in _makers(tree, dialect_named(dialect))), None)
        return None if found is None else one_line(found.sql(dialect or None), 80)
    except (SqlglotError, RecursionError, ValueError, LookupError, AttributeError, TypeError, AssertionError):
        return None


def _makers(tree: Any, syntax: Dialect) -> Iterator[Any]:
    for node in tree.walk():
        if isinstance(node, exp.Limit | exp.Offset | exp.Fetch):
            counts = (node.args.get(key) for key in ("expression", "offset", "count"))
            if not all(_is_constant(each) for each in counts if isinstance(each, exp.Expression)):
                yield node
        elif isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            continue  # a query, whose own parts come by themselves
        elif isinstance(node, exp.TableSample | exp.Lateral | exp.Unnest):
            if not _is_constant(node):
                yield node
        elif isinstance(node, exp.Table):
            if _is_made(node.this) or _is_path_of_another(node, syntax):
                yield node
        elif isinstance(node, exp.CTE):
            if _recurs(node) and not _is_bounded(node):
                yield node
        elif isinstance(node, exp.Connect) or (isinstance(node, exp.Join) and "ARRAY" in _words(node)):
            yield node
        elif isinstance(node, exp.TableFromRows | exp.JSONTable | exp.OpenJSON | exp.XMLTable):
            if not _is_constant(node):
                yield node
        elif isinstance(node, exp.Dot | exp.Column):
            if syntax.attributes_call and _names_a_set(node):
                yield node
        elif isinstance(node, exp.Func) and _gives_rows(node, syntax) and not _is_constant(node):
            yield node


def _words(join: Any) -> str:
    return " ".join(str(join.args.get(key) or "").upper() for key in ("kind", "side", "method"))


def _is_made(what: Any) -> bool:
    """Return whether a table expression is a function whose arguments are not all written in the statement."""
    return isinstance(what, exp.Func) and not _is_constant(what)


def _is_path_of_another(table: Any, syntax: Dialect) -> bool:
    """Whether a table is a list in a row of another table, which BigQuery writes as `FROM t, t.list`."""
    parts = [part.name.casefold() for part in table.parts]
    if not syntax.reads_lists_by_path or len(parts) < 2 or table.parent_select is None:
        return False
    others = (each for each in table.parent_select.find_all(exp.Table, exp.Subquery, exp.CTE) if each is not table)
    return parts[0] in {each.alias_or_name.casefold() for each in others}


def _names_a_set(node: Any) -> bool:
    """Whether Postgres may interpret `(value).unnest` or `row.unnest` as a call."""
    name = node.expression if isinstance(node, exp.Dot) else node.this if node.args.get("table") else None
    return isinstance(name, exp.Identifier) and name.name.casefold() in SETS


def _gives_rows(function: Any, syntax: Dialect) -> bool:
    if isinstance(function, exp.Explode | exp.Unnest | exp.Inline):
        return True
    if isinstance(function, exp.GenerateSeries):
        return not syntax.series_in_one_value
    if isinstance(function, exp.ExplodingGenerateSeries):
        return True
    names = (function.name,) if isinstance(function, exp.Anonymous) else function.sql_names()
    several = SETS - {"generate_series"} if syntax.series_in_one_value else SETS
    return any(name.casefold() in several for name in names)


def _is_constant(node: Any) -> bool:
    """Whether everything in a node except its alias is a constant in the statement."""
    alias = node.args.get("alias")
    own = {id(each) for each in alias.walk()} if isinstance(alias, exp.Expression) else set()
    read = exp.Column | exp.Query | exp.Parameter | exp.Placeholder | exp.Dot
    return not any(isinstance(each, read) for each in node.walk() if id(each) not in own)


def _recurs(cte: Any) -> bool:
    name = cte.alias.casefold()
    return any(each.name.casefold() == name and not each.args.get("db") for each in cte.this.find_all(exp.Table))


def _is_bounded(cte: Any) -> bool:
    """Whether a recursive query reads only itself: no table, and only its own columns."""
    name, body = cte.alias.casefold(), cte.this
    if any(each.name.casefold() != name for each in body.find_all(exp.Table)) or body.find(exp.Subquery):
        return False
    alias = cte.args.get("alias")
    own = {each.name.casefold() for each in (alias.args.get("columns") or ())}
    first = body.this if isinstance(body, exp.SetOperation) else body
    own |= {each.alias_or_name.casefold() for each in getattr(first, "selects", ())}
    aliases = {each.alias_or_name.casefold() for each in body.find_all(exp.Table)}
    columns = list(body.find_all(exp.Column))
    return all(c.name.casefold() in own and (not c.table or c.table.casefold() in aliases) for c in columns)


MOST_ROWS: Final = 1_000
SHOWN_ROWS: Final = 20


class Execute(Input):
    """The statement to run."""

    connection: str | None = Field(None, description="The connection; required if there are several.")
    sql: str = Field(min_length=1, max_length=20_000, description="One SELECT in the dialect of the connection.")
    row_limit: int = Field(100, ge=1, le=MOST_ROWS, description="Maximum number of rows to read; 20 are shown.")


@tool(alone=False)
def sql_execution(session: ToolSession, value: Execute) -> ToolOutput:
    """Run one read-only SELECT on a database, to check a table, a column or a join.

    The number of rows is limited. If row values must stay on this machine, only counts are returned.
    """
    connection = session.connection(value.connection)
    with session.lock:
        model = session.model(connection)
        relations = read_relations(session.workspace, connection) if has_protected(model) else None
    check_protected(model, value.sql, relations)
    made = None if session.privacy == "off" else rows_of_values(value.sql, model.dialect)
    if made is not None:
        raise Refused(
            f"`{made}` generates rows from values, so the row count would reveal a value, and scan.privacy is "
            f"{session.privacy}: count rows of tables, with constants in FROM, LIMIT and bounds of a recursion"
        )
    named = names_in(value.sql, model.dialect)
    if session.run_sql is None:
        raise Refused(f"the database of `{connection}` cannot be queried in this task")
    try:
        result = session.run_sql(connection, value.sql, value.row_limit)
    except KtxError as error:
        if error.code == "cancelled":
            raise
        return ToolOutput(_failed(session, error, value.sql, model), {"success": False, "code": error.code})
    with session.lock:
        _note(session, model, named)
    counts = count_columns(value.sql, model.dialect, len(result.columns))
    return _answer(session, connection, result, counts)


class Aggregate(Input):
    """The pipeline to run."""

    connection: str | None = Field(None, description="The connection; required if there are several.")
    collection: str = Field(min_length=1, max_length=500, description="The collection that the pipeline runs on.")
    pipeline: list[dict[str, Any]] = Field(
        max_length=50, description='Stages that only read, as Extended JSON: [{"$match": {...}}, {"$count": "n"}].'
    )
    row_limit: int = Field(100, ge=1, le=MOST_ROWS, description="Maximum number of results to read; 20 are shown.")


@tool(alone=False)
def mongo_query(session: ToolSession, value: Aggregate) -> ToolOutput:
    """Run one read-only aggregation pipeline on a MongoDB collection, for collections that are too large for SQL.

    The number of results is limited. If row values must stay on this machine, only counts are returned.
    """
    known = {each for each in session.pipelines if each in session.connections}
    only = next(iter(known)) if len(known) == 1 else None
    connection = session.connection(value.connection or only)
    if connection not in known or session.run_pipeline is None:
        raise Refused(f"the connection `{connection}` has no aggregation pipelines: use sql_execution")
    try:
        checked = check_pipeline(parse_pipeline(json.dumps(value.pipeline), connection), connection)
    except PipelineRefusedError as error:
        raise Refused("; ".join(filter(None, (error.message, error.hint)))) from None
    with session.lock:
        model = session.model(connection)
        relations = read_relations(session.workspace, connection) if has_protected(model) else None
    check_collections(model, value.collection, checked.reads, relations)
    if session.privacy != "off" and checked.multiplies:
        raise Refused(
            f"`{checked.multiplies}` turns values into results, so their number would reveal a value, and scan.privacy "
            f"is {session.privacy}: count documents without it"
        )
    try:
        result = session.run_pipeline(connection, value.collection, checked.pipeline, value.row_limit)
    except KtxError as error:
        if error.code == "cancelled":
            raise
        return ToolOutput(_failed(session, error, "", model), {"success": False, "code": error.code})
    counts = frozenset(place for place, name in enumerate(result.columns) if name in checked.counted)
    return _answer(session, connection, result, counts)


def _answer(session: ToolSession, connection: str, result: QueryResult, counts: frozenset[int]) -> ToolOutput:
    rows, hidden = shown_values(result, counts, session.privacy)
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
        note += " (cut: request fewer columns)"
    table = wrapped(parts.text(), f"rows of {connection}")
    reasons = Parts(RESERVE)
    for line in hidden:
        reasons.add(line)
    left = f"\n(and {reasons.left_out} more columns)" if reasons.left_out else ""
    return ToolOutput(
        joined(table, note, reasons.text() + left),
        {"success": True, "rows": len(rows), "columns": list(result.columns), "truncated": result.truncated},
    )


def _note(session: ToolSession, model: Model, named: Named | None) -> None:
    """Record the tables and columns that a statement read without an error, which proves that they exist."""
    if named is None:
        return
    for table in named.tables:
        session.ledger.add(*noted_ids(model, table))
    for tables, column in named.columns:
        owners = [table for table in tables if any(each.column(column) for each in sources_of(model, table))]
        for table in owners or (list(tables) if len(tables) == 1 else []):
            session.ledger.add(*noted_ids(model, table, column))


def _failed(session: ToolSession, error: KtxError, sql: str, model: Model) -> str:
    names = [
        name for source in model.sources.values() for name in (source.name, *(source.table or ()), *source.columns)
    ]
    reason = refused_text(error, sql, model.dialect, list(names), session.privacy)
    what = "statement" if sql else "pipeline"
    return f"The {what} failed.\n\n{wrapped(reason, 'the database')}"


TOOLS: Final = (sql_execution, mongo_query)


LONGEST_VALUE: Final = 120
_QUOTED: Final = re.compile(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"|`([^`]*)`|“([^”]*)”")


def shown_values(result: QueryResult, counts: frozenset[int], privacy: Privacy) -> tuple[list[list[str]], list[str]]:
    """Return the rows as text, and a line for each column whose values are hidden.

    `counts`: the positions of columns that contain only counts. Only these are shown, unless `scan.privacy` is `off`,
    which shows everything but personal data.
    """
    columns = list(zip(*result.rows, strict=True)) if result.rows else [() for _ in result.columns]
    reasons = [
        "" if place in counts else _reason(name, values, privacy)
        for place, (name, values) in enumerate(zip(result.columns, columns, strict=True))
    ]
    rows = [
        [_shown(value) if not why else _masked(value) for value, why in zip(row, reasons, strict=True)]
        for row in result.rows
    ]
    return rows, [f"- {name}: hidden, {why}" for name, why in zip(result.columns, reasons, strict=True) if why]


def count_columns(sql: str, dialect: str, width: int) -> frozenset[int]:
    """Return the positions of an answer's columns that contain only counts and figures computed from counts."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    silence_parser()
    try:
        tree = sqlglot.parse_one(sql, read=dialect or None)
    except (SqlglotError, RecursionError, ValueError, LookupError, AttributeError, TypeError):
        return frozenset()
    if not isinstance(tree, exp.Select) or len(tree.selects) != width or any(map(_may_be_none, tree.selects)):
        return frozenset()
    return frozenset(place for place, each in enumerate(tree.selects) if _counts(each.unalias()))


def _may_be_none(selected: Any) -> bool:
    """Whether a selected expression may stand for no column at all, which shifts the columns after it."""
    stars = (each for each in selected.find_all(exp.Star) if not isinstance(each.parent, exp.Count))
    return any(stars) or selected.find(exp.Columns) is not None


def _counts(node: Any) -> bool:
    """Whether an expression contains only counts, and numbers written in the statement."""
    if isinstance(node, exp.Count | exp.CountIf | exp.Literal) and not getattr(node, "is_string", False):
        return True
    if isinstance(node, exp.Sum | exp.Avg):
        return _is_flag(node.this)
    if isinstance(node, exp.Filter | exp.Paren | exp.Cast | exp.Neg):
        return _counts(node.this)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Nullif | exp.Coalesce | exp.Round):
        return all(_counts(each) for each in node.args.values() if isinstance(each, exp.Expression)) and all(
            _counts(each) for each in node.expressions
        )
    return False


def _is_flag(node: Any) -> bool:
    """Whether an expression is 0, 1 or NULL whatever its conditions are, so that its sum is a count of rows."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Case):
        branches = [each.args.get("true") for each in node.args.get("ifs") or ()]
        return all(map(_is_bit, [*branches, node.args.get("default")]))
    return isinstance(node, exp.If) and _is_bit(node.args.get("true")) and _is_bit(node.args.get("false"))


def _is_bit(node: Any) -> bool:
    is_number = isinstance(node, exp.Literal) and not node.is_string and node.this in ("0", "1", "0.0", "1.0")
    return node is None or isinstance(node, exp.Null) or is_number


def error_text(message: str, sql: str, names: Iterable[str], privacy: Privacy) -> str:
    """Return the text of a statement error for a model, without quoted values; names and words of the statement remain.

    Use `refused_text` for errors about rows, in which the start of a value cannot be determined.
    """
    flat = "\n".join(one_line(line, 1_000) for line in message.split("\n"))
    known = sql.casefold()
    plain = {name.casefold() for name in names}
    for found in _QUOTED.finditer(flat):
        text = next(group for group in found.groups() if group is not None)
        if text.casefold() not in known and text.casefold() not in plain:
            return f"{flat[: found.start()]}… (the rest may contain {_kept(privacy)})"
    return flat


def refused_text(error: KtxError, sql: str, dialect: str, names: Iterable[str], privacy: Privacy) -> str:
    """Return the text about a refused statement for a model.

    It contains only the parts of a driver's error that concern the statement itself, whatever values may be shown:
    casting a value to a number would otherwise reveal any column, including personal data, in the error message.
    """
    driver = error.__cause__
    text = "\nhint: ".join(filter(None, (one_line(error.message, 1_000), error.hint)))
    if isinstance(error, StatementRefusedError):
        return text
    if driver is None:
        return error_text(text, sql, names, privacy)
    if dialect_named(dialect).is_statement_error(driver, sql):
        return text
    return f"the database refused it with {driver_error_name(driver)} (its message may contain {_kept(privacy)})"


def _kept(privacy: Privacy) -> str:
    """Return what an error must not reveal."""
    if privacy == "off":
        return "row values, including personal data, which are never shown"
    return f"row values: scan.privacy is {privacy}"


def _reason(name: str, values: Sequence[Any], privacy: Privacy) -> str:
    if privacy != "off":
        return f"scan.privacy is {privacy}: row values stay on this machine; ask for counts"
    for key, leaves in _leaves(name, values).items():
        present = [value for value in leaves if value is not None]
        # MongoDB's `_id` is what a pipeline groups by, so its name tells nothing.
        found = refusal("", "" if key == "_id" else key, _kind(present), _hashable(present))
        if found is not None and found.personal:
            return f"it looks like personal data: {found}"
    return ""


def _leaves(name: str, values: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the values of a column, and those nested in them, by the last name that leads to them."""
    found: dict[str, list[Any]] = {name: []}
    waiting = [(name, value) for value in values]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list | tuple):
            waiting += ((key, each) for each in value)
        else:
            found.setdefault(key, []).append(value)
    return found


def _hashable(values: Iterable[Any]) -> list[Any]:
    return [value if isinstance(value, str | int | float | bool | Decimal) else str(value) for value in values]


def _kind(values: Sequence[Any]) -> ValueKind:
    kinds = {_kind_of(value) for value in values}
    return kinds.pop() if len(kinds) == 1 else ValueKind.MIXED if kinds else ValueKind.EMPTY


def _kind_of(value: Any) -> ValueKind:
    if isinstance(value, bool):
        return ValueKind.BOOLEAN
    if isinstance(value, int):
        return ValueKind.INTEGER
    if isinstance(value, float | Decimal):
        return ValueKind.NUMBER
    return ValueKind.TIME if isinstance(value, date | datetime) else ValueKind.TEXT


def _shown(value: Any) -> str:
    plain = json_value(value)
    return "NULL" if plain is None else one_line(str(plain), LONGEST_VALUE).replace("|", "\\|")


def _masked(value: Any) -> str:
    return "NULL" if value is None else f"({_kind_of(value).value})"
