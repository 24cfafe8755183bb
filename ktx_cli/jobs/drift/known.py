"""What is known of a database without asking it: the snapshot of the last scan, or else the manifest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ktx_cli.connectors.port import Column, SemanticType, Table, TableKind, TableRef
from ktx_cli.connectors.scope import parse_name
from ktx_cli.context.scan.catalog import ParsedCopies
from ktx_cli.context.scan.committed import Committed
from ktx_cli.context.scan.manifest import Entry
from ktx_cli.context.scan.shards import Places
from ktx_cli.core.errors import ConfigError, NotReadyError, ResultWarning
from ktx_cli.core.text import shell_words
from ktx_cli.jobs.relationships import WorkingFiles
from ktx_cli.project.layout import Layout

SNAPSHOT, MANIFEST = "snapshot", "manifest"


@dataclass(frozen=True, slots=True)
class Known:
    """The tables as they were. `basis`: whether a snapshot says so, or the manifest, which knows less."""

    tables: tuple[Table, ...]
    basis: str
    warnings: tuple[ResultWarning, ...] = ()


def read_known(layout: Layout, connection: str) -> Known:
    """Return what the files of a project know; `NotReadyError` for a connection that was never scanned."""
    committed = Committed(WorkingFiles(layout.root), connection, ParsedCopies(layout, connection))
    before = committed.before
    if before.tables is not None:
        return Known(before.tables, SNAPSHOT)
    if not committed.shards:
        hint = shell_words("ktx", "ingest", connection)
        raise NotReadyError(f"connection `{connection}` was never scanned", hint=hint)
    places = Places.find(committed.shards, ())
    entries = [committed.shards[path].tables[name] for path, name in places.primary.values()]
    return Known(tuple(_tables(entries)), MANIFEST, tuple(_damaged(each) for each in before.warnings))


def _damaged(found: ResultWarning) -> ResultWarning:
    message = f"{found.message.partition(';')[0]}; compared with the manifest alone"
    return ResultWarning(found.code, message, hint=found.hint, **found.details)


def _tables(entries: Iterable[Entry]) -> Iterable[Table]:
    for entry in entries:
        ref = _ref(str(entry.get("table")))
        columns = [each for each in entry.get("columns") or () if "name" in each and "expr" not in each]
        if ref is not None:
            yield Table(ref, TableKind.TABLE, tuple(map(_column, columns)))


def _column(fields: dict[str, Any]) -> Column:
    """Return a column as the manifest has it; without a native type where it has no type that is known."""
    kind = str(fields.get("type"))
    known = kind in [each.value for each in SemanticType]
    return Column(str(fields["name"]), kind if known else "", SemanticType(kind if known else "string"))


def _ref(name: str) -> TableRef | None:
    """Return the table of a `table:`, None for one that names none."""
    try:
        *above, table = parse_name(name)
    except (ConfigError, ValueError):
        return None
    return TableRef(above[-1] if above else None, table)
