"""The options that put a question to the semantic layer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ktx_cli.cli.commands.sl_names import dimension_names, measure_names, segment_names
from ktx_cli.cli.commands.sl_question import question_of
from ktx_cli.cli.completing import connection_ids
from ktx_cli.cli.contract import Result, Session

if TYPE_CHECKING:
    from ktx_cli.project.config import KtxConfig
    from ktx_cli.project.layout import Layout

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
    from ktx_cli.project.config import load_config
    from ktx_cli.project.layout import Layout

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
