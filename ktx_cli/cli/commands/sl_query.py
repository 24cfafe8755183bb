"""`ktx sl query` and `ktx sl explain`: query the semantic layer from the command line."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer import Argument, Option

from ktx_cli.cli.blocks import Block, Fields, Lines, RowFormat, Table, as_lines, as_table, render_plain
from ktx_cli.cli.commands.completion import connection_option, dimension_names, measure_names, segment_names
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.settings import EXPANDED
from ktx_cli.cli.streams import STDIN, text_of
from ktx_cli.core import Command, KtxError, ResultWarning, UsageError, plural

if TYPE_CHECKING:
    from ktx_cli.jobs.semantic.explain import Explained
    from ktx_cli.jobs.semantic.question import LayerAnswer, Question
    from ktx_cli.jobs.semantic.save import SavePlan
    from ktx_cli.project import KtxConfig, Layout

commands = typer.Typer()


class LeastStatus(StrEnum):
    """The status of a definition, lowest first."""

    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    CERTIFIED = "certified"


EXAMPLE: Final = Command("sl", "query", "--measure", "orders.revenue", "--dimension", "customers.country")


def question_of(values: Mapping[str, Any]) -> Question:
    """Return the question in the options; they extend the JSON query, and replace its single values."""
    query = _json_query(values["text"], values["file"])
    named = query.pop("connection", None)  # a draft of `ktx pack` has it, as the tool of the server takes it
    if named is not None and not isinstance(named, str):
        raise UsageError("`connection` of the query is not a string", hint=EXAMPLE)
    for key, added in _lists(values).items():
        query[key] = [*_list(query, key), *added]
    query.update(_single(values))
    span = {"start": values["start"], "end": values["end"], "last": values["last"], "field": values["time_field"]}
    if given := {key: value for key, value in span.items() if value is not None}:
        query["time_range"] = {**_object(query, "time_range"), **given}
    if values["via"]:
        query["via"] = {**_object(query, "via"), **_pairs(values["via"], "--via", "regions=bill_to")}
    if not query:
        raise UsageError("the query has neither a measure nor a dimension", hint=EXAMPLE)
    from ktx_cli.jobs.semantic.question import Question, read_attributes
    from ktx_cli.semantic import Caller

    parameters = _pairs(values["parameter"], "--parameter", "currency=EUR")
    caller = Caller.of(read_attributes(values["user_attribute"]))
    least = values["min_status"]
    connection = values["connection"] or named
    return Question(query, connection, values["grain"], parameters, caller, least=least and least.value)


def _lists(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    found = {
        "measures": _measures(values["measure"], values["name"]),
        "dimensions": [_dimension(each) for each in values["dimension"] or ()],
        "filters": values["filter"],
        "segments": values["segment"],
        "having": values["having"],
        "order_by": values["order_by"],
    }
    return {key: list(each) for key, each in found.items() if each}


def _measures(texts: Sequence[str] | None, names: Sequence[str] | None) -> Sequence[Any]:
    """Return the measures with the names of `--as`, which must be as many and in the same order."""
    if not names:
        return texts or ()
    if len(names) != len(texts or ()):
        times = f"--as is given {plural(len(names), 'time')}, and --measure {plural(len(texts or ()), 'time')}"
        hint = 'give one --as for each --measure, or name a single one: -m "sum(orders.amount) as revenue"'
        raise UsageError(times, hint=hint)
    return [{"expr": text, "name": name} for text, name in zip(texts or (), names, strict=True)]


def _single(values: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: values[key] for key in ("limit", "offset", "include_empty", "timezone")}
    found["comparison"] = None if values["compare"] is None else {"offset": values["compare"]}
    found |= {key: True for key in ("totals", "fill") if values[key]}
    return {key: value for key, value in found.items() if value is not None}


def _dimension(text: str) -> Any:
    from ktx_cli.semantic import with_grain

    field, grain = with_grain(text)
    return text if grain is None else {"field": field, "granularity": grain}


def _list(query: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = query.get(key)
    if value is not None and not isinstance(value, list):
        raise UsageError(f"`{key}` of the query must be a list", hint=f'"{key}": [...]')
    return value or ()


def _object(query: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = query.get(key)
    if value is not None and not isinstance(value, dict):
        raise UsageError(f"`{key}` of the query must be an object", hint=f'"{key}": {{...}}')
    return value or {}


def _pairs(texts: Sequence[str] | None, option: str, example: str) -> dict[str, str]:
    found = {}
    for text in texts or ():
        name, equal, value = text.partition("=")
        if not equal or not name.strip():
            raise UsageError(f"{option} requires NAME=VALUE, not `{text}`", hint=f"{option} {example}")
        if name.strip() in found:
            raise UsageError(f"{option} is given twice for `{name.strip()}`", hint="remove one of them")
        found[name.strip()] = value
    return found


def _json_query(text: str | None, file: str | None) -> dict[str, Any]:
    if text is not None and file is not None:
        raise UsageError("a JSON query and --query-file cannot be used together", hint="remove one of them")
    if text is None and file is None:
        return {}
    where = "the query" if file is None and text != "-" else "stdin" if "-" in (text, file) else str(file)
    if file is not None or text == STDIN:
        hints = {"too_large": "shorten the query", "unread": "check --query-file"}
        text = text_of(file or STDIN, name=where, what="the query", **hints)
    try:
        query = json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not valid JSON: {error}", hint='{"measures": ["orders.revenue"]}') from error
    if not isinstance(query, dict):
        raise UsageError(f"{where} is not a JSON object", hint='{"measures": ["orders.revenue"]}')
    return query


Connection = Annotated[
    str | None, connection_option("Database of the semantic layer. Optional if the project has only one.")
]
Internal = Annotated[bool, Option("--internal", help="Also show internal definitions.")]
UserAttributes = Annotated[
    list[str] | None,
    Option(
        "--user-attribute",
        metavar="NAME=TEXT",
        help="Attribute of the caller, used by row policies and masks: NAME=TEXT or NAME:=JSON. Can be repeated.",
    ),
]


def _option(
    kind: Any, *names: str, help: str, default: Any = None, metavar: str | None = None, **more: Any
) -> tuple[Any, Any]:
    """Return the annotation of an option, and its default."""
    return Annotated[kind, Option(*names, help=help, metavar=metavar, show_default=False, **more)], default


def _repeated(*names: str, help: str, metavar: str, **more: Any) -> tuple[Any, Any]:
    return _option(list[str] | None, *names, help=f"{help} Can be repeated.", metavar=metavar, **more)


OPTIONS: Final[Mapping[str, tuple[Any, Any]]] = {
    "text": (
        Annotated[str | None, Argument(metavar="JSON", help="Query as JSON, or `-` to read it from stdin.")],
        None,
    ),
    "connection": (Connection, None),
    "file": _option(
        str | None, "--query-file", help="Read the query as JSON from a file, or from stdin with `-`.", metavar="FILE"
    ),
    "measure": _repeated(
        *("--measure", "-m"),
        help='Measure to query, or an expression, for example "sum(orders.amount) as revenue".',
        metavar="MEASURE",
        autocompletion=measure_names,
    ),
    "name": _repeated(
        "--as",
        help="Column name of the measure; if there are several, in their order, for example --as revenue.",
        metavar="NAME",
    ),
    "dimension": _repeated(
        *("--dimension", "-d"),
        help="Column to group by, for example orders.ordered_at:month.",
        metavar="COLUMN[:GRAIN]",
        autocompletion=dimension_names,
    ),
    "filter": _repeated(
        "--filter", help="Condition on rows, or on results, for example \"orders.status = 'paid'\".", metavar="SQL"
    ),
    "segment": _repeated(
        "--segment", help="Only include the rows of this segment.", metavar="SEGMENT", autocompletion=segment_names
    ),
    "having": _repeated("--having", help="Condition on results.", metavar="SQL"),
    "order_by": _repeated(
        "--order-by",
        help="Column of the result to sort by, by name or position, for example 1:desc.",
        metavar="COLUMN[:asc|desc]",
    ),
    "limit": _option(
        int | None, "--limit", "--max-rows", help="Maximum number of rows. Defaults to 1000.", min=0, max=100_000
    ),
    "offset": _option(int | None, "--offset", help="Number of rows to skip.", min=0),
    "include_empty": _option(
        bool | None,
        "--include-empty/--no-include-empty",
        help="Include dimension values without matching rows. On by default if all dimensions come from one source.",
    ),
    "grain": _option(
        str | None, "--grain", help="Truncate time dimensions to day, week, month, quarter or year.", metavar="GRAIN"
    ),
    "start": _option(
        str | None, "--from", help="Start of the period, inclusive, for example 2026-01-31.", metavar="WHEN"
    ),
    "end": _option(str | None, "--to", help="End of the period, exclusive.", metavar="WHEN"),
    "last": _option(
        str | None, "--last", help='Only include the most recent period, for example "30 days" or 30d.', metavar="SPAN"
    ),
    "time_field": _option(
        str | None,
        "--time-field",
        help="Column that --from, --to and --last apply to. Defaults to the time dimension, or to the time column of "
        "each fact.",
        metavar="COLUMN",
        autocompletion=dimension_names,
    ),
    "compare": _option(
        str | None,
        "--compare",
        help='Compare with an earlier period: a span such as "1 year", or previous_period.',
        metavar="SPAN",
    ),
    "totals": _option(bool, "--totals", help="Add a grand total row.", default=False),
    "fill": _option(
        bool, "--fill", help="Add rows for periods without data between the first and the last.", default=False
    ),
    "via": _repeated(
        "--via",
        help="Choose one of several join paths to a source, for example regions=ship_to.",
        metavar="TARGET=JOIN",
    ),
    "parameter": _repeated("--parameter", help="Set a parameter.", metavar="NAME=VALUE"),
    "user_attribute": (UserAttributes, None),
    "timezone": _option(
        str | None,
        "--timezone",
        help="Time zone of days and longer periods, for example Europe/Berlin.",
        metavar="ZONE",
    ),
    "min_status": _option(
        LeastStatus | None,
        "--min-status",
        help="Refuse to use definitions below this status. Defaults to semantic.min_status.",
    ),
}
"""Name -> annotation and default of the options that define a question, for both commands."""


def with_question(
    more: Mapping[str, tuple[Any, Any]] | None = None,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Make a command of a function `(session, question, **more)`, with the options of a question as its parameters."""
    options = {**OPTIONS, **(more or {})}

    def changed(function: Callable[..., Result]) -> Callable[..., Result]:
        def run(session: Session, **values: Any) -> Result:
            own = {name: values.pop(name) for name in more or {}}
            return function(session, question_of(values), **own)

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter("session", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Session)]
        parameters += [
            inspect.Parameter(name, keyword, annotation=annotation, default=default)
            for name, (annotation, default) in options.items()
        ]
        run.__doc__ = function.__doc__
        run.__signature__ = inspect.Signature(parameters, return_annotation=Result)  # type: ignore[attr-defined]
        return run

    return changed


