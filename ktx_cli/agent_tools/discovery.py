"""Discovery tools: find what exists on a topic, and what a source really contains."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, Literal

from pydantic import Field

from ktx_cli import wiki
from ktx_cli.agent_tools.fence import LONGEST, LONGEST_RAW, RESERVE, Parts, cut_lines, joined, visible, wrapped
from ktx_cli.agent_tools.layer_readers import column_line, headline, rest_lines
from ktx_cli.agent_tools.ledger import hit_line, member_id, named, note_hits
from ktx_cli.agent_tools.session import REASONS, Fallback, Input, ToolSession, shares_code_lists, tool
from ktx_cli.core import UsageError, did_you_mean, listing, one_line, suggestion
from ktx_cli.documents import RawFile, read_document, without_comments
from ktx_cli.llm import ToolOutput
from ktx_cli.project import checked_path
from ktx_cli.protection import Refused, read_relations, source_id, values_shown
from ktx_cli.search import MOST_PAGES, Hit, Scope
from ktx_cli.semantic import Source, VisibleModel, spelled

_SECTIONS: Final = (
    ("Wiki pages", ("page",), "wiki_read"),
    ("Semantic layer", ("source", "measure", "segment"), "sl_read_source or entity_details"),
    ("Columns", ("column",), "entity_details"),
    ("Values of columns", ("value",), "entity_details"),
)
"""Heading, kinds of hits, and the tools that show more hits."""


_LONGEST_MISSES: Final = 4_000
"""Maximum number of characters about names that do not exist."""


class Discover(Input):
    """The search."""

    query: str = Field(description="Words, or the name of a table, column, measure or page.", max_length=500)
    connection: str | None = Field(None, description="One connection. Defaults to all available ones.")
    limit: int = Field(10, ge=1, le=50, description="Maximum number of hits per section.")


class EntityDetails(Input):
    """The names to show."""

    connection: str | None = Field(None, description="The connection; required if there are several.")
    targets: list[str] = Field(
        min_length=1,
        max_length=50,
        description="Sources (`orders`), database tables (`shop.orders`), or columns, measures and segments "
        "(`orders.amount`).",
    )


@tool()
def discover_data(session: ToolSession, value: Discover) -> ToolOutput:
    """Search the wiki, the semantic layer and the database columns by words. This includes what you wrote."""
    connection = None if value.connection is None else session.connection(value.connection)
    sections = [
        (heading, session.search(value.query, Scope(kinds, connection), value.limit), tool)
        for heading, kinds, tool in _SECTIONS
    ]
    for _, found, _ in sections:
        note_hits(session.ledger, found)
    texts = [_section(heading, found, tool) for heading, found, tool in sections if found]
    if not texts:
        return ToolOutput("No matches. Try broader or different words.", {"success": True, "hits": 0})
    count = sum(len(found) for _, found, _ in sections)
    return ToolOutput(joined(*texts), {"success": True, "hits": count})


def _section(heading: str, found: Sequence[Hit], tool: str) -> str:
    parts = Parts((LONGEST - RESERVE) // len(_SECTIONS) - RESERVE)
    for each in found:
        parts.add(hit_line(each))
    more = parts.more("hits", "use a lower limit or a more specific query")
    return joined(f"## {heading} (more with {tool})", wrapped(parts.text(), f"search: {heading.lower()}"), more)


@tool()
def entity_details(session: ToolSession, value: EntityDetails) -> ToolOutput:
    """Show the definition of sources, tables, columns, measures or segments: types, keys, joins, expressions."""
    connection = session.connection(value.connection)
    shown = session.shown(connection)
    wanted, missed = resolved(shown, value.targets)
    parts = Parts(LONGEST - RESERVE - _LONGEST_MISSES)
    pages = _pages_naming(session, connection, wanted)
    left = 0
    for source, columns in wanted.items():
        text, left_out = _source(session, shown, source, columns, parts, pages)
        left += left_out
        if text:
            parts.add(text)
    misses = Parts(_LONGEST_MISSES)
    for target in missed:
        misses.add(missing_name(shown, target))
    missing = joined(misses.text(), misses.more("names that do not exist", "request fewer at once"))
    note = f"(cut: {left} columns or sources not shown; request single columns, such as orders.amount)" if left else ""
    if not wanted:
        raise Refused(missing)
    body = wrapped(parts.text(), f"structure of {connection}")
    return ToolOutput(joined(body, visible(missing), note), {"success": not missed, "missed": missed})


def resolved(shown: VisibleModel, targets: Sequence[str]) -> tuple[dict[str, list[str] | None], list[str]]:
    """Return source -> the requested columns, measures and segments (None for all), and the targets that do not
    exist.
    """
    wanted: dict[str, list[str] | None] = {}
    missed = []
    for target in dict.fromkeys(targets):
        found = resolve(shown, target)
        if not found:
            missed.append(target)
        for source, member in found:
            if member is None or wanted.get(source.name, ()) is None:
                wanted[source.name] = None
            else:
                wanted[source.name] = [*(wanted.get(source.name) or ()), member]
    return wanted, missed


def resolve(shown: VisibleModel, target: str) -> list[tuple[Source, str | None]]:
    """Return the sources that a name refers to, each with the named column, measure or segment, if any."""
    sources = named(shown, target)
    if sources:
        return [(each, None) for each in sources]
    outer, dot, member = target.rpartition(".")
    if not dot:
        return []
    found = [(each, _member(shown, each, member.strip('"`'))) for each in named(shown, outer)]
    return [(each, name) for each, name in found if name is not None]


def _member(shown: VisibleModel, source: Source, name: str) -> str | None:
    """Return the name of a source's column, measure or segment as its definition spells it."""
    column, measure, segment = source.column(name), source.measure(name), spelled(source.segments, name)
    if column is not None and column in shown.columns(source):
        return column.name
    if measure is not None and measure in shown.measures(source):
        return measure.name
    return None if segment is None else segment.name


