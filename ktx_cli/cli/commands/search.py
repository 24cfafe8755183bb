"""`ktx search`, `ktx pack` and `ktx index`: search the context of a project by words and by meaning."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ktx_cli.cli.blocks import Block, Fields, Lines, Table
from ktx_cli.cli.commands.completion import connection_option, near_subcommand
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.settings import WAIT
from ktx_cli.core import Command, Hint, Placeholder, ResultWarning, listing, one_line, plural

if TYPE_CHECKING:
    from ktx_cli.project import Mount, Mounts
    from ktx_cli.search import Found, Hit, Refreshed, Scope

commands = typer.Typer()


_MOST_NOTES = 3
_SUMMARY = 100
_MOST_STEPS = 4
_MOST_VALUES = 3
"""Maximum number of values of a column that a row shows."""
_VALUES_LOOKED_AT = 100
"""Number of hits beyond the limit to inspect, because values of one column share a row."""


Kind = StrEnum("Kind", ("SOURCE", "MEASURE", "SEGMENT", "PAGE", "COLUMN", "PASSAGE", "VALUE"))
"""The kinds of search results."""


@command(commands, "search")
def search(
    session: Session,
    words: Annotated[list[str], Argument(metavar="QUERY", help="Words to search for.")],
    kind: Annotated[list[Kind] | None, Option("--kind", help="Only find this kind. Can be repeated.")] = None,
    connection: Annotated[
        str | None, connection_option("Only search this connection, and pages that belong to no connection.")
    ] = None,
    limit: Annotated[int, Option("--limit", min=1, max=1000, help="Maximum number of results.")] = 20,
    user: Annotated[str | None, Option("--user", metavar="ID", help="Also search the pages of this user.")] = None,
) -> Result:
    """Search the semantic layer, wiki, column values and documents.

    Read a passage of a document with `ktx wiki read` and its name.

    Examples:
        ktx search guest card
        ktx search --kind measure revenue
        ktx search "when does the fiscal year begin" --limit 5
    """
    from ktx_cli.search import Scope

    query = " ".join(words).strip()
    kinds = tuple(each.value for each in kind or ())
    mounts = session.mounts()
    if mounts is not None and connection is None:
        data, rows = found_everywhere(session, mounts, query, Scope(kinds, None, user), limit)
        return _answer(data, rows, _next_commands(rows, at_root=True), at_root=True)
    return session.run_at(
        connection, lambda session, own: _search(session, query, Scope(kinds, own, user), limit), asks="project"
    )


def _search(session: Session, query: str, scope: Scope, limit: int) -> Result:
    from ktx_cli.agent_tools import hit_of_mount, search
    from ktx_cli.jobs.decide.notes import DefinitionNotes
    from ktx_cli.project import file_name_warnings
    from ktx_cli.search import grouped_values
    from ktx_cli.semantic import load_layer

    layout, config = session.load_project(with_mounts=True)
    answer = search(layout, config, query, environ=os.environ, scope=scope, limit=limit)
    found = answer.found
    rows = grouped_values(found.hits)
    if len(found.hits) < found.total and any(values for _, values in rows):  # others of their columns may follow
        more = search(layout, config, query, environ=os.environ, scope=scope, limit=limit + _VALUES_LOOKED_AT)
        rows = grouped_values(more.found.hits)[:limit]
    session.warn(*answer.warnings, *file_name_warnings(layout.root))
    notes = DefinitionNotes(layout, lambda connection: load_layer(layout, config, connection))
    open_notes = [notes.of_hit(hit.connection, hit.kind, hit.id) for hit in found.hits]
    data = hits_data(session, query, replace(found, hits=tuple(hit_of_mount(session.mount, hit) for hit in found.hits)))
    for hit, lines in zip(data["hits"], open_notes, strict=True):
        hit["open"] = lines
    steps = _next_commands(rows)  # by the names of the project, which they are run on
    named = [(hit_of_mount(session.mount, hit), values) for hit, values in rows]
    return _answer(data, named, steps)


def _answer(data: dict[str, Any], rows: Rows, steps: Sequence[Command], *, at_root: bool = False) -> Result:
    blocks: list[Block] = [_hits_table(rows, at_root=at_root) if rows else Fields((("found", "nothing"),))]
    lines = dict.fromkeys("note: " + each for hit in data["hits"] for each in hit["open"])
    return Result(data, blocks, next_steps=steps, notes=list(lines)[:_MOST_NOTES])


def found_everywhere(
    session: Session, mounts: Mounts, query: str, scope: Scope, limit: int, group: tuple[str, typer.Typer] | None = None
) -> tuple[dict[str, Any], Rows]:
    """Return the matches in a project and all its mounts, as the answer's data and as rows."""
    from ktx_cli.agent_tools import search_mounts
    from ktx_cli.jobs.decide.notes import DefinitionNotes
    from ktx_cli.jobs.semantic.layers import DefinitionStatuses
    from ktx_cli.project import file_name_warnings
    from ktx_cli.search import grouped_values
    from ktx_cli.semantic import load_layer

    answer = search_mounts(mounts, query, environ=os.environ, scope=scope, limit=limit + _VALUES_LOOKED_AT)
    rows = grouped_values(answer.found.hits)[:limit]
    session.warn(*answer.warnings, *file_name_warnings(mounts.root.root))
    data = hits_data(session, query, replace(answer.found, hits=answer.found.hits[:limit]), group=group)
    looked: dict[str, tuple[DefinitionNotes, DefinitionStatuses]] = {}
    for mount, layout, config in mounts.projects():
        load = functools.partial(load_layer, layout, config)
        looked["" if mount is None else mount.name] = DefinitionNotes(layout, load), DefinitionStatuses(layout, load)
    for hit in data["hits"]:
        mount, connection = mounts.split(hit["connection"])
        notes, statuses = looked["" if mount is None else mount.name]
        open_notes = notes.of_hit(connection, hit["kind"], hit["id"])
        hit["open"] = open_notes if mount is None else [mount.placed(each) for each in open_notes]
        hit["status"] = statuses.of_hit(connection, hit["kind"], hit["id"])
    return data, rows


