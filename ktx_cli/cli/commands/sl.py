"""`ktx sl`: search, list, read and accept the definitions of the semantic layer, and check them."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import Block, Fields, Lines, Table, render_plain
from ktx_cli.cli.commands import sl_query
from ktx_cli.cli.commands.completion import definition_names, source_names
from ktx_cli.cli.commands.sl_query import Connection, Internal, LeastStatus, UserAttributes
from ktx_cli.cli.contract import Result, Session, command, own_command
from ktx_cli.cli.help import own_group
from ktx_cli.cli.settings import WAIT, current_folder
from ktx_cli.core import (
    EXIT_UNREACHABLE,
    Command,
    Hint,
    ResultWarning,
    UsageError,
    counted,
    one_line,
    plural,
    without_tables,
)

if TYPE_CHECKING:
    from ktx_cli.jobs.semantic.accept import Acceptance, AcceptPlan, AcceptReport, WaitingDefinition
    from ktx_cli.jobs.semantic.layers import DefinitionStatuses, Exchange, Layers
    from ktx_cli.jobs.semantic.validate import TestReport, Validation
    from ktx_cli.project import KtxConfig, Layout
    from ktx_cli.semantic import Caller, Model

commands = own_group()


_SUMMARY = 100


@own_command(commands, schema="sl")
def sl(
    session: Session,
    words: Annotated[
        list[str] | None, Argument(metavar="QUERY", help="Words to search for. Lists all sources if omitted.")
    ] = None,
    connection: Connection = None,
    limit: Annotated[int, Option("--limit", min=1, max=1000, help="Maximum number of results.")] = 20,
    internal: Internal = False,
) -> Result:
    """Search, query and check the semantic layer.

    With QUERY, finds sources, measures, segments and columns. Without it, lists the sources.

    Examples:
        ktx sl
        ktx sl net revenue
        ktx sl refunds --limit 5
    """
    query = " ".join(words or ()).strip()
    if not query:
        return _listing(session, connection, internal, query=None)
    mounts = session.mounts()
    if mounts is not None and connection is None:
        from ktx_cli.cli.commands.search import found_everywhere
        from ktx_cli.jobs.semantic.layers import SEARCHED
        from ktx_cli.search import Scope

        data, _ = found_everywhere(session, mounts, query, Scope(SEARCHED, internal=internal), limit, ("sl", commands))
        data |= {"sources": []}
        if not data["hits"]:
            return Result(data, [Fields((("found", "nothing"),))], next_steps=[Command("sl", "list")])
        return Result(data, [_hits_table(data["hits"], several=True)])
    return session.run_at(
        connection, lambda session, own: _search(session, query, own, internal=internal, limit=limit), asks="project"
    )


def _search(session: Session, query: str, connection: str | None, *, internal: bool, limit: int) -> Result:
    from ktx_cli.cli.commands.search import hits_data
    from ktx_cli.jobs.semantic.layers import search_layers

    layout, config, layers = _layers(session, connection, internal)
    answer = search_layers(
        layout, config, query, environ=os.environ, connection=connection, internal=internal, limit=limit
    )
    session.warn(*answer.warnings)
    data = {**hits_data(session, query, answer.found, group=("sl", commands)), "sources": []}
    if not answer.found.hits:
        return Result(data, [Fields((("found", "nothing"),))], next_steps=[Command("sl", "list")])
    statuses = _statuses(layout, layers)
    for hit in data["hits"]:
        hit["status"] = statuses.of_hit(hit["connection"], hit["kind"], hit["id"])
        hit["connection"] = session.qualified(hit["connection"])
    return Result(data, [_hits_table(data["hits"], several=len(layers.shown) > 1)])


@command(commands, "list", schema="sl-list")
def list_(
    session: Session,
    connection: Connection = None,
    internal: Internal = False,
    min_status: Annotated[
        LeastStatus | None,
        Option("--min-status", help="Only list sources with a definition, other than a join, of at least this status."),
    ] = None,
) -> Result:
    """List sources with the number of definitions by status.

    Examples:
        ktx sl list
        ktx sl list --min-status accepted
    """
    return _listing(session, connection, internal, least=min_status, all=session.settings.verbose)


@command(commands, "read", schema="sl-read")
def read(
    session: Session,
    name: Annotated[str, Argument(metavar="SOURCE", help="Name of the source.", autocompletion=source_names)],
    connection: Connection = None,
    internal: Internal = False,
    as_yaml: Annotated[bool, Option("--yaml", help="Print the files of the source unchanged.")] = False,
) -> Result:
    """Show the columns, measures, joins and segments of a source.

    Combines the definitions of all files of the source.

    Examples:
        ktx sl read order_lines
        ktx sl read orders --yaml
    """
    mounts = session.mounts()
    if mounts is not None and connection is None:
        from ktx_cli.jobs.semantic.layers import connection_of_source

        connection = connection_of_source(mounts, name, internal=internal)
    return session.run_at(
        connection, lambda session, own: _read(session, name, own, internal=internal, as_yaml=as_yaml), asks="project"
    )


def _read(session: Session, name: str, connection: str | None, *, internal: bool, as_yaml: bool) -> Result:
    from ktx_cli.jobs.semantic.layers import describe_source, find_source, source_files

    layout, _, layers = _layers(session, connection, internal)
    if as_yaml:
        of, files = source_files(layout, layers, name)
        data = {
            "connection": session.qualified(of),
            "name": name,
            "files": [{"path": session.shown_path(path), "text": text} for path, text in files],
        }
        return Result(data, [Lines(tuple(_file_lines(files)), whole=True)])
    shown, source = find_source(layers, name)
    statuses = _statuses(layout, layers).of(shown.model.connection, source.name)
    open_notes = _open_notes(layout, shown.model, source.name)
    facts = {**describe_source(shown, source, statuses), "open": open_notes}
    facts["connection"] = session.qualified(shown.model.connection)
    return Result(facts, _source_blocks(facts), notes=["note: " + each for each in open_notes])


commands.registered_commands += sl_query.commands.registered_commands


@command(commands, "accept", schema="sl-accept")
def accept(
    session: Session,
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="NAME",
            help="Definition to accept: SOURCE.NAME, 'SOURCE -> JOIN', or SOURCE for all definitions of its files.",
            autocompletion=definition_names,
        ),
    ] = None,
    connection: Connection = None,
    certify: Annotated[
        bool, Option("--certify", help="Certify the definitions. Only owners listed in owners.yaml can do this.")
    ] = False,
    owner: Annotated[
        str | None, Option("--owner", metavar="EMAIL", help="Record the owner of the definitions.")
    ] = None,
    review_by: Annotated[
        str | None,
        Option(
            "--review-by", metavar="DATE", help="Date of the next review, for example 2027-06-30. Requires --certify."
        ),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would be accepted without writing anything.")] = False,
    wait: WAIT = None,
) -> Result:
    """Accept definitions, or list those not accepted yet.

    Before it asks for confirmation, ktx shows each definition with its changes since it was last accepted, its tests,
    and the definitions it uses that are not accepted. Definitions with failing tests or uncommitted changes are
    refused. The decision is committed in your name. Without NAME, ktx lists the definitions that are not accepted.

    Examples:
        ktx sl accept
        ktx sl accept payments --dry-run
        ktx sl accept payments.payment_count --owner ada@example.com --yes
    """
    from ktx_cli.jobs.semantic.accept import AcceptReport, AcceptRequest, plan_acceptance, waiting_definitions
    from ktx_cli.jobs.semantic.accept import accept as accept_planned

    if review_by is not None and not certify:
        raise UsageError("--review-by requires --certify", hint="add --certify, or omit --review-by")
    until = None if review_by is None else _day(review_by)
    layout, config = session.load_project()
    if not names:
        if certify or owner is not None:
            option = "--certify" if certify else "--owner"
            raise UsageError(f"{option} requires the name of a definition", hint=Command("sl", "accept"))
        return _waiting(waiting_definitions(layout, config, connection))
    request = AcceptRequest(layout, config, names, connection, certify, owner, until, wait or 0.0, session.emitter())
    plan = plan_acceptance(request)
    if dry_run or not plan.accepted:
        return _result(AcceptReport(plan), [*_plan_blocks(plan), Fields((("commit", "none"),))])
    verb = "Certify" if certify else "Accept"
    settings = session.settings
    if settings.interactive and not settings.yes and not settings.json:
        streams.write_err("\n".join(render_plain(_item_blocks(each)) for each in plan.items) + "\n")
    session.confirm(f"{verb} {plural(len(plan.accepted), 'definition')} as {one_line(plan.signature, 120)}?")
    report = accept_planned(request, plan)
    session.warn(*report.warnings)
    return _result(report, _report_blocks(report))


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        message = f"`{one_line(text, 40)}` is not a date"
        raise UsageError(message, hint="use YYYY-MM-DD, for example --review-by 2027-06-30") from None


def _waiting(found: list[WaitingDefinition]) -> Result:
    data = {"waiting": [each.to_json() for each in found], "report": None}
    if not found:
        return Result(data, [Fields((("not accepted", "none"),))])
    several = len({each.connection for each in found}) > 1
    rows = []
    for each in found:
        cells = (each.state.name, each.state.definition.kind.value, each.state.why)
        rows.append((each.connection, *cells) if several else cells)
    columns = ("definition", "kind", "reason")
    table = Table(("connection", *columns) if several else columns, tuple(rows))
    return Result(data, [table], next_steps=[Command("sl", "accept", found[0].state.name)])


def _result(report: AcceptReport, blocks: list[Block]) -> Result:
    return Result({"waiting": [], "report": report.to_json()}, blocks)


def _plan_blocks(plan: AcceptPlan) -> list[Block]:
    blocks: list[Block] = []
    for each in plan.items:
        blocks += _item_blocks(each)
    return blocks


def _item_blocks(each: Acceptance) -> list[Block]:
    facts: list[tuple[str, str]] = [(each.definition.kind.value, each.name)]
    if not each.is_changed:
        return [Fields((*facts, ("unchanged", f"{each.state.status.value}: {each.state.why}")))]
    facts += [("status", f"{each.state.status.value} -> {each.level.value}"), ("why", each.state.why)]
    facts += [("file", each.path)] if each.path else []
    if each.since is not None:
        facts.append(("last accepted", f"{each.since.commit[:10]} ({each.since.author} on {each.since.day})"))
    facts += [(f"uses {one.status.value}", f"{one.definition.kind.value} {one.name}: {one.why}") for one in each.weaker]
    facts += [("test", f"{test.name}: passed on {test.day}") for test in each.tests]
    facts += [] if each.tests else [("test", "none run")]
    return [Fields(tuple((name, one_line(value, 400)) for name, value in facts)), Lines(each.diff)]


def _report_blocks(report: AcceptReport) -> list[Block]:
    rows = tuple((each.name, each.definition.kind.value, each.status.value, each.why) for each in report.after)
    files = f" ({plural(len(report.files), 'file')})"
    committed = f"{report.commit[:10]}{files}" if report.commit else "none"
    tables: list[Block] = [Table(("definition", "kind", "status", "why"), rows)] if rows else []
    return [*tables, Fields((("commit", committed),))]


def _open_notes(layout: Layout, model: Model, source: str) -> list[str]:
    from ktx_cli.jobs.decide.notes import DefinitionNotes

    return DefinitionNotes(layout, lambda connection: model).of(model.connection, source)


def _layers(session: Session, connection: str | None, internal: bool) -> tuple[Layout, KtxConfig, Layers]:
    from ktx_cli.jobs.semantic.layers import read_layers

    layout, config = session.load_project(with_mounts=True)
    layers = read_layers(layout, config, connection, internal=internal)
    session.warn(*layers.warnings())
    return layout, config, layers


def _statuses(layout: Layout, layers: Layers) -> DefinitionStatuses:
    from ktx_cli.jobs.semantic.layers import DefinitionStatuses

    models = {each.connection: each for each in layers.models}
    return DefinitionStatuses(layout, models.__getitem__)


def _listing(
    session: Session,
    connection: str | None,
    internal: bool,
    *,
    least: LeastStatus | None = None,
    all: bool = False,
    **search: Any,
) -> Result:
    """Return the list of sources. `least`: only those with a definition of at least this status."""
    layers = 0
    sources: list[dict[str, Any]] = []
    steps: list[Command] = []

    def read_project(session: Session, own: str | None) -> Result:
        nonlocal layers
        layout, config, read = _layers(session, own, internal)
        layers += len(read.shown)
        listed, statuses = read.sources(), _statuses(layout, read)
        rows = [
            each.to_json()
            | {"connection": session.qualified(each.connection)}
            | {"statuses": statuses.counts(each.connection, each.source.name)}
            for each in listed
        ]
        if not listed:
            from ktx_cli.jobs.setup.request import first_step

            steps.append(first_step(layout.root, config))
        return Result({"sources": rows})

    for _, result in session.run_all(connection, read_project):
        sources += result.data["sources"]
    known = [each["statuses"] for each in sources if each["statuses"] is not None]
    if least is not None:
        wanted = list(LeastStatus)[list(LeastStatus).index(least) :]
        steps = steps if not sources else [Command("sl", "accept")]
        sources = [each for each in sources if any((each["statuses"] or {}).get(status) for status in wanted)]
    data: dict[str, Any] = {"sources": sources}
    if search:
        data = {**search, "hits": [], "total": 0, "corrected": {}, "suggested": {}, **data}
    if not sources:
        return Result(data, [Fields((("sources", "none"),))], next_steps=steps[:1])
    shows_status = bool(known) and (all or any(each[status] for each in known for status in ("accepted", "certified")))
    return Result(data, [_sources_table(sources, shows_status=shows_status, several=layers > 1)])


def _sources_table(sources: list[dict[str, Any]], *, shows_status: bool, several: bool) -> Table:
    """Return the table of sources; `several`: more than one layer was read, so each row names its connection."""
    labelled = any(each["label"] for each in sources)
    columns = (
        *(["connection"] if several else []),
        *("source", "kind", "grain", "columns", "measures", "joins"),
        *(["status"] if shows_status else []),
        *(["label"] if labelled else []),
        "description",
    )
    rows = []
    for each in sources:
        numbers = [str(each[key]) for key in ("columns", "measures", "joins")]
        counted = [f"{count} {status}" for status, count in (each["statuses"] or {}).items() if count]
        front = [each["connection"]] if several else []
        status = [", ".join(counted) or "-"] if shows_status else []
        cells = (*front, each["name"], each["kind"], ", ".join(each["grain"]) or "-", *numbers, *status)
        label = [each["label"] or "-"] if labelled else []
        rows.append((*cells, *label, one_line(without_tables(each["description"] or ""), _SUMMARY)))
    return Table(columns, tuple(rows))


def _hits_table(hits: list[dict[str, Any]], *, several: bool) -> Table:
    """Return the table of hits, with their statuses if one of them is above proposed."""
    shows_status = any(hit["status"] not in (None, "proposed") for hit in hits)
    columns = (*(["connection"] if several else []), "kind", "name", *(["status"] if shows_status else []))
    rows = tuple(
        (
            *([hit["connection"]] if several else []),
            *(hit["kind"], hit["id"], *([hit["status"] or "-"] if shows_status else [])),
            *(one_line(hit["summary"], _SUMMARY), ", ".join(hit["matched_on"])),
        )
        for hit in hits
    )
    return Table((*columns, "summary", "matched on"), rows, optional=frozenset({"matched on"}))


def _file_lines(files: list[tuple[str, str]]) -> list[str]:
    several = len(files) > 1
    return [line for path, text in files for line in ([f"# {path}"] if several else []) + text.splitlines()]


def _source_blocks(data: dict[str, Any]) -> list[Block]:
    facts = [("source", data["name"]), ("connection", data["connection"])]
    facts += [(key, data[key]) for key in ("table", "sql") if data[key]]
    facts += [(key, without_tables(data[key])) for key in ("description", "time") if data[key]]
    facts += [(key, _cell(data[key])) for key in _FOUND_BY if data[key]]
    facts += [("grain", ", ".join(data["grain"]) or "not declared")]
    facts += [("visibility", data["visibility"])] if data["visibility"] != "public" else []
    facts += [("status", data["status"])] if data["status"] else []
    columns = [{**each, "masked": "yes" if each.get("masked") else None} for each in data["columns"]]
    tables = [
        _part("columns", "column", columns, (*_NAMES, "type", "expr", "masked", *_DESCRIBED)),
        _part(
            "measures",
            "measure",
            data["measures"],
            (*_NAMES, "expr", "filter", "segments", "special", "status", "description", "synonyms"),
        ),
        _part("joins", "join", data["joins"], ("to", "alias", "on", "relationship", "status")),
        _part("segments", "segment", data["segments"], (*_NAMES, "expr", "status", "description", "synonyms")),
        _part("questions", "question", _questions(data), ("name", "of")),
        _part("policies", "policy", data["policies"], ("name", "description")),
        _part("parameters", "parameter", data["parameters"], ("name", "type", "default", "values")),
        _part("lineage", "lineage", [{"name": line} for line in data["lineage"]], ("name",)),
        _part("tests", "test", [{"name": name} for name in data["tests"]], ("name",)),
    ]
    hidden = [f"{count} {key}" for key, count in data["not_shown"].items() if count]
    facts += [("not shown", ", ".join(hidden))] if hidden else []
    return [Fields(tuple(facts)), *(table for table in tables if table.rows)]


def _questions(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the questions that the measures and segments of a source answer, each with its name."""
    return [
        {"name": question, "of": each["name"]}
        for each in (*data["measures"], *data["segments"])
        for question in each["questions"]
    ]


