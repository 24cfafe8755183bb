"""Which tables a scan profiles: those that somebody asks for or uses come first; others may be left out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import KtxError, ResultWarning
from ktx_cli.scan.review import AuthoredSources
from ktx_cli.scan.stages import connection_warning
from ktx_cli.semantic import Entry, physical_name
from ktx_cli.warehouses import Table, TableRef, named_tables

if TYPE_CHECKING:
    from ktx_cli.project import Database, ProfiledTables
    from ktx_cli.scan.committed import Committed

UNUSED: Final = "unused"
"""The frequency of a table that no statement in the query history reads."""


@dataclass(frozen=True, slots=True)
class TableChoice:
    """The tables that somebody asked for by name, those in use, and those that are not profiled."""

    asked: frozenset[TableRef] = frozenset()
    used: frozenset[TableRef] = frozenset()
    unused: frozenset[TableRef] = frozenset()
    warnings: tuple[ResultWarning, ...] = field(default=())


def choose_tables(
    committed: Committed,
    tables: Sequence[Table],
    profile: ProfiledTables,
    asked: Sequence[str] = (),
    entry: Database | None = None,
) -> TableChoice:
    """Return the choice of a scan. `profile`: the setting. `asked`: names, `schema.table` or `table`.

    A table is in use if the query history or a file of the semantic layer names it, or the connection lists it in
    `enabled_tables`.
    """
    refs = [table.ref for table in tables]
    found = named_tables(refs, asked, "--table")
    wanted = frozenset(found.refs)
    warnings = [connection_warning("table_unknown", committed.connection, each.message) for each in found.problems]
    enabled = tuple(getattr(entry, "enabled_tables", None) or ())
    used = frozenset(named_tables(refs, enabled, "enabled_tables").refs) | frozenset(_in_use(committed, refs))
    unused = frozenset(refs) - used - wanted if profile == "used" else frozenset()
    return TableChoice(wanted, used, unused, tuple(warnings))


def _in_use(committed: Committed, refs: Iterable[TableRef]) -> Iterator[TableRef]:
    """Yield the tables that the query history or the semantic layer uses."""
    by_physical = {physical_name(ref): ref for ref in refs}
    by_source: dict[str, TableRef] = {}
    try:
        shards = committed.shards
    except KtxError:  # The manifest's own plan reports it.
        return
    for shard in shards.values():
        for name, entry in shard.tables.items():
            ref = by_physical.get(str(entry.get("table")))
            if ref is not None:
                by_source[name] = ref
                if _is_queried(entry):
                    yield ref
    names: dict[str, list[TableRef]] = defaultdict(list)
    for physical, ref in by_physical.items():
        names[physical.casefold()].append(ref)
        names[ref.name.casefold()].append(ref)
    for name, files in AuthoredSources.read(committed.base, committed.connection).files.items():
        if name in by_source:
            yield by_source[name]
        for file in files:
            yield from (by_source[to] for to in _joined(file.document) if to in by_source)
            for text in (file.document.get("table"), file.document.get("sql")):
                yield from _named(text, names)


def _is_queried(entry: Entry) -> bool:
    usage = entry.get("usage")
    return isinstance(usage, Mapping) and usage.get("frequencyTier", UNUSED) != UNUSED


def _joined(document: Mapping[str, Any]) -> Iterator[str]:
    joins = document.get("joins")
    for join in joins if isinstance(joins, list) else ():
        if isinstance(join, Mapping):
            yield str(join.get("to"))


_PART: Final = r"(?:\"(?:[^\"]|\"\")+\"|`[^`]+`|\[[^\]]+\]|[\w$-]+)"
_NAME: Final = re.compile(rf"{_PART}(?:\s*\.\s*{_PART})*")
_QUOTES: Final = re.compile(r"[\"`\[\]]")


def _named(text: object, names: Mapping[str, Sequence[TableRef]]) -> Iterator[TableRef]:
    """Yield the tables that occur in a table name or a statement."""
    if not isinstance(text, str):
        return
    for match in _NAME.finditer(text.casefold()):
        word = ".".join(_QUOTES.sub("", part).strip() for part in re.findall(_PART, match[0]))
        yield from names.get(word, ()) or names.get(word.rpartition(".")[2], ())