def hits_data(
    session: Session, query: str, found: Found, *, group: tuple[str, typer.Typer] | None = None
) -> dict[str, Any]:
    """Return hits as plain values; warn about every word without a match that is similar to an indexed word.

    `group`: the name and the commands of the group that searches. A search without a hit, whose first word is similar
    to one of the commands, suggests the command.
    """
    for word, meant in found.corrected.items():
        session.warn(ResultWarning("corrected", f"no match for `{word}`; searched for `{meant}` instead"))
    for word, meant in found.suggested.items():
        session.warn(ResultWarning("suggested", f"no match for `{word}`", hint=f"did you mean `{meant}`?"))
    if group is not None and not found.hits:
        name, commands = group
        first = query.split()[0]
        near = near_subcommand(commands, first)
        if near is not None:
            message = f"no match for `{one_line(first, 60)}`, and `ktx {name}` has no such command"
            session.warn(ResultWarning("suggested", message, hint=Hint("did you mean `{}`?", Command(name, near))))
    hits = [hit.to_json() for hit in found.hits]
    words = {"corrected": dict(found.corrected), "suggested": dict(found.suggested)}
    return {"query": query, "hits": hits, "total": found.total, **words}


Rows = Sequence[tuple["Hit", Sequence[str]]]
"""Hits, each with the values that the hit represents."""


def _hits_table(found: Rows, *, at_root: bool) -> Table:
    several = at_root or len({hit.connection for hit, _ in found if hit.connection}) > 1
    rows = tuple(
        (
            *([hit.connection] if several else []),
            hit.kind,
            hit.id.partition(" = ")[0] if len(values) > 1 else hit.id,
            _shown(hit, values),
            ", ".join(hit.matched_on),
        )
        for hit, values in found
    )
    columns = (*(["connection"] if several else []), "kind", "name", "summary", "matched on")
    return Table(columns, rows, optional=frozenset({"matched on"}))


def _shown(hit: Hit, values: Sequence[str]) -> str:
    return one_line(listing(values, _MOST_VALUES) if len(values) > 1 else hit.summary, _SUMMARY)


