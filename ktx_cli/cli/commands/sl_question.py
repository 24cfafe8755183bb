"""The question that the words and options of a command line make."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ktx_cli.cli.contract import Result, Session
from ktx_cli.cli.help import connection_ids
from ktx_cli.cli.settings import current_folder
from ktx_cli.core import Command, KtxError, UsageError

if TYPE_CHECKING:
    from ktx_cli.jobs.semantic.answer import Question
    from ktx_cli.project import KtxConfig, Layout
    from ktx_cli.search import Shown


LARGEST: Final = 1_000_000
"""How many bytes of a question are read from a file or stdin."""

EXAMPLE: Final = Command("sl", "query", "--measure", "orders.revenue", "--dimension", "customers.country")


def question_of(values: Mapping[str, Any]) -> Question:
    """Return the question of the options; what they say is added to the JSON, or stands in its place."""
    from ktx_cli.jobs.semantic.answer import Question, read_attributes

    query = _json_query(values["text"], values["file"])
    for key, added in _lists(values).items():
        query[key] = [*_list(query, key), *added]
    query.update(_single(values))
    span = {"start": values["start"], "end": values["end"], "last": values["last"], "field": values["time_field"]}
    if given := {key: value for key, value in span.items() if value is not None}:
        query["time_range"] = {**_object(query, "time_range"), **given}
    if values["via"]:
        query["via"] = {**_object(query, "via"), **_pairs(values["via"], "--via", "regions=bill_to")}
    if not query:
        raise UsageError("the query names no measure and no dimension", hint=EXAMPLE)
    return Question(
        query,
        connection=values["connection"],
        grain=values["grain"],
        parameters=_pairs(values["parameter"], "--parameter", "currency=EUR"),
        attributes=read_attributes(values["user_attribute"]),
    )


def _lists(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    found = {
        "measures": values["measure"],
        "dimensions": [_dimension(each) for each in values["dimension"] or ()],
        "filters": values["filter"],
        "segments": values["segment"],
        "having": values["having"],
        "order_by": values["order_by"],
    }
    return {key: list(each) for key, each in found.items() if each}


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
            raise UsageError(f"{option} takes NAME=VALUE, not `{text}`", hint=f"{option} {example}")
        found[name.strip()] = value
    return found


def _json_query(text: str | None, file: str | None) -> dict[str, Any]:
    if text is not None and file is not None:
        raise UsageError("both a query and --query-file are given", hint="leave one out")
    if text is None and file is None:
        return {}
    where = "the query" if file is None and text != "-" else "stdin" if "-" in (text, file) else str(file)
    content = text if file is None and text != "-" else _read(where)
    try:
        query = json.loads(content or "")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not valid JSON: {error}", hint='{"measures": ["orders.revenue"]}') from error
    if not isinstance(query, dict):
        raise UsageError(f"{where} is not a JSON object", hint='{"measures": ["orders.revenue"]}')
    return query


def _read(where: str) -> str:
    try:
        if where == "stdin":
            content = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with (current_folder() / where).open("rb") as stream:
                content = stream.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise UsageError(f"{where} is over {LARGEST:,} bytes", hint="a query is shorter")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {where}: {error.strerror or error}", hint="check --query-file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{where} is not UTF-8", hint="save the query as UTF-8") from error


def source_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of sources that begin with what was typed."""
    return _begun((source.name for shown in _layers(ctx) for source in shown.sources()), incomplete)


def measure_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return `source.measure` of the measures that begin with what was typed."""
    return _begun(_refs(ctx, "measures"), incomplete)


def dimension_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return `source.column` of the columns that begin with what was typed; behind `:` the grains of time."""
    field, colon, _ = incomplete.rpartition(":")
    if colon:
        from ktx_cli.semantic import GRAINS

        return _begun((f"{field}:{grain}" for grain in GRAINS), incomplete)
    return _begun(_refs(ctx, "columns"), incomplete)


