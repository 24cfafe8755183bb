"""Tools that read the semantic layer: what there is, one source in detail, what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import Field

from ktx_cli.agent_tools.fence import LONGEST, RESERVE, Parts, cut_lines, joined, shortened, visible, wrapped
from ktx_cli.agent_tools.layer_writers import problems_text
from ktx_cli.agent_tools.ledger import defined_names, hit_line, member_id, named, note_hits
from ktx_cli.agent_tools.session import Input, ToolSession, tool
from ktx_cli.core import did_you_mean, listing, one_line, plural
from ktx_cli.llm import ToolOutput
from ktx_cli.privacy import ValueKind, refusal
from ktx_cli.protection import Refused, source_id
from ktx_cli.search import Scope
from ktx_cli.semantic import NOT_SHOWN, Column, Measure, Segment, Source, VisibleModel, quoted, read_source
from ktx_cli.warehouses import SemanticType

MOST_LISTED: Final = 25
IN_DETAIL: Final = 5
_KINDS: Final = ("source", "measure", "segment")


class DiscoverSources(Input):
    """The search in the semantic layer."""

    connection: str | None = Field(None, description="One connection. Defaults to all available ones.")
    query: str | None = Field(None, max_length=500, description="Search words. If omitted, sources are listed.")
    source: str | None = Field(None, description="One source, shown in detail.")


class ReadSource(Input):
    """The definition to read."""

    connection: str | None = Field(None, description="The connection; required if there are several.")
    source: str = Field(min_length=1, description="Name of the source.")
    start_line: int = Field(1, ge=1, description="First line to read, if the definition was cut.")


class Validate(Input):
    """What to check."""

    connection: str | None = Field(None, description="The connection; required if there are several.")


@tool()
def sl_discover(session: ToolSession, value: DiscoverSources) -> ToolOutput:
    """Search sources, measures and segments of the semantic layer by words, list all sources, or show one."""
    if value.source is not None:
        return _one(session, session.connection(value.connection), value.source)
    ids = [session.connection(value.connection)] if value.connection is not None else sorted(session.connections)
    if not ids:
        raise Refused("no connection with a semantic layer is available here")
    if value.query is None:
        return _listed(session, ids)
    found = session.search(value.query, Scope(_KINDS, None if value.connection is None else ids[0]), MOST_LISTED)
    if not found:
        return ToolOutput("No matches. Try other words, or list the sources without a query.", {"success": True})
    note_hits(session.ledger, found)
    owners = [(each.connection, each.id if each.kind == "source" else each.id.rpartition(".")[0]) for each in found]
    parts = Parts()
    for connection, name in list(dict.fromkeys(owners))[:IN_DETAIL]:
        parts.add(_detail(session, session.shown(connection), name))
    for each in found:
        parts.add(hit_line(each))
    more = parts.more("parts", "use a more specific query, or request one source")
    return ToolOutput(joined(wrapped(parts.text(), "the semantic layer"), more), {"success": True, "hits": len(found)})


def _listed(session: ToolSession, ids: list[str]) -> ToolOutput:
    parts = Parts()
    count = 0
    for connection in ids:
        shown = session.shown(connection)
        sources = shown.sources()
        count += len(sources)
        parts.add(f"{connection}: {plural(len(sources), 'source')}")
        for source in sources:
            if parts.add(f"- {headline(source)} [{names_of(shown, source)}]"):
                session.ledger.add(source_id(connection, source.name))
    more = parts.more("lines", "request one connection, or pass a query")
    return ToolOutput(joined(wrapped(parts.text(), "the semantic layer"), more), {"success": True, "sources": count})


def _one(session: ToolSession, connection: str, name: str) -> ToolOutput:
    shown = session.shown(connection)
    source = the_source(shown, name)
    text = _detail(session, shown, source.name)
    return ToolOutput(wrapped(text, f"the semantic layer of {connection}"), {"success": True, "source": source.name})


def _detail(session: ToolSession, shown: VisibleModel, name: str) -> str:
    """Return as much of a source as fits into a fifth of a result, and record the names shown."""
    source, connection = shown.model.sources[name], shown.model.connection
    parts = Parts((LONGEST - RESERVE) // (IN_DETAIL + 1) - 200)
    parts.add(f"## {connection}: {headline(source)}")
    ids = [source_id(connection, name)]
    rest = list(rest_lines(shown, source))
    whole = [parts.add(line) for line in rest]
    for line, column in ((column_line(source, each), each) for each in shown.columns(source)):
        if parts.add(line):
            ids.append(member_id(connection, name, column.name))
    if all(whole):
        ids += [member_id(connection, name, each.name) for each in shown.measures(source)]
        ids += [member_id(connection, name, each) for each in source.segments]
    session.ledger.add(*ids)
    more = parts.more("lines", "entity_details shows single columns, sl_read_source the whole definition")
    return parts.text() + (f"\n{more}" if more else "")


def the_source(shown: VisibleModel, name: str) -> Source:
    """Return the source with a name; raises `Refused` if it does not exist or is not shown."""
    found = named(shown, name)
    if len(found) == 1:
        return found[0]
    names = [each.name for each in found or shown.sources()]
    near = did_you_mean(name, names)
    advice = f"did you mean `{near}`?" if near and not found else f"sources: {listing(names, 20) or 'none'}"
    raise Refused(one_line(f"`{shown.model.connection}` has no source `{name}`; {advice}", 600))


@tool()
def sl_read_source(session: ToolSession, value: ReadSource) -> ToolOutput:
    """Read the definition of a source from its files before you edit it."""
    connection = session.connection(value.connection)
    shown = session.shown(connection)
    name = _spelled(shown, value.source)
    files = read_source(session.workspace, connection, name)
    known = shown.model.sources.get(name)
    if not files or (known is not None and not shown.has(known)):
        the_source(shown, value.source)
        raise Refused(f"`{name}` has no definition that you can read")
    pieces = [f"# {path}\n{visible(text).rstrip()}" for path, text in files]
    lines = "\n\n".join(pieces).split("\n")
    if value.start_line > len(lines):
        raise Refused(f"the definition has {plural(len(lines), 'line')}")
    kept, count = cut_lines("\n".join(lines[value.start_line - 1 :]), LONGEST - RESERVE)
    last = value.start_line + count - 1
    note = f"(cut: lines {value.start_line} to {last} of {len(lines)}; read on with start_line {last + 1})"
    if known is not None:
        whole = count if kept.endswith(lines[last - 1]) else count - 1
        _note_read(session, shown, known, _names_in(pieces, range(value.start_line - 1, value.start_line - 1 + whole)))
    text = wrapped(kept, f"definition of {name}")
    return ToolOutput(joined(text, note if last < len(lines) else ""), {"success": True, "source": name})


def _names_in(pieces: Sequence[str], lines: range) -> frozenset[str]:
    """Return the names that the blocks of a definition, separated by blank lines, define on these lines of the
    whole.
    """
    found: set[str] = set()
    begun = 0
    for piece in pieces:
        found |= defined_names(piece, range(lines.start - begun, lines.stop - begun))
        begun += piece.count("\n") + 2
    return frozenset(found)


def _note_read(session: ToolSession, shown: VisibleModel, source: Source, names: Collection[str]) -> None:
    """Record the source, and those of its parts whose definition was read."""
    connection = shown.model.connection
    members = [*(each.name for each in shown.columns(source)), *(each.name for each in shown.measures(source))]
    read = [each for each in (*members, *source.segments) if each.casefold() in names]
    session.ledger.add(source_id(connection, source.name), *(member_id(connection, source.name, each) for each in read))


def _spelled(shown: VisibleModel, name: str) -> str:
    alike = [each for each in shown.model.sources if each.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else name


@tool()
def sl_validate(session: ToolSession, value: Validate) -> ToolOutput:
    """Check what this session wrote to the semantic layer."""
    connection = session.connection(value.connection)
    touched = {each.key for each in session.actions if each.target == "sl" and each.connection == connection}
    problems = list(session.problems(session.workspace, connection))
    own = [each for each in problems if each.location.object in touched]
    errors = [each for each in own if each.severity == "error"]
    text = joined(
        problems_text("Errors:", errors),
        problems_text("Warnings:", [each for each in own if each.severity != "error"]),
        "" if own else "No problems in what this session wrote.",
    )
    names = [each.name for each in session.shown(connection).sources()]
    others = len(problems) - len(own)
    rest = f"{plural(others, 'other problem')} in files this session did not write." if others else ""
    return ToolOutput(
        joined(wrapped(text, f"checks of {connection}"), rest, f"Sources: {shortened(listing(names, 100), 6_000)}"),
        {"success": not errors, "errors": len(errors), "others": others},
    )


TOOLS: Final = (sl_discover, sl_read_source, sl_validate)


LONGEST_TEXT: Final = 300
LONGEST_VALUE: Final = 40
MOST_VALUES: Final = 10

_SOURCE_TEXT_KINDS: Final[Mapping[SemanticType, ValueKind]] = {
    SemanticType.STRING: ValueKind.TEXT,
    SemanticType.NUMBER: ValueKind.NUMBER,
    SemanticType.TIME: ValueKind.TIME,
    SemanticType.BOOLEAN: ValueKind.BOOLEAN,
}


def headline(source: Source) -> str:
    """Return one line: name, where its rows come from, description."""
    description = f": {one_line(source.description, LONGEST_TEXT)}" if source.description else ""
    return f"{source.name} ({origin(source)}){description}"


def origin(source: Source) -> str:
    """Return `table shop.orders` or `sql`."""
    if source.table is None:
        return "sql"
    return f"table {'.'.join(map(quoted, source.table))}"


def column_line(source: Source, column: Column, values: Collection[Any] = ()) -> str:
    """Return one line about a column. `values`: some that were seen in it; personal ones are not shown."""
    facts = [column.type.value]
    facts += ["key"] if column.name in source.grain and source.keyed else []
    facts += ["required"] if not column.nullable else []
    facts += [f"unit {column.unit}"] if column.unit else []
    facts += [f"computed: {shortened(one_line(column.expr), LONGEST_TEXT)}"] if column.expr else []
    text = f"- {column.name}: {', '.join(facts)}"
    text += f"; {one_line(column.description, LONGEST_TEXT)}" if column.description else ""
    text += _found_by(column)
    shown = _shown_values(source, column, values)
    return text + (f"; values: {shown}" if shown else "")


def rest_lines(shown: VisibleModel, source: Source, only: Collection[str] | None = None) -> Iterator[str]:
    """Yield the lines about grain, time, joins, lineage, segments, measures; without hidden parts or anything that
    refers to them.

    `only`: the segments and measures of these names alone.
    """
    if only is None:
        yield from _whole_lines(shown, source)
        for line in shown.lineage(source):
            yield one_line(line, LONGEST_TEXT)
    for segment in source.segments.values():
        if only is None or segment.name in only:
            expr = one_line(segment.expr, LONGEST_TEXT) if shown.can_show(source, segment.expr) else NOT_SHOWN
            notes = f"{_described(segment.description)}{_unreviewed(segment)}{_found_by(segment)}"
            yield f"segment: {segment.name} = {expr}{notes}"
    for measure in shown.measures(source):
        if only is None or measure.name in only:
            yield f"measure: {_measure(shown, source, measure)}"


def _whole_lines(shown: VisibleModel, source: Source) -> Iterator[str]:
    """Yield the lines about a source as a whole."""
    if source.label or source.questions or source.synonyms:
        yield _found_by(source).removeprefix("; ")
    grain = [each for each in source.grain if shown.can_show(source, each)]
    if source.keyed and grain:
        yield f"grain: {', '.join(grain)}"
    if source.time_column and shown.can_show(source, source.time_column):
        yield f"time: {source.time_column}"
    for join in shown.joins(source):
        alias = f" as {join.alias}" if join.alias else ""
        on = one_line(join.on) if shown.can_show(source, join.on) else NOT_SHOWN
        yield f"join: {join.to}{alias} on {on} ({join.relationship.value})"
    for column in source.columns.values():
        if column.mask is not None:
            yield f"mask: {column.name} (some callers see another value; only people change masks)"
    for policy in source.policies:
        yield f"policy: {policy.name} (row policies limit the rows that a caller sees; only people change them)"


def names_of(shown: VisibleModel, source: Source) -> str:
    """Return some of the names of measures and columns."""
    measures = [each.name for each in shown.measures(source)]
    columns = [each.name for each in shown.columns(source)]
    parts = [f"measures: {listing(measures, 12)}"] if measures else []
    parts += [f"columns: {listing(columns, 20)}"] if columns else []
    return "; ".join(parts)


def _measure(shown: VisibleModel, source: Source, measure: Measure) -> str:
    expr = one_line(measure.expr, LONGEST_TEXT) if shown.can_show(source, measure.expr) else NOT_SHOWN
    filtered = measure.filter if measure.filter and shown.can_show(source, measure.filter) else None
    only = f" where {one_line(filtered, LONGEST_TEXT)}" if filtered else ""
    segments = f" in {', '.join(measure.segments)}" if measure.segments else ""
    return (
        f"{measure.name} = {expr}{only}{segments}{_described(measure.description)}{_unreviewed(measure)}"
        f"{_found_by(measure)}"
    )


def _unreviewed(definition: Measure | Segment) -> str:
    return "; proposed by ktx, not reviewed" if definition.is_proposed else ""


def _described(description: str | None) -> str:
    return f"; {one_line(description, LONGEST_TEXT)}" if description else ""


def _found_by(entity: Source | Measure | Segment | Column) -> str:
    """Return a definition's label, other names, and the questions that it answers."""
    label = f"; label: {entity.label}" if entity.label else ""
    synonyms = f"; also called {listing(entity.synonyms, 8)}" if entity.synonyms else ""
    answered = () if isinstance(entity, Column) else entity.questions
    questions = f"; answers: {' '.join(answered)}" if answered else ""
    return one_line(label + synonyms + questions, 2 * LONGEST_TEXT) if label or synonyms or questions else ""


def _shown_values(source: Source, column: Column, values: Collection[Any]) -> str:
    """Return a column's values: those listed in its definition, or else values seen in the data that may be shown."""
    if column.values:
        return listing([one_line(value, LONGEST_VALUE) for value in column.values], MOST_VALUES)
    seen = [value for value in values if value is not None]
    if refusal(source.name, column.name, _SOURCE_TEXT_KINDS[column.type], seen) is not None:
        return ""
    return listing([one_line(str(value), LONGEST_VALUE) for value in seen], MOST_VALUES)