def _part(title: str, one: str, items: list[dict[str, Any]], keys: tuple[str, ...]) -> Table:
    """Return a table of a part of a source, without empty columns."""
    used = [key for key in keys if any(item[key] for item in items)]
    cells = ((_cell(item[key]) if key != "description" else without_tables(item[key] or "") for key in used)
             for item in items)  # fmt: skip
    rows = tuple(map(tuple, cells))
    return Table(tuple([one if key == "name" else key for key in used]), rows, title)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_cell(item)}" for key, item in value.items() if item)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


_CELL = 200
_FOUND_BY = ("label", "questions", "synonyms")
_NAMES = ("name", "label")
_DESCRIBED = ("status", "description", "synonyms")

Sources = Annotated[
    list[str] | None, Argument(metavar="SOURCE", help="Only check these sources.", autocompletion=source_names)
]


@command(commands, "validate", schema="sl-validate")
def validate(
    session: Session,
    sources: Sources = None,
    connection: Connection = None,
    data: Annotated[bool, Option("--data/--no-data", help="Also check the rows of the database.")] = True,
    budget: Annotated[
        float, Option("--budget", metavar="SECONDS", min=0, help="Start no further data checks after this time.")
    ] = 60.0,
    strict: Annotated[bool, Option("--strict", help="Exit 1 if there are warnings.")] = False,
) -> Result:
    """Check definitions against the files and the database.

    Checks the files and expressions, and whether tables, keys and joins match the data.

    Examples:
        ktx sl validate
        ktx sl validate orders payments --budget 10
        ktx sl validate --no-data --strict
    """
    run = functools.partial(_validated, sources=sources or (), data=data, budget=budget, strict=strict)
    return session.run_at(connection, run, asks="project") if sources else session.run_each(connection, run)