def segment_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return `source.segment` of the segments that begin with what was typed."""
    return _begun(_refs(ctx, "segments"), incomplete)


def _refs(ctx: typer.Context, kind: str) -> Iterator[str]:
    for shown in _layers(ctx):
        for source in shown.sources():
            names = {
                "measures": [each.name for each in shown.measures(source)],
                "columns": [each.name for each in shown.columns(source)],
                "segments": list(source.segments),
            }
            yield from (f"{source.name}.{name}" for name in names[kind])


def _layers(ctx: typer.Context) -> Iterable[Shown]:
    """Return the semantic layers of the project around, or of the one named earlier; none where one cannot be read."""
    from ktx_cli.jobs.semantic.layers import read_layers
    from ktx_cli.project import Layout, find_project, load_config

    try:
        named = [context.params.get("project_dir") for context in (ctx, ctx.find_root())]
        folder = find_project(next((name for name in named if name is not None), None), os.environ, current_folder())
        if folder is None:
            return ()
        layout = Layout(folder)
        return read_layers(layout, load_config(layout.config).config, ctx.params.get("connection")).shown
    except KtxError:  # a shell cannot show an error in the middle of a line; the command itself will
        return ()


def _begun(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


Connection = Annotated[
    str | None,
    typer.Option(
        "--connection-id",
        "-c",
        metavar="ID",
        help="The connection whose semantic layer is meant; may be left out where there is one.",
        autocompletion=connection_ids,
    ),
]
Internal = Annotated[bool, typer.Option("--internal", help="Show what is internal too.")]
UserAttributes = Annotated[
    list[str] | None,
    typer.Option(
        "--user-attribute",
        metavar="NAME=VALUE",
        help="Who asks, for policies: NAME=TEXT, or NAME:=JSON for another value than a text. Repeatable.",
    ),
]


def _option(kind: Any, *names: str, help: str, metavar: str | None = None, **more: Any) -> Any:
    return Annotated[kind, typer.Option(*names, help=help, metavar=metavar, show_default=False, **more)]


def _repeated(*names: str, help: str, metavar: str, **more: Any) -> Any:
    return _option(list[str] | None, *names, help=f"{help} Repeatable.", metavar=metavar, **more)


OPTIONS: Final[Mapping[str, tuple[Any, Any]]] = {
    "text": (Annotated[str | None, typer.Argument(metavar="JSON", help="The query as JSON; `-`: from stdin.")], None),
    "connection": (Connection, None),
    "file": (_option(str | None, "--query-file", help="Read the query as JSON; `-`: stdin.", metavar="FILE"), None),
    "measure": (
        _repeated("--measure", "-m", help="A measure, or an expression.", metavar="M", autocompletion=measure_names),
        None,
    ),
    "dimension": (
        _repeated(
            *("--dimension", "-d"),
            help="A column to group by; orders.ordered_at:month cuts a time.",
            metavar="D[:GRAIN]",
            autocompletion=dimension_names,
        ),
        None,
    ),
    "filter": (_repeated("--filter", help="A condition on rows, or on results.", metavar="SQL"), None),
    "segment": (_repeated("--segment", help="A segment.", metavar="S", autocompletion=segment_names), None),
    "having": (_repeated("--having", help="A condition on results.", metavar="SQL"), None),
    "order_by": (_repeated("--order-by", help="A column of the answer.", metavar="F[:asc|desc]"), None),
    "limit": (
        _option(int | None, "--limit", "--max-rows", help="Rows at most, 1000 unless given.", min=0, max=100_000),
        None,
    ),
    "offset": (_option(int | None, "--offset", help="Rows to leave out first.", min=0), None),
    "include_empty": (
        _option(
            bool | None,
            "--include-empty/--no-include-empty",
            help="Show members without facts. Without it: where all dimensions are of one source.",
        ),
        None,
    ),
    "grain": (
        _option(str | None, "--grain", help="Cut the times among the dimensions, or metric_time.", metavar="GRAIN"),
        None,
    ),
    "start": (_option(str | None, "--from", help="The first day or moment.", metavar="WHEN"), None),
    "end": (_option(str | None, "--to", help="The day or moment after the last.", metavar="WHEN"), None),
    "last": (_option(str | None, "--last", help='As long a time before now: "30 days".', metavar="SPAN"), None),
    "time_field": (
        _option(
            str | None,
            "--time-field",
            help="The column --from, --to and --last are about. Without it: the time dimension's, or each fact's own.",
            metavar="F",
            autocompletion=dimension_names,
        ),
        None,
    ),
    "compare": (_option(str | None, "--compare", help='"1 year", or previous_period.', metavar="SPAN"), None),
    "totals": (_option(bool, "--totals", help="The measures without any dimension too."), False),
    "fill": (_option(bool, "--fill", help="Show every period between the first and the last."), False),
    "via": (
        _repeated(
            "--via",
            help="Choose one of several join paths to a source, for example regions=bill_to.",
            metavar="TARGET=JOIN",
        ),
        None,
    ),
    "parameter": (_repeated("--parameter", help="A parameter's value.", metavar="NAME=VALUE"), None),
    "user_attribute": (UserAttributes, None),
    "timezone": (
        _option(str | None, "--timezone", help="The time zone of days and longer periods.", metavar="ZONE"),
        None,
    ),
}
"""Name -> (annotation, default) of the options that make a question."""


def project_of(session: Session) -> tuple[Layout, KtxConfig]:
    """Return the paths and the configuration of the project, whose warnings become the command's."""
    from ktx_cli.project import Layout, load_config

    layout = Layout(session.require_project())
    loaded = load_config(layout.config)
    session.warn(*loaded.notices())
    return layout, loaded.config


def with_question(
    more: Mapping[str, tuple[Any, Any]] | None = None,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Give a function `(session, question, **more)` the options of a question in place of the question itself."""
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
