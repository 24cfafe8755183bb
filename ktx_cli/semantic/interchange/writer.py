"""Drafts as the YAML of ktx: changes of the manifest's sources, and sources of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ktx_cli.core import listing, yaml
from ktx_cli.semantic.interchange.drafts import NAME, ColumnDraft, SourceDraft, file_of, filled
from ktx_cli.semantic.interchange.report import Imported, Report
from ktx_cli.semantic.model import Visibility

IMPORT_HEADER = "# Imported from {tool}: the next import replaces this file. Take this line out to keep your changes.\n"
"""First line of every imported file; a file without it is people's own."""

HEADER_START = IMPORT_HEADER.split("{", maxsplit=1)[0]


def imported(drafts: Iterable[SourceDraft], report: Report, tool: str) -> Imported:
    """Return the files of the drafts; `tool` is who the descriptions are from."""
    files = {}
    for draft in drafts:
        if draft.base is None and not draft.columns:
            report.dropped(f"source `{draft.name}`", "it names no column", draft.place)
            continue
        _guess_types(draft, report)
        document = _overlay(draft, report, tool) if draft.base is not None else _standalone(draft, tool)
        if len(document) > 1:
            files[file_of(draft.name)] = IMPORT_HEADER.format(tool=tool) + yaml.dump(document)
    return Imported(files, report.sorted())


def _guess_types(draft: SourceDraft, report: Report) -> None:
    """Take columns without a type for texts, and say so."""
    guessed = [each for each in draft.columns.values() if each.type is None and draft.physical(each.name) is None]
    if draft.base is None:
        guessed = [each for each in draft.columns.values() if each.type is None]
    for column in guessed:
        column.type = "string"
    if guessed:
        names = listing([column.name for column in guessed], 20)
        why = f"nothing says it of {names}: taken for texts"
        report.approximated(f"types of columns of `{draft.name}`", why, draft.place, draft.name)


def _standalone(draft: SourceDraft, tool: str) -> dict[str, Any]:
    own = [_column(column, tool) for column in draft.columns.values()]
    origin = {"table": draft.table, "sql": draft.sql}
    return filled({"name": draft.name, **origin, **_shared(draft, tool), "columns": own, **_lists(draft)})


def _overlay(draft: SourceDraft, report: Report, tool: str) -> dict[str, Any]:
    overridden, computed = [], []
    for column in draft.columns.values():
        if column.expr is not None:
            computed.append(_column(column, tool))
        elif (name := draft.physical(column.name)) is None:
            why = f"the table of `{draft.name}` has no such column"
            report.dropped(f"column `{column.name}` of `{draft.name}`", why, draft.place)
        elif len(entry := _override(draft, column, name, tool)) > 1:
            overridden.append(entry)
    return filled({
        "name": draft.name, **_shared(draft, tool), "column_overrides": overridden, "columns": computed, **_lists(draft)
    })  # fmt: skip


def _shared(draft: SourceDraft, tool: str) -> dict[str, Any]:
    """Return what both kinds of files say; a grain only where the manifest does not know it."""
    knows = draft.base is not None and draft.base.keyed
    return {
        "descriptions": {tool: draft.description} if draft.description else None,
        "grain": None if knows else list(draft.grain),
        "default_time_dimension": {tool: draft.time} if draft.time else None,
        **draft.extra,
        "visibility": _stricter(draft.extra.get("visibility"), draft.base.visibility if draft.base else None),
    }


def _lists(draft: SourceDraft) -> dict[str, Any]:
    return {
        "joins": draft.joins,
        "measures": list(draft.measures.values()),
        "segments": list(draft.segments.values()),
        "policies": list(draft.policies.values()),
    }


def _column(column: ColumnDraft, tool: str) -> dict[str, Any]:
    return filled({
        "name": column.name, "type": column.type, "expr": column.expr, "visibility": _visibility(column),
        "descriptions": {tool: column.description} if column.description else None, **column.extra,
    })  # fmt: skip


def _visibility(column: ColumnDraft) -> str | None:
    """Return what must be said: of a computed column also that it is public, as it may read an internal one."""
    return None if column.visibility == "public" and column.expr is None else column.visibility


def _override(draft: SourceDraft, column: ColumnDraft, name: str, tool: str) -> dict[str, Any]:
    """Return what changes of a column of the manifest; it is never shown to more than before."""
    entry = _column(column, tool)
    entry.pop("type", None)
    known = draft.base.columns[name].visibility if draft.base is not None else None
    entry["visibility"] = _stricter(column.visibility, known)
    return {**filled(entry), "name": name}


def _stricter(wanted: str | None, known: Visibility | None) -> str | None:
    """Return the visibility to write: none where the manifest's is as strict already."""
    order = list(Visibility)
    is_stricter = wanted is not None and order.index(Visibility(wanted)) > order.index(known or Visibility.PUBLIC)
    return wanted if is_stricter else None


_WORDS: Final = frozenset({"and", "true", "false", "null"})


def on_text(pairs: Iterable[tuple[str, str]], hop: str) -> str:
    """Return the `on` of a join: (own column, the other's) all equal; names in double quotes where they need it."""
    return " AND ".join(f"{_named(own)} = {_named(hop)}.{_named(other)}" for own, other in pairs)


def _named(name: str) -> str:
    plain = NAME.fullmatch(name) is not None and name.lower() not in _WORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def reach(drafts: Iterable[SourceDraft]) -> None:
    """Let expressions of each source name all it reaches over joins to one row."""
    by_name = {draft.name: draft for draft in drafts}
    edges: dict[str, list[tuple[str, SourceDraft]]] = {name: [] for name in by_name}
    for draft in by_name.values():
        for join in draft.joins:
            target = by_name.get(join["to"])
            if target is not None and join["relationship"] != "one_to_many":
                edges[draft.name].append((join.get("alias") or target.name, target))
            if target is not None and join["relationship"] != "many_to_one" and "alias" not in join:
                edges[target.name].append((draft.name, draft))
    for draft in by_name.values():
        ways = list(edges[draft.name])
        while ways:
            hop, target = ways.pop()
            if hop != draft.name and hop not in draft.hops:
                draft.hops[hop] = target
                ways += edges[target.name]