class AnswerFormat(StrEnum):
    """The format of an answer."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    SQL = "sql"


class SaveAs(StrEnum):
    """What --save makes of a question."""

    MEASURE = "measure"
    QUESTION = "question"


_TOTAL: Final = "total"

_QUERY_OPTIONS: Final[Mapping[str, tuple[Any, Any]]] = {
    "execute": (Annotated[bool, Option("--execute/--no-execute", help="Run the query, or only compile it.")], True),
    "form": (
        Annotated[
            AnswerFormat,
            Option("--format", help="Output format; sql prints the query without running it. --json takes precedence."),
        ],
        AnswerFormat.TABLE,
    ),
    "verify": _option(
        bool | None,
        "--verify/--no-verify",
        help="Recompute all rows of the result from raw rows, or none, and exit 1 if a value differs. By default, ktx "
        "recomputes a sample if the query has a running, windowed, earlier or compared value.",
    ),
    "receipt": (
        Annotated[bool, Option("--receipt", help="Print the whole receipt. --json always includes it.")],
        False,
    ),
    "expanded": (EXPANDED, False),
    "save": _option(
        str | None,
        "--save",
        help="Save the query under this name: a single expression without dimensions as a measure of its source, any "
        "other query as a golden question in evals/.",
        metavar="NAME",
    ),
    "save_as": _option(SaveAs | None, "--save-as", help="Choose what --save writes: a measure or a golden question."),
    "description": _option(
        str | None,
        "--description",
        help="Description of the measure that --save writes, or the golden question in words.",
        metavar="TEXT",
    ),
}


@command(commands, "query", schema="sl-query")
@with_question(_QUERY_OPTIONS)
def query(
    session: Session,
    question: Question,
    *,
    execute: bool,
    form: AnswerFormat,
    verify: bool | None,
    expanded: bool,
    receipt: bool,
    save: str | None,
    save_as: SaveAs | None,
    description: str | None,
) -> Result:
    """Query measures by dimensions, filters and periods.

    The answer has a receipt: the rows it was computed from, and the joins that were used.

    Examples:
        ktx sl query -m order_revenue.net_revenue -d customer_value.segment --totals
        ktx sl query -m orders.order_count -d ordered.full_date:month --last "2 years"
        ktx sl query -m "count(refunds) as n" -d refunds.reason --save refund_reasons
    """
    compiles = not execute or form is AnswerFormat.SQL
    if compiles and verify:
        raise UsageError("--verify requires a result", hint="omit --no-execute and --format sql")
    if compiles and save is not None:
        raise UsageError("--save requires a result", hint="omit --no-execute and --format sql")
    if save is None and save_as is not None:
        raise UsageError("--save-as requires --save", hint=f"--save NAME --save-as {save_as.value}")
    if save is None and description is not None:
        raise UsageError("--description requires --save", hint="--save NAME --description TEXT")

    def run(session: Session, connection: str | None) -> Result:
        asked = replace(question, connection=connection)
        if compiles:
            return _compiled(session, asked, form)
        keep = None if save is None else (save, save_as, description)
        return _answered(session, asked, form=form, verify=verify, receipt=receipt, expanded=expanded, keep=keep)

    return session.run_at(question.connection, run)


def _answered(
    session: Session,
    question: Question,
    *,
    form: AnswerFormat,
    verify: bool | None,
    receipt: bool,
    expanded: bool,
    keep: tuple[str, SaveAs | None, str | None] | None,
) -> Result:
    from ktx_cli.jobs.semantic.question import ask_layer

    layout, config = session.load_project(with_mounts=True)
    printed = not session.settings.json and form is not AnswerFormat.JSON
    asked = replace(question, verified=verify)
    plan = None if keep is None else _plan_of(session, layout, config, asked, keep)
    reply = ask_layer(layout, config, asked, environ=os.environ, suggest=True, formats=printed)
    saved = None
    if plan is not None and reply.error() is None:
        from ktx_cli.jobs.semantic.save import save

        saved = save(layout, config, plan, reply, os.environ).saved
    reply = replace(reply, connection=session.qualified(reply.connection))
    session.warn(*reply.warnings)
    _warn_when_cut(session, reply, limited=question.query.get("limit") is not None)
    data = reply.to_json() | ({} if saved is None else {"saved": saved.to_json()})
    steps = () if saved is None else (saved.next_step,)
    if session.settings.json:
        return Result(data, error=reply.error(), next_steps=steps)
    notes = (*_notes(reply, form, receipt), *([] if saved is None else [str(saved)]))
    if form is AnswerFormat.TABLE:
        return Result(data, [_table(reply, expanded)], reply.error(), steps, notes=notes)
    return Result(data, error=reply.error(), next_steps=steps, text=_text(reply, form), notes=notes)


def _plan_of(
    session: Session, layout: Layout, config: KtxConfig, question: Question, keep: tuple[str, SaveAs | None, str | None]
) -> SavePlan:
    """Return how a question would be saved, before it is asked."""
    from ktx_cli.jobs.semantic.save import SavedKind, plan_save

    if session.mount is not None:
        message = f"--save does not write into the mounted project `{session.mount.name}`"
        raise UsageError(message, hint="run the command in that project")
    name, wanted, description = keep
    kind = None if wanted is None else SavedKind(wanted.value)
    return plan_save(layout, config, question, name, kind, description)


@command(commands, "explain", schema="sl-explain")
@with_question()
def explain(session: Session, question: Question) -> Result:
    """Explain how a query would be answered.

    Prints the facts, joins, conditions and SQL. Takes the same options as `ktx sl query`, and does not connect to the
    database.

    Examples:
        ktx sl explain -m order_revenue.net_revenue -d customer_value.segment
        ktx sl explain -m orders.order_count -d ship_to.regions.region_name
    """
    return session.run_at(
        question.connection, lambda session, connection: _explained(session, replace(question, connection=connection))
    )


def _explained(session: Session, question: Question) -> Result:
    from ktx_cli.jobs.semantic.explain import choices_of, explain_question

    layout, config = session.load_project(with_mounts=True)
    try:
        explained = explain_question(layout, config, question)
    except KtxError as error:
        choices = tuple(choices_of(error.details))
        return Result(blocks=[Table(("choice", "means"), choices)] if choices else (), error=error)
    explained = replace(explained, connection=session.qualified(explained.connection))
    return Result(explained.to_json(), _explained_blocks(explained))


def _compiled(session: Session, question: Question, form: AnswerFormat) -> Result:
    """Return only the statement, as the JSON output for an answer without rows."""
    from ktx_cli.jobs.semantic.explain import explain_question

    layout, config = session.load_project(with_mounts=True)
    explained = explain_question(layout, config, question)
    data = {
        "connection": session.qualified(explained.connection),
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
    return Result(data, [Lines(tuple(text.splitlines()), whole=True)])


def _explained_blocks(explained: Explained) -> list[Block]:
    columns = tuple((each["name"], each["kind"], str(each["of"])) for each in explained.columns)
    sql = Lines(("", *explained.sql.splitlines()), whole=True)
    return [Table(("column", "kind", "of"), columns), Lines(tuple(explained.steps())), sql]


def _warn_when_cut(session: Session, reply: LayerAnswer, *, limited: bool) -> None:
    """Warn that rows are missing, unless the user asked for that limit (`limited`)."""
    if reply.cut is None or (reply.cut == "rows" and limited):
        return
    why, hint = {
        "rows": ("", "raise --limit, or page through the rows with --offset"),
        "bytes": (": the result is too large", "select fewer columns"),
    }[reply.cut]
    session.warn(ResultWarning("truncated", f"only the first {len(reply.rows):,} rows are shown{why}", hint=hint))


def _text(reply: LayerAnswer, form: AnswerFormat) -> str:
    if form is AnswerFormat.CSV:
        return as_lines(RowFormat.CSV, reply.columns, reply.rows, reply.formats)
    return json.dumps(reply.to_json(), ensure_ascii=False, indent=2) + "\n"


def _table(reply: LayerAnswer, expanded: bool) -> Table:
    table = as_table(reply.columns, reply.rows, reply.formats, expanded=expanded)
    if reply.totals is None:
        return table
    before = len(reply.columns) - len(reply.totals)
    label = [_TOTAL, *[""] * (before - 1)][:before]
    formats = (*[None] * before, *reply.formats[before:])
    row = as_table(reply.columns, [(*label, *reply.totals.values())], formats).rows[0]
    return replace(table, rows=(*table.rows, row))


def _notes(reply: LayerAnswer, form: AnswerFormat, receipt: bool) -> Iterator[str]:
    """Yield the notes that accompany an answer's rows."""
    from ktx_cli.jobs.semantic.explain import fact_lines, verification_lines

    if reply.totals is not None and form is AnswerFormat.CSV:
        shown = as_table(list(reply.totals), [list(reply.totals.values())], reply.formats[-len(reply.totals) :]).rows[0]
        yield f"totals: {', '.join(f'{name} = {value}' for name, value in zip(reply.totals, shown, strict=True))}"
    yield from fact_lines(reply.receipt)
    yield from ("note: " + each for each in reply.receipt["notes"])
    if pages := reply.receipt["explained_by"]:
        yield f"explained by: wiki {'page' if len(pages) == 1 else 'pages'} {', '.join(pages)}"
    yield from verification_lines(reply.receipt["verified"])
    if receipt:
        yield from _status_lines(reply.receipt["status"])
        yield from render_plain([Fields(tuple(_receipt_rows(reply)))]).splitlines()
        yield from reply.sql.splitlines()


def _status_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """Yield an answer's status, and the definitions that limit it to that status."""
    yield f"status: {status['weakest']}"
    yield from (f"  {each['kind']} {each['definition']}: {each['why']}" for each in status["because"])


def _receipt_rows(reply: LayerAnswer) -> Iterator[tuple[str, str]]:
    shown = ("sources", "having", "time", "policies", "parameters", "timing_ms")
    for name in shown:
        value = reply.receipt[name]
        if value:
            yield name, ", ".join(value) if isinstance(value, list) else json.dumps(value, ensure_ascii=False)