def _next_commands(found: Rows, *, at_root: bool = False) -> list[Command]:
    """Return a follow-up command for the first hit of each kind.

    `at_root`: each command names its connection, because connections without hits count too.
    """
    measure = next((hit.id for hit, _ in found if hit.kind == "measure"), Placeholder("MEASURE"))
    commands = {
        "measure": ("sl", "query", "-m"),
        "source": ("sl", "read"),
        "segment": ("sl", "query", "-m", measure, "--segment"),
        "column": ("sl", "query", "-m", measure, "-d"),
        "value": ("sl", "query", "-m", measure, "--filter"),
    }
    several = at_root or len({hit.connection for hit, _ in found if hit.kind in commands}) > 1
    steps: dict[tuple[str, ...], Command] = {}
    for hit, _ in found:
        words = commands.get(hit.kind, ("wiki", "read"))
        of = ("-c", hit.connection) if several and hit.kind in commands else ()
        steps.setdefault(words, Command(*words, hit.id, *of))
    return list(steps.values())[:_MOST_STEPS]


_TOKENS = 2_400
_LEAST, _MOST = 500, 32_000


@command(commands, "pack")
def pack(
    session: Session,
    words: Annotated[list[str], Argument(metavar="QUESTION", help="Question to answer.")],
    tokens: Annotated[
        int, Option("--tokens", metavar="N", min=_LEAST, max=_MOST, help="Maximum size of the pack in tokens.")
    ] = _TOKENS,
    connection: Annotated[str | None, connection_option("Only use this database.")] = None,
    user: Annotated[str | None, Option("--user", metavar="ID", help="Also use the pages of this user.")] = None,
    values: Annotated[bool, Option("--values/--no-values", help="Include column values.")] = True,
) -> Result:
    """Gather the context needed to answer a question.

    Prints tables, joins, measures, rules, open decisions and a draft query. Agents get the same from the
    `context_pack` tool of the MCP server. Does not call models or connect to databases.

    Examples:
        ktx pack "Net revenue by region in 2025?"
        ktx pack --tokens 2000 "How many orders were shipped late?"
    """
    from ktx_cli.agent_tools import open_searcher
    from ktx_cli.jobs.pack.pack import PackedProject, PackRequest, pack_of_several
    from ktx_cli.project import connection_of
    from ktx_cli.semantic import load_layer

    mounts = session.mounts()
    own, config = session.load_project(with_mounts=True)
    chosen: tuple[Mount | None, str | None] = (None, connection)
    if mounts is not None and connection is not None:
        chosen = mounts.split(connection)
    every = [(None, own, config)] if mounts is None else mounts.projects()
    asked = every if mounts is not None and connection is None else [each for each in every if each[0] is chosen[0]]
    with contextlib.ExitStack() as stack:
        projects = []
        for mount, layout, settings in asked:
            if chosen[1]:
                connection_of(settings, chosen[1])
            searcher = open_searcher(layout, settings, os.environ)
            stack.callback(searcher.close)
            seen = values and settings.scan.privacy != "strict"
            request = PackRequest(" ".join(words), tokens, chosen[1] or None, user, values=seen, mount=mount)
            projects.append(PackedProject(layout, settings, request, searcher, load_layer))
        found = projects[0].pack() if len(projects) == 1 else pack_of_several(projects)
    session.warn(*found.warnings)
    return Result(found.to_json(), [Lines(tuple(found.text.rstrip("\n").split("\n")))])


@command(commands, "index")
def index(session: Session, wait: WAIT = None) -> Result:
    """Update the search index.

    Run it after you edit context files, clone the project or change the embedding model. Each mounted project gets
    its own index, in its own folder.

    Examples:
        ktx index
        ktx index --wait 60
    """
    return session.run_each(None, lambda session, _: _indexed(session, wait))


def _indexed(session: Session, wait: float | None) -> Result:
    from ktx_cli.jobs.index import index_project

    layout, config = session.load_project(with_mounts=True)
    done = index_project(
        layout, config, os.environ, wait_seconds=wait or 0.0, emit=session.emitter(), warn=session.warn
    )
    return Result(done.to_json(), [Fields(tuple(_facts(done)))], done.error, is_report=True)


def _facts(done: Refreshed) -> list[tuple[str, str]]:
    changed = f"{done.added:,} added, {done.removed:,} removed" if done.added or done.removed else "none"
    facts = [("documents", f"{done.documents:,}"), ("changes", "rebuilt" if done.rebuilt else changed)]
    return facts + ([("vectors", f"{plural(done.vectors, 'document')} embedded")] if done.vectors else [])