def _source(
    session: ToolSession,
    shown: VisibleModel,
    name: str,
    only: Sequence[str] | None,
    parts: Parts,
    pages: Mapping[str, Collection[str]],
) -> tuple[str, int]:
    """Return as much of the text about a source as fits, and the number of lines that did not fit."""
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
    members = [each.name for each in shown.measures(source)] + list(source.segments)
    asked = [each for each in members if only is None or each in only]
    for line in rest_lines(shown, source, only):
        room.add(line)
    for each in (name, *(f"{name}.{member}" for member in asked)):
        if each in pages:
            room.add(f"{each} is explained by the wiki: {', '.join(sorted(pages[each])[:MOST_PAGES])}")
    ids += [member_id(connection, name, each) for each in asked] if not room.left_out else []
    session.ledger.add(*ids)
    return room.text() + "\n", room.left_out


def _pages_naming(session: ToolSession, connection: str, sources: Collection[str]) -> dict[str, set[str]]:
    """Return each semantic layer name that pages about the given sources mention, with the keys of those pages."""
    graph = wiki.graph_about(session.workspace, sources)
    seen = wiki.scopes_seen_from(session.scope)
    named: dict[str, set[str]] = {}
    for page in graph.wiki.pages.values():
        for each in graph.references(page) if page.scope in seen else ():
            if each.kind is not wiki.Kind.PAGE and each.connection in (None, connection):
                named.setdefault(each.name, set()).add(page.key)
    return named


def sampled(session: ToolSession, connection: str, source: Source) -> Mapping[str, tuple[Any, ...]]:
    """Return values seen in a source's columns, if the project allows models to see them."""
    shares = session.privacy == "off" or shares_code_lists(session.privacy, session.share_code_lists)
    if session.values is None or not shares:
        return {}
    may = values_shown(session.model(connection), source, lambda: read_relations(session.workspace, connection))
    found = session.values(connection, source)
    columns = ((source.column(name), values) for name, values in found.items())
    return {column.name: values for column, values in columns if column is not None and may(column)}