def _validated(
    session: Session, connection: str | None, *, sources: Sequence[str], data: bool, budget: float, strict: bool
) -> Result:
    from ktx_cli.jobs.semantic.validate import validate_layers

    layout, config = session.load_project(with_mounts=not sources or connection is not None)
    found = validate_layers(
        *(layout, config, sources), environ=os.environ, connection=connection, data=data, seconds=budget
    )
    error = found.error(strict=strict)
    session.warn(*found.warnings(), *_unread(found, error))
    if error is not None and error.exit_code == EXIT_UNREACHABLE:
        error.hint = Hint("{}; or skip the data checks with --no-data", error.hint) if error.hint else "add --no-data"
    return Result(found.to_json(), _validation_blocks(session, found), error, is_report=True)


@command(commands, "test", schema="sl-test")
def test(
    session: Session, sources: Sources = None, connection: Connection = None, user_attribute: UserAttributes = None
) -> Result:
    """Run the tests of the semantic layer.

    A test in a source's file has a query and its expected result.

    Examples:
        ktx sl test
        ktx sl test order_revenue
    """
    from ktx_cli.jobs.semantic.question import read_attributes
    from ktx_cli.semantic import Caller

    run = functools.partial(_tested, sources=sources or (), caller=Caller.of(read_attributes(user_attribute)))
    return session.run_at(connection, run, asks="project") if sources else session.run_each(connection, run)


