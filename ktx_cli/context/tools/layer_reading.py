"""Tools that read the semantic layer: what there is, one source in detail, what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from pydantic import Field

from ktx_cli.context.search.model import Scope
from ktx_cli.context.search.shown import Shown
from ktx_cli.context.semantic.loading import read_source
from ktx_cli.context.semantic.model import Source
from ktx_cli.context.tools.calling import Input, Tool
from ktx_cli.context.tools.defined_names import defined_names
from ktx_cli.context.tools.discovery import hit_line, named, note_hits
from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.layer_checking import problems_text
from ktx_cli.context.tools.ledger import member_id, source_id
from ktx_cli.context.tools.limits import LONGEST, RESERVE, Parts, cut_lines, joined, shortened
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.source_text import column_line, headline, names_of, rest_lines
from ktx_cli.context.tools.untrusted import visible, wrapped
from ktx_cli.core.text import did_you_mean, listing, one_line, plural
from ktx_cli.llm.tools import ToolOutput

MOST_LISTED: Final = 25
IN_DETAIL: Final = 5
_KINDS: Final = ("source", "measure", "segment")


class DiscoverSources(Input):
    """What to look for among the sources."""

    connection: str | None = Field(None, description="One connection; without it all that are available.")
    query: str | None = Field(None, max_length=500, description="Words; without them the sources are listed.")
    source: str | None = Field(None, description="One source, shown in detail.")


class ReadSource(Input):
    """Which definition to read."""

    connection: str | None = Field(None, description="The connection; needed where there are several.")
    source: str = Field(min_length=1, description="Name of the source.")
    start_line: int = Field(1, ge=1, description="Line to begin at, where a long one was cut.")


class Validate(Input):
    """What to check."""

    connection: str | None = Field(None, description="The connection; needed where there are several.")


def _discover(session: ToolSession, value: DiscoverSources) -> ToolOutput:
    if value.source is not None:
        return _one(session, session.connection(value.connection), value.source)
    ids = [session.connection(value.connection)] if value.connection is not None else sorted(session.connections)
    if not ids:
        raise Refused("no connection with a semantic layer is available here")
    if value.query is None:
        return _listed(session, ids)
    scope = Scope(_KINDS, None if value.connection is None else ids[0])
    found = session.search(value.query, scope, MOST_LISTED)
    if not found:
        return ToolOutput("Nothing fits. Try other words, or list the sources without a query.", {"success": True})
    note_hits(session, found)
    owners = [(each.connection, each.id if each.kind == "source" else each.id.rpartition(".")[0]) for each in found]
    parts = Parts()
    for connection, name in list(dict.fromkeys(owners))[:IN_DETAIL]:
        parts.add(_detail(session, session.shown(connection), name))
    for each in found:
        parts.add(hit_line(each))
    more = parts.more("parts", "ask with more words, or for one source")
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
    more = parts.more("lines", "ask for one connection, or with a query")
    return ToolOutput(joined(wrapped(parts.text(), "the semantic layer"), more), {"success": True, "sources": count})


def _one(session: ToolSession, connection: str, name: str) -> ToolOutput:
    shown = session.shown(connection)
    source = the_source(shown, name)
    text = _detail(session, shown, source.name)
    return ToolOutput(wrapped(text, f"the semantic layer of {connection}"), {"success": True, "source": source.name})


def _detail(session: ToolSession, shown: Shown, name: str) -> str:
    """Return a source with as much of it as a fifth of a result holds, and note what is shown."""
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


def the_source(shown: Shown, name: str) -> Source:
    """Return the source of a name; `Refused` where there is none, or it is not shown."""
    found = named(shown, name)
    if len(found) == 1:
        return found[0]
    names = [each.name for each in found or shown.sources()]
    near = did_you_mean(name, names)
    advice = f"did you mean `{near}`?" if near and not found else f"there are: {listing(names, 20) or 'none'}"
    raise Refused(one_line(f"`{shown.model.connection}` has no one source `{name}`; {advice}", 600))


def _read(session: ToolSession, value: ReadSource) -> ToolOutput:
    connection = session.connection(value.connection)
    shown = session.shown(connection)
    name = _spelled(shown, value.source)
    files = read_source(session.workspace, connection, name)
    known = shown.model.sources.get(name)
    if not files or (known is not None and not shown.has(known)):
        the_source(shown, value.source)
        raise Refused(f"`{name}` has no definition that can be read here")
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
    """Return the names the pieces of a definition, a blank line between two, define on these lines of the whole."""
    found: set[str] = set()
    begun = 0
    for piece in pieces:
        found |= defined_names(piece, range(lines.start - begun, lines.stop - begun))
        begun += piece.count("\n") + 2
    return frozenset(found)


def _note_read(session: ToolSession, shown: Shown, source: Source, names: Collection[str]) -> None:
    """Note the source, and those of its parts whose definition was read."""
    connection = shown.model.connection
    members = [*(each.name for each in shown.columns(source)), *(each.name for each in shown.measures(source))]
    read = [each for each in (*members, *source.segments) if each.casefold() in names]
    session.ledger.add(source_id(connection, source.name), *(member_id(connection, source.name, each) for each in read))


def _spelled(shown: Shown, name: str) -> str:
    alike = [each for each in shown.model.sources if each.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else name


def _validate(session: ToolSession, value: Validate) -> ToolOutput:
    connection = session.connection(value.connection)
    touched = {each.key for each in session.actions if each.target == "sl" and each.connection == connection}
    problems = list(session.problems(session.workspace, connection))
    own = [each for each in problems if each.source in touched]
    errors = [each for each in own if each.severity == "error"]
    told = joined(
        problems_text("Errors:", errors),
        problems_text("Warnings:", [each for each in own if each.severity != "error"]),
        "" if own else "Nothing is wrong with what this session wrote.",
    )
    names = [each.name for each in session.shown(connection).sources()]
    others = len(problems) - len(own)
    rest = f"{plural(others, 'other problem')} in files this session did not write." if others else ""
    return ToolOutput(
        joined(wrapped(told, f"checks of {connection}"), rest, f"Sources: {shortened(listing(names, 100), 6_000)}"),
        {"success": not errors, "errors": len(errors), "others": others},
    )


TOOLS: Final = (
    Tool(
        "sl_discover",
        "Look for sources, measures and segments of the semantic layer by words, list them, or show one.",
        DiscoverSources,
        _discover,
    ),
    Tool(
        "sl_read_source",
        "Read the definition of a source as it stands in its files, to edit it.",
        ReadSource,
        _read,
    ),
    Tool("sl_validate", "Check what this session wrote in the semantic layer.", Validate, _validate),
)