_MOST_NAMES: Final = 40
"""Maximum number of columns, measures and segments to list for an unknown one."""


def missing_name(shown: VisibleModel, target: str) -> str:
    """Return the line about a name that does not exist, with the name that was probably meant."""
    outer, _, column = target.rpartition(".")
    owners = named(shown, outer) if outer else []
    target = one_line(target, 100)
    if owners:
        owner = owners[0]
        known = [each.name for each in shown.columns(owner)]
        others = [*(each.name for each in shown.measures(owner)), *owner.segments]
        near = did_you_mean(column, [*known, *others])
        rest = f"; its measures and segments are: {listing(others, 20)}" if others else ""
        advice = f"did you mean `{owner.name}.{near}`?" if near else f"its columns are: {listing(known, 20)}{rest}"
        if not near and len(known) + len(others) > _MOST_NAMES:
            advice = suggestion(column, [*known, *others])
        return one_line(f"`{target}`: `{owner.name}` has no such column, measure or segment; {advice}", 800)
    names = [each.name for each in shown.sources()]
    near = did_you_mean(target, names) or did_you_mean(target.rpartition(".")[2], names)
    advice = f"did you mean `{near}`?" if near else "search for it with discover_data"
    return one_line(f"`{target}`: no source or table of `{shown.model.connection}` has that name; {advice}", 600)


DISCOVERY_TOOLS: Final = (discover_data, entity_details)


_ROOM: Final = LONGEST_RAW - RESERVE
_DOCUMENTS: Final = frozenset({".pdf", ".html", ".htm"})
_MARKDOWN: Final = frozenset({".md", ".markdown"})
_TEXTS: Final = frozenset({".txt", ".rst"})


class ReadFile(Input):
    """The raw file to read."""

    path: str = Field(description="Path of a raw file from the list of this task.")


class ReadSpan(Input):
    """The lines of a raw file to read."""

    path: str = Field(description="Path of a raw file from the list.")
    start_line: int = Field(ge=1, description="First line, starting at 1.")
    end_line: int = Field(ge=1, description="Last line, inclusive.")
    start_character: int = Field(0, ge=0, description="Characters of the first line to skip, if it was cut.")


@tool(longest=LONGEST_RAW)
def read_raw_file(session: ToolSession, value: ReadFile) -> ToolOutput:
    """Read a raw file of this task from the beginning. A long file is cut, and the result says where to continue."""
    file = _file(session, value.path)
    lines = file_lines(file)
    return _span(session, file, lines, 1, len(lines), 0)


@tool(longest=LONGEST_RAW)
def read_raw_span(session: ToolSession, value: ReadSpan) -> ToolOutput:
    """Read lines of a raw file: the rest after read_raw_file cut it, or a known part."""
    file = _file(session, value.path)
    lines = file_lines(file)
    if value.start_line > len(lines) or value.end_line < value.start_line:
        raise Refused(f"{file.path} has the lines 1 to {len(lines)}: request a range of these, in order")
    return _span(session, file, lines, value.start_line, min(value.end_line, len(lines)), value.start_character)


def _span(session: ToolSession, file: RawFile, lines: list[str], first: int, end: int, skip: int) -> ToolOutput:
    """Return as many lines of a file as fit."""
    text = "\n".join(lines[first - 1 : end])[skip:]
    kept, count = cut_lines(text, _ROOM)
    last = first + count - 1
    note = ""
    if len(kept) < len(text):
        whole = text[len(kept)] == "\n"
        start = last + 1 if whole else last
        at = "" if whole else f", start_character {len(kept) + (skip if count == 1 else 0)}"
        note = f"(cut: {len(lines)} lines; continue with read_raw_span, start_line {start}, end_line {end}{at})"
    body = wrapped(kept, f"{file.path} of {session.origin}")
    text = joined(f"Lines {first} to {last} of {len(lines)}:", body, note)
    return ToolOutput(text, {"success": True, "path": file.path, "lines": [first, last, len(lines)], "cut": bool(note)})