def _tested(session: Session, connection: str | None, *, sources: Sequence[str], caller: Caller) -> Result:
    from ktx_cli.jobs.semantic.validate import run_tests

    layout, config = session.load_project(with_mounts=not sources or connection is not None)
    report = run_tests(*(layout, config, sources), environ=os.environ, connection=connection, caller=caller)
    session.warn(*report.warnings)
    return Result(report.to_json(), _test_blocks(session, report), report.error(), is_report=True)


def _unread(found: Validation, error: object) -> list[ResultWarning]:
    """Return warnings for connections whose data was not checked, except the one that is the command's error."""
    others = [each for each in found.unread.values() if each is not error]
    return [
        ResultWarning("not_checked", f"the data was not checked: {each.message}", hint=each.hint) for each in others
    ]


def _validation_blocks(session: Session, found: Validation) -> list[Block]:
    blocks: list[Block] = []
    if found.problems:
        from ktx_cli.cli.reports import finding_lines

        lines = finding_lines(session, (each for _, each in found.problems))
        blocks.append(Lines(tuple(lines), hanging=True))
    facts = [("sources", str(len(found.sources)))]
    if found.checks:
        by_status = [sum(check.status == status for _, check in found.checks) for status in _STATUSES]
        facts.append(("data checks", ", ".join(f"{n} {s}" for n, s in zip(by_status, _STATUSES, strict=True))))
    facts.append(("diagnostics", counted(found.counts())))
    return [*blocks, Fields(tuple(facts))]


