"""`ktx sl`: what the semantic layer has, found by words, listed, read; and the commands that check and ask it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktx_cli.cli.blocks import Block, Fields, Lines, Table
from ktx_cli.cli.commands import sl_checks, sl_exchange, sl_query
from ktx_cli.cli.commands.sl_names import source_names
from ktx_cli.cli.commands.sl_options import Connection, Internal, project_of
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.groups import own_command, own_group
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.text import one_line

if TYPE_CHECKING:
    from ktx_cli.context.search.model import Hit
    from ktx_cli.jobs.semantic.reading import Layers, Listed
    from ktx_cli.project.config import KtxConfig
    from ktx_cli.project.layout import Layout

_SUMMARY = 100


def register(app: typer.Typer) -> None:
    """Add the group to the app."""
    commands = own_group(app, "sl")
    _register_search(commands)
    _register_list(commands)
    _register_read(commands)
    sl_query.register(commands)
    sl_checks.register(commands)
    sl_exchange.register(commands)


def _register_search(commands: typer.Typer) -> None:
    @own_command(commands, schema="sl")
    def sl(
        session: Session,
        words: Annotated[list[str] | None, typer.Argument(metavar="QUERY", help="Words to look for.")] = None,
        connection: Connection = None,
        limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many to show.")] = 20,
        internal: Internal = False,
    ) -> Result:
        """Find sources, measures, segments and columns of the semantic layer. Without words: list the sources."""
        layout, config, layers = _layers(session, connection, internal)
        query = " ".join(words or ()).strip()
        if not query:
            return _listing(layout, config, layers, query=None)
        found = layers.search(query, limit)
        for word, meant in found.corrected.items():
            session.warn(ResultWarning("corrected", f"nothing has the word `{word}`: looked for `{meant}`"))
        data = {
            "query": query,
            "hits": [hit.to_json() for hit in found.hits],
            "total": found.total,
            "corrected": dict(found.corrected),
            "sources": [],
        }
        if not found.hits:
            return Result(data, [Fields((("found", "nothing"),))], next_steps=["ktx sl list"])
        return Result(data, [_hits_table(layers, found.hits)])


def _register_list(commands: typer.Typer) -> None:
    @command(commands, "list", schema="sl-list")
    def list_(session: Session, connection: Connection = None, internal: Internal = False) -> Result:
        """List the sources of the semantic layer."""
        return _listing(*_layers(session, connection, internal))


def _register_read(commands: typer.Typer) -> None:
    @command(commands, "read", schema="sl-read")
    def read(
        session: Session,
        name: Annotated[str, typer.Argument(metavar="SOURCE", help="The source's name.", autocompletion=source_names)],
        connection: Connection = None,
        internal: Internal = False,
        as_yaml: Annotated[bool, typer.Option("--yaml", help="The texts of its files, as they stand.")] = False,
    ) -> Result:
        """Show a source: columns, measures, joins, segments, everything its files say put together."""
        from ktx_cli.jobs.semantic.described import described
        from ktx_cli.jobs.semantic.reading import find_source, source_files

        layout, _, layers = _layers(session, connection, internal)
        if as_yaml:
            of, files = source_files(layout, layers, name)
            data = {"connection": of, "name": name, "files": [{"path": path, "text": text} for path, text in files]}
            return Result(data, [Lines(tuple(_file_lines(files)))])
        data = described(*find_source(layers, name))
        return Result(data, _source_blocks(data))


def _layers(session: Session, connection: str | None, internal: bool) -> tuple[Layout, KtxConfig, Layers]:
    from ktx_cli.jobs.semantic.reading import read_layers

    layout, config = project_of(session)
    layers = read_layers(layout, config, connection, internal=internal)
    session.warn(*layers.warnings())
    return layout, config, layers


def _listing(layout: Layout, config: KtxConfig, layers: Layers, **search: Any) -> Result:
    listed = layers.sources()
    data: dict[str, Any] = {"sources": [each.to_json() for each in listed]}
    if search:
        data = {**search, "hits": [], "total": 0, "corrected": {}, **data}
    if not listed:
        from ktx_cli.jobs.setup.suggesting import first_step

        return Result(data, [Fields((("sources", "none"),))], next_steps=[first_step(layout.root, config)])
    return Result(data, [_sources_table(layers, listed)])


def _sources_table(layers: Layers, listed: list[Listed]) -> Table:
    columns = ("source", "kind", "grain", "columns", "measures", "joins", "description")
    rows = []
    for each in listed:
        facts = each.to_json()
        counts = (str(facts[key]) for key in ("columns", "measures", "joins"))
        grain = ", ".join(facts["grain"]) or "-"
        rows.append((each.source.name, facts["kind"], grain, *counts, one_line(facts["description"] or "", _SUMMARY)))
    return _with_connections(layers, Table(columns, tuple(rows)), [each.connection for each in listed])


def _hits_table(layers: Layers, hits: tuple[Hit, ...]) -> Table:
    rows = tuple((hit.kind, hit.id, one_line(hit.summary, _SUMMARY), ", ".join(hit.matched_on)) for hit in hits)
    table = Table(("kind", "name", "summary", "matched on"), rows)
    return _with_connections(layers, table, [hit.connection for hit in hits])


def _with_connections(layers: Layers, table: Table, connections: list[str]) -> Table:
    """Return the table with the connections in front, where there are several."""
    if len(layers.shown) < 2:
        return table
    rows = tuple((connection, *row) for connection, row in zip(connections, table.rows, strict=True))
    return Table(("connection", *table.columns), rows, table.title)


def _file_lines(files: list[tuple[str, str]]) -> list[str]:
    several = len(files) > 1
    return [line for path, text in files for line in ([f"# {path}"] if several else []) + text.splitlines()]


def _source_blocks(data: dict[str, Any]) -> list[Block]:
    facts = [("source", data["name"]), ("connection", data["connection"])]
    facts += [(key, data[key]) for key in ("table", "sql", "description", "time") if data[key]]
    facts += [("grain", ", ".join(data["grain"]) or "not declared")]
    facts += [("visibility", data["visibility"])] if data["visibility"] != "public" else []
    tables = [
        _part("columns", "column", data["columns"], ("name", "type", "expr", "description")),
        _part(
            "measures", "measure", data["measures"], ("name", "expr", "filter", "segments", "special", "description")
        ),
        _part("joins", "join", data["joins"], ("to", "alias", "on", "relationship")),
        _part("segments", "segment", data["segments"], ("name", "expr", "description")),
        _part("policies", "policy", data["policies"], ("name", "description")),
        _part("parameters", "parameter", data["parameters"], ("name", "type", "default", "values")),
        _part("tests", "test", [{"name": name} for name in data["tests"]], ("name",)),
    ]
    hidden = [f"{count} {key}" for key, count in data["not_shown"].items() if count]
    facts += [("not shown", ", ".join(hidden))] if hidden else []
    return [Fields(tuple(facts)), *(table for table in tables if table.rows)]


def _part(title: str, one: str, items: list[dict[str, Any]], keys: tuple[str, ...]) -> Table:
    """Return a table of a part of a source, without columns nothing is in."""
    used = [key for key in keys if any(item[key] for item in items)]
    rows = tuple(tuple(_cell(item[key]) for key in used) for item in items)
    return Table(tuple([one if key == "name" else key for key in used]), rows, title)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_cell(item)}" for key, item in value.items() if item)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