def _file(session: ToolSession, path: str) -> RawFile:
    """Return a file of the task; raises `Refused` for any other path."""
    try:
        known = session.known_path(path, session.raw)
        found = session.raw.get(checked_path(path) if known is None else known)
    except UsageError:
        found = None
    if found is not None:
        return found
    near = did_you_mean(path, session.raw)
    advice = f"did you mean `{near}`?" if near else f"raw files: {listing(sorted(session.raw), 20) or 'none'}"
    raise Refused(f"`{path}` is not a raw file of this task; {advice}")


def file_lines(file: RawFile) -> list[str]:
    """Return a file's lines as a model sees them."""
    if b"\0" in file.read()[:8_000] and PurePosixPath(file.path).suffix.lower() not in _DOCUMENTS:
        raise Refused(f"{file.path} is not text, so it cannot be read")
    return visible(raw_text(file)).removesuffix("\n").split("\n")


def raw_text(file: RawFile) -> str:
    """Return a file's text as people read it: HTML and PDF as Markdown, Markdown without HTML comments.

    Documents have neither secrets nor contact data of persons in it. A line of a Markdown file keeps its number.
    """
    suffix = PurePosixPath(file.path).suffix.lower()
    if suffix in _DOCUMENTS:
        return wiki.without_private(read_document(file).markdown)
    if suffix in _MARKDOWN:
        return wiki.without_private(without_comments(file.text()))
    return wiki.without_private(file.text()) if suffix in _TEXTS else file.text()


RAW_TOOLS: Final = (read_raw_file, read_raw_span)
"""Return the reading tools: `read_raw_file` only for tasks with their own files; a loop over a whole run reads
spans.
"""


Reason = Literal[
    "no_connection_mapping",
    "looker_template_unresolved",
    "derived_table_not_supported",
    "no_physical_table",
    "multiple_table_references",
    "unsupported_dialect",
    "parse_error",
    "missing_target_table",
    "cumulative_metric_unsupported",
    "conversion_metric_unsupported",
]
_TABLELESS: Final = ("no_physical_table", "missing_target_table")


class UnmappedFallback(Input):
    """Something that was not imported, the reason, and its replacement."""

    raw_path: str = Field(description="The raw file that contains it.")
    reason: Reason = Field(description="Why it did not become a source.")
    fallback: Literal["sql_standalone", "wiki_only", "flagged"] = Field(
        description="What replaces it: a source with `sql`, a wiki page, or only this record."
    )
    table_ref: str | None = Field(None, max_length=300, description="The table or source it is about.")
    clarification: str | None = Field(None, max_length=500, description="One more sentence, if that helps.")


@tool(reads=False)
def emit_unmapped_fallback(session: ToolSession, value: UnmappedFallback) -> ToolOutput:
    """Record that something in a raw file did not become a source, and why. Once per file, reason and table."""
    path = session.known_path(value.raw_path, session.files)
    if path is None:
        raise Refused(f"`{value.raw_path}` is not a file of this task; files: {listing(session.files, 20) or 'none'}")
    if value.reason in _TABLELESS and value.table_ref is not None:
        found = [
            f"{connection}: {source.name}"
            for connection in sorted(session.connections)
            for source in named(session.shown(connection), value.table_ref)
        ]
        if found:
            raise Refused(f"`{value.table_ref}` exists: {listing(found)}; check it with entity_details and use it")
    made = Fallback(path, value.reason, value.fallback, REASONS[value.reason], value.table_ref, value.clarification)
    same = [(each.raw_path, each.reason, each.fallback, each.table_ref) for each in session.records.fallbacks]
    session.pending.fell_back(value.table_ref)
    if (made.raw_path, made.reason, made.fallback, made.table_ref) not in same:
        session.records.fallbacks.append(made)
    return ToolOutput(f"Recorded for {path}: {made.detail}.", {"success": True})


FALLBACK_TOOLS: Final = (emit_unmapped_fallback,)