_STATUSES = ("passed", "failed", "skipped")


def _test_blocks(session: Session, report: TestReport) -> list[Block]:
    if not report.results:
        return [Fields((("tests", "none"),))]
    from ktx_cli.cli.reports import finding_lines

    lines = finding_lines(session, report.diagnostics())
    counts = f"{len(report.results) - report.failed} passed, {report.failed} failed"
    return [*([Lines(tuple(lines), hanging=True)] if lines else []), Fields((("tests", counts),))]


ImportFormat = StrEnum("ImportFormat", ("DBT", "LOOKML", "POWERBI", "OSI", "TABLEAU"))
"""The formats that `ktx sl import` reads."""


ExportFormat = StrEnum("ExportFormat", ("OSI",))
"""The formats that `ktx sl export` writes."""


@command(commands, "import", schema="sl-import")
def import_(
    session: Session,
    format: Annotated[ImportFormat, Argument(help="Format of the models to import.")],
    path: Annotated[str, Argument(metavar="PATH", help="File, or folder of the project, to import.")],
    connection: Connection = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Report what would be imported without writing anything.")
    ] = False,
) -> Result:
    """Import semantic models from dbt, LookML, Power BI, OSI or Tableau.

    Writes new files and updates files from earlier imports, but never changes your own files and commits nothing. The
    report lists every part of the input with file and line: kept, approximated or dropped.

    Examples:
        ktx sl import dbt dbt --dry-run
        ktx sl import powerbi Sales.SemanticModel
        ktx sl import osi model.osi.yaml
    """
    from ktx_cli.jobs.semantic.layers import import_model

    layout, config = session.load_project()
    done = import_model(
        *(layout, config, format.value, current_folder() / path), connection=connection, dry_run=dry_run
    )
    steps = [] if dry_run else [Command("sl", "validate"), Command("diff", program="git")]
    return Result(done.to_json(), _blocks(done), done.error(), steps)


