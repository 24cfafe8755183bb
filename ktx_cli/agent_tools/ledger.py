"""The names a loop really looked up: sources, their members, and tables no source reads.

The tools keep them, not the model. A writer refuses a name that nobody has looked up.
"""

from __future__ import annotations

from collections.abc import Iterable

from ktx_cli.core import ConfigError, one_line
from ktx_cli.protection import Need, _table_entries, source_id, sources_of
from ktx_cli.search import Hit, Shown
from ktx_cli.semantic import Model, Source, table_parts


class Ledger:
    """Names that were looked up, as `warehouse/orders`, `warehouse/orders.amount`, `warehouse/table:raw.orders`."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._entries = set(entries)

    def add(self, *ids: str) -> None:
        """Note names that were resolved."""
        self._entries.update(ids)

    def __contains__(self, id: object) -> bool:
        return id in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def missing(self, needs: Iterable[Need]) -> list[Need]:
        """Return the names none of whose entries is there, each once."""
        found = {need.shown: need for need in needs if self._entries.isdisjoint(need.ids)}
        return [found[shown] for shown in sorted(found)]

    def to_json(self) -> list[str]:
        """Return the entries, sorted."""
        return sorted(self._entries)


def member_id(connection: str, source: str, member: str) -> str:
    """Return the entry of a column, measure or segment."""
    return f"{source_id(connection, source)}.{member.casefold()}"


def noted_ids(model: Model, parts: tuple[str, ...], member: str | None = None) -> frozenset[str]:
    """Return the entries to make of a table that was found in the database, or of a column of it."""
    names = {".".join(parts)} | ({f"*.{parts[-1]}"} if len(parts) > 1 else set())
    return _table_entries(model, parts, names, member)


def refusal_of(missing: Iterable[Need]) -> str:
    """Return what a model reads of names that were never looked up: all of them, with the calls that look them up."""
    needs = list(missing)
    if not needs:
        return ""
    by_tool: dict[str, list[str]] = {}
    for need in needs:
        by_tool.setdefault(need.tool, []).append(f"`{one_line(need.shown, 200)}`")
    lines = [f"- {', '.join(names)}: call {tool}" for tool, names in by_tool.items()]
    return "Never looked up in this session, so nothing was saved:\n" + "\n".join(lines)


def note_hits(ledger: Ledger, hits: Iterable[Hit]) -> None:
    """Note what a search showed of the semantic layer."""
    for each in hits:
        if each.kind == "source":
            ledger.add(source_id(each.connection, each.id))
        elif each.kind in ("measure", "segment", "column"):
            source, _, member = each.id.rpartition(".")
            ledger.add(source_id(each.connection, source), member_id(each.connection, source, member))


def hit_line(hit: Hit) -> str:
    """Return one line about a hit."""
    place = f" of {hit.connection}" if hit.connection else ""
    snippet = f" [{one_line(hit.snippet, 200)}]" if hit.snippet and hit.snippet not in hit.summary else ""
    return f"- {hit.kind} {hit.id}{place}: {one_line(hit.summary, 200)}{snippet}"


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
