"""What the tools of a loop really looked up: sources, what they have, and tables no source reads.

The tools keep it, not the model. A writer refuses a name that nobody has looked up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ktx_cli.context.semantic.model import Model, Source
from ktx_cli.core.text import one_line

_TABLE: Final = "table:"


@dataclass(frozen=True, slots=True)
class Need:
    """A name a writer met: `shown` is how it is told, `ids` are the entries of a ledger of which one is enough.

    `tool`: the call that would look it up.
    """

    shown: str
    ids: frozenset[str]
    tool: str


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


def source_id(connection: str, source: str) -> str:
    """Return the entry of a source."""
    return f"{connection}/{source.casefold()}"


def member_id(connection: str, source: str, member: str) -> str:
    """Return the entry of a column, measure or segment."""
    return f"{source_id(connection, source)}.{member.casefold()}"


def table_ids(model: Model, parts: tuple[str, ...], member: str | None = None) -> frozenset[str]:
    """Return the entries of which one is enough for a table as the database calls it, or for a column of it.

    Those of the sources that read it; its own; where it is named without a schema, those of any schema.
    """
    names = {".".join(parts), parts[-1], f"*.{parts[-1]}" if len(parts) == 1 else parts[-1]}
    return _table_entries(model, parts, names, member)


def noted_ids(model: Model, parts: tuple[str, ...], member: str | None = None) -> frozenset[str]:
    """Return the entries to make of a table that was found in the database, or of a column of it."""
    names = {".".join(parts)} | ({f"*.{parts[-1]}"} if len(parts) > 1 else set())
    return _table_entries(model, parts, names, member)


def _table_entries(model: Model, parts: tuple[str, ...], names: set[str], member: str | None) -> frozenset[str]:
    ending = "" if member is None else f".{member.casefold()}"
    found = {f"{source_id(model.connection, each.name)}{ending}" for each in sources_of(model, parts)}
    return frozenset(found | {f"{model.connection}/{_TABLE}{name.casefold()}{ending}" for name in names})


def sources_of(model: Model, parts: tuple[str, ...]) -> list[Source]:
    """Return the sources that read a table; a name without a schema stands for those of every schema."""
    return [each for each in model.sources.values() if each.table is not None and same_table(each.table, parts)]


def same_table(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two names of tables can be of one table, as far as both say it."""
    count = min(len(one), len(other))
    return [part.casefold() for part in one[-count:]] == [part.casefold() for part in other[-count:]]


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