@command(commands, "export", schema="sl-export")
def export(
    session: Session,
    format: Annotated[ExportFormat, Argument(help="Format to write.")],
    connection: Connection = None,
    output: Annotated[
        str | None, Option("--output", "-o", metavar="FILE", help="Write to a file instead of stdout.")
    ] = None,
) -> Result:
    """Export the semantic layer as OSI YAML.

    Open Semantic Interchange (OSI) does not support all definitions. The report lists the parts that were approximated
    or dropped.

    Examples:
        ktx sl export osi
        ktx sl export osi --connection-id warehouse --output model.osi.yaml
    """
    from ktx_cli.jobs.semantic.layers import export_model

    layout, config = session.load_project()
    target = None if output is None else current_folder() / Path(output)
    done = export_model(layout, config, connection=connection, output=target)
    session.warn(*_lost(done))
    if target is not None or session.settings.json:
        return Result(done.to_json(), _blocks(done))
    return Result(done.to_json(), text=done.text or "")


def _lost(done: Exchange) -> list[ResultWarning]:
    counts = done.counts
    if not counts["dropped"] and not counts["approximated"]:
        return []
    parts = plural(counts["dropped"], "part")
    message = f"OSI does not support {parts}; {counts['approximated']:,} more were approximated"
    return [
        ResultWarning(
            "fidelity", message, hint=Hint("{} lists them under report", Command("sl", "export", "osi", "--json"))
        )
    ]


def _blocks(done: Exchange) -> list[Block]:
    changed = [item for item in done.report if item.kind.value != "kept"]
    rows = tuple((item.kind.value, str(item.place), item.what, item.why, item.target or "") for item in changed)
    facts = [(kind, f"{count:,}") for kind, count in done.counts.items()]
    if done.placed is not None:
        facts += [("written", path) for path in done.placed.written]
        facts += [("unchanged", path) for path in done.placed.same]
    else:
        facts += [("file", path) for path in done.files]
    table = [Table(("result", "location", "part", "reason", "becomes"), rows)] if rows else []
    return [*table, Fields(tuple(facts))]
