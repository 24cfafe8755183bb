"""Tools that look around: what there is about a topic, and what a source really has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import Field

from ktx_cli.context.search.model import Hit, Scope
from ktx_cli.context.search.shown import Shown
from ktx_cli.context.semantic.loading.names import table_parts
from ktx_cli.context.semantic.model import Source
from ktx_cli.context.tools.calling import Input, Tool
from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.ledger import member_id, source_id, sources_of
from ktx_cli.context.tools.limits import LONGEST, RESERVE, Parts, joined
from ktx_cli.context.tools.relations import read_relations
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.source_text import column_line, headline, rest_lines
from ktx_cli.context.tools.sql_protection import values_shown
from ktx_cli.context.tools.untrusted import visible, wrapped
from ktx_cli.core.errors import ConfigError
from ktx_cli.core.text import did_you_mean, listing, one_line
from ktx_cli.llm.tools import ToolOutput

_SECTIONS: Final = (
    ("Wiki pages", ("page",), "wiki_read"),
    ("Semantic layer", ("source", "measure", "segment"), "sl_read_source or entity_details"),
    ("Columns", ("column",), "entity_details"),
)
"""Heading, kinds of hits, and the tools that show more of them."""


_LONGEST_MISSES: Final = 4_000
"""Characters on names that nothing has."""


class Discover(Input):
    """What to look for."""

    query: str = Field(description="Words of the topic, a name of a table, column, measure or page.", max_length=500)
    connection: str | None = Field(None, description="One connection; without it all that are available.")
    limit: int = Field(10, ge=1, le=50, description="Hits in each section at most.")


class EntityDetails(Input):
    """What to show."""

    connection: str | None = Field(None, description="The connection; needed where there are several.")
    targets: list[str] = Field(
        min_length=1,
        max_length=50,
        description="Sources (`orders`), tables as the database calls them (`shop.orders`), columns (`orders.amount`).",
    )


def _discover(session: ToolSession, value: Discover) -> ToolOutput:
    connection = None if value.connection is None else session.connection(value.connection)
    sections = [
        (heading, _hits(session, value.query, Scope(kinds, connection), value.limit), tool)
        for heading, kinds, tool in _SECTIONS
    ]
    for _, found, _ in sections:
        note_hits(session, found)
    told = [_section(heading, found, tool) for heading, found, tool in sections if found]
    if not told:
        return ToolOutput("Nothing fits. Try broader or other words.", {"success": True, "hits": 0})
    count = sum(len(found) for _, found, _ in sections)
    return ToolOutput(joined(*told), {"success": True, "hits": count})


def _hits(session: ToolSession, query: str, scope: Scope, limit: int) -> list[Hit]:
    return session.search(query, scope, limit)


def note_hits(session: ToolSession, found: Iterable[Hit]) -> None:
    """Note what a search showed of the semantic layer."""
    for each in found:
        if each.kind == "source":
            session.ledger.add(source_id(each.connection, each.id))
        elif each.kind in ("measure", "segment", "column"):
            source, _, member = each.id.rpartition(".")
            session.ledger.add(source_id(each.connection, source), member_id(each.connection, source, member))


def _section(heading: str, found: Sequence[Hit], tool: str) -> str:
    parts = Parts((LONGEST - RESERVE) // len(_SECTIONS) - RESERVE)
    for each in found:
        parts.add(hit_line(each))
    more = parts.more("hits", "ask for fewer, or with more words")
    return joined(f"## {heading} (more with {tool})", wrapped(parts.text(), f"search: {heading.lower()}"), more)


def hit_line(hit: Hit) -> str:
    """Return one line about a hit."""
    place = f" of {hit.connection}" if hit.connection else ""
    snippet = f" [{one_line(hit.snippet, 200)}]" if hit.snippet and hit.snippet not in hit.summary else ""
    return f"- {hit.kind} {hit.id}{place}: {one_line(hit.summary, 200)}{snippet}"


def _details(session: ToolSession, value: EntityDetails) -> ToolOutput:
    connection = session.connection(value.connection)
    shown = session.shown(connection)
    wanted, missed = resolved(shown, value.targets)
    parts = Parts(LONGEST - RESERVE - _LONGEST_MISSES)
    left = 0
    for source, columns in wanted.items():
        text, left_out = _source(session, shown, source, columns, parts)
        left += left_out
        if text:
            parts.add(text)
    misses = Parts(_LONGEST_MISSES)
    for target in missed:
        misses.add(miss_told(shown, target))
    told = joined(misses.text(), misses.more("names that nothing has", "ask for fewer at once"))
    note = f"(cut: {left} columns or sources not shown; ask for single columns, such as orders.amount)" if left else ""
    if not wanted:
        raise Refused(told)
    body = wrapped(parts.text(), f"structure of {connection}")
    return ToolOutput(joined(body, visible(told), note), {"success": not missed, "missed": missed})


def resolved(shown: Shown, targets: Sequence[str]) -> tuple[dict[str, list[str] | None], list[str]]:
    """Return source -> the columns asked for (None: all), and the targets nothing has."""
    wanted: dict[str, list[str] | None] = {}
    missed = []
    for target in dict.fromkeys(targets):
        found = resolve(shown, target)
        if not found:
            missed.append(target)
        for source, column in found:
            if column is None or wanted.get(source.name, ()) is None:
                wanted[source.name] = None
            else:
                wanted[source.name] = [*(wanted.get(source.name) or ()), column]
    return wanted, missed


def resolve(shown: Shown, target: str) -> list[tuple[Source, str | None]]:
    """Return the sources a name stands for, each with the column that was named, if one was."""
    sources = named(shown, target)
    if sources:
        return [(each, None) for each in sources]
    outer, dot, column = target.rpartition(".")
    if not dot:
        return []
    plain = column.strip('"`')
    found = [(each, each.column(plain)) for each in named(shown, outer)]
    return [(each, own.name) for each, own in found if own is not None and own in shown.columns(each)]


def named(shown: Shown, name: str) -> list[Source]:
    """Return the source of a name, else those that read the table of that name."""
    exact = shown.model.sources.get(name)
    alike = [each for each in shown.sources() if each.name.casefold() == name.casefold()]
    if exact is not None and shown.has(exact):
        return [exact]
    if alike:
        return alike
    try:
        parts = table_parts(name)
    except ConfigError:
        return []
    return [each for each in sources_of(shown.model, parts) if shown.has(each)]


def _source(session: ToolSession, shown: Shown, name: str, only: Sequence[str] | None, parts: Parts) -> tuple[str, int]:
    """Return the text about a source as far as there is room for it, and how many lines there was none for."""
    source = shown.model.sources[name]
    connection = shown.model.connection
    room = Parts(parts.room - 2)
    if not room.add(headline(source)):
        return "", 1
    values = sampled(session, connection, source)
    ids = [source_id(connection, name)]
    for column in shown.columns(source):
        if (only is None or column.name in only) and room.add(column_line(source, column, values.get(column.name, ()))):
            ids.append(member_id(connection, name, column.name))
    if only is None:
        for line in rest_lines(shown, source):
            room.add(line)
        ids += [member_id(connection, name, each.name) for each in shown.measures(source)] if not room.left_out else []
        ids += [member_id(connection, name, each) for each in source.segments] if not room.left_out else []
    session.ledger.add(*ids)
    return room.text() + "\n", room.left_out


def sampled(session: ToolSession, connection: str, source: Source) -> Mapping[str, tuple[Any, ...]]:
    """Return values that were seen in the columns of a source, where the project lets them go to a model."""
    if session.values is None or session.privacy != "off":
        return {}
    may = values_shown(session.model(connection), source, lambda: read_relations(session.workspace, connection))
    found = session.values(connection, source)
    columns = ((source.column(name), values) for name, values in found.items())
    return {column.name: values for column, values in columns if column is not None and may(column)}


def miss_told(shown: Shown, target: str) -> str:
    """Return the line about a name nothing has, with the one that was probably meant."""
    outer, _, column = target.rpartition(".")
    owners = named(shown, outer) if outer else []
    target = one_line(target, 100)
    if owners:
        known = [each.name for each in shown.columns(owners[0])]
        near = did_you_mean(column, known)
        advice = f"did you mean `{owners[0].name}.{near}`?" if near else f"its columns are: {listing(known, 20)}"
        return one_line(f"`{target}`: `{owners[0].name}` has no such column; {advice}", 600)
    names = [each.name for each in shown.sources()]
    near = did_you_mean(target, names) or did_you_mean(target.rpartition(".")[2], names)
    advice = f"did you mean `{near}`?" if near else "look for it with discover_data"
    return one_line(f"`{target}`: no source or table of `{shown.model.connection}` has that name; {advice}", 600)


TOOLS: Final = (
    Tool(
        "discover_data",
        "Search the wiki, the semantic layer and the columns of the databases by words. Finds what you wrote too.",
        Discover,
        _discover,
    ),
    Tool(
        "entity_details",
        "Show what sources, tables or columns really have: columns with types, keys, joins, measures.",
        EntityDetails,
        _details,
    ),
)
