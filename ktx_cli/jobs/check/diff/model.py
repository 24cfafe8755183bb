"""What `ktx diff` tells: changes of a database's structure, what each breaks, and all connections together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ktx_cli.core import Command, Hint, KtxError, PartialError, Record, listing, plural
from ktx_cli.protection import Use
from ktx_cli.semantic import physical_name
from ktx_cli.warehouses import TableRef


class ChangeKind(StrEnum):
    """What happened to a table, or to a part of one."""

    TABLE_ADDED = "table_added"
    TABLE_REMOVED = "table_removed"
    TABLE_KIND = "table_kind_changed"
    VIEW = "view_definition_changed"
    TABLE_COMMENT = "table_comment_changed"
    COLUMN_ADDED = "column_added"
    COLUMN_REMOVED = "column_removed"
    COLUMN_TYPE = "column_type_changed"
    COLUMN_NULLABLE = "column_nullable_changed"
    COLUMN_COMMENT = "column_comment_changed"
    COLUMN_DEFAULT = "column_default_changed"
    COLUMN_GENERATED = "column_generated_changed"
    COLUMN_ORDER = "column_order_changed"
    PRIMARY_KEY = "primary_key_changed"
    FOREIGN_KEY_ADDED = "foreign_key_added"
    FOREIGN_KEY_REMOVED = "foreign_key_removed"
    UNIQUE_KEY_ADDED = "unique_key_added"
    UNIQUE_KEY_REMOVED = "unique_key_removed"
    INDEX_ADDED = "index_added"
    INDEX_REMOVED = "index_removed"


REFERRED_TO: Final = frozenset(
    {
        *(ChangeKind.TABLE_REMOVED, ChangeKind.COLUMN_REMOVED, ChangeKind.COLUMN_TYPE, ChangeKind.COLUMN_NULLABLE),
        *(ChangeKind.PRIMARY_KEY, ChangeKind.FOREIGN_KEY_REMOVED, ChangeKind.UNIQUE_KEY_REMOVED),
    }
)
"""Changes that what refers to the table or column is asked about."""

_BREAKS_REFERENCES: Final = REFERRED_TO - {ChangeKind.COLUMN_TYPE, ChangeKind.COLUMN_NULLABLE}


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `columns`: those it is about. `before`, `after`: as the database says it; None: not there.

    `breaks_type`: the semantic layer takes the column for another type now. `uses`: what refers to it.
    """

    kind: ChangeKind
    table: TableRef
    columns: tuple[str, ...] = ()
    before: str | None = None
    after: str | None = None
    breaks_type: bool = False
    uses: tuple[Use, ...] = ()

    @property
    def breaking(self) -> bool:
        """Whether a reference leads nowhere now, or a column has another type for the semantic layer."""
        return self.breaks_type or (self.kind in _BREAKS_REFERENCES and bool(self.uses))

    @property
    def what(self) -> str:
        """The table, or the column or columns of it."""
        name = physical_name(self.table)
        if not self.columns or self.kind is ChangeKind.COLUMN_ORDER:
            return name
        return f"{name}.{self.columns[0]}" if len(self.columns) == 1 else f"{name} ({', '.join(self.columns)})"

    def to_json(self) -> dict[str, Any]:
        """Return the change as it stands in the envelope."""
        return {
            "kind": self.kind.value,
            "table": physical_name(self.table),
            "columns": list(self.columns),
            "before": self.before,
            "after": self.after,
            "breaking": self.breaking,
            "used_by": [use.to_json() for use in self.uses],
        }


@dataclass(slots=True)
class ConnectionDrift:
    """One connection. `error`: why nothing is known.

    `basis`: `snapshot`, what the last scan saw, or `manifest`, which knows names and semantic types alone.
    """

    connection: str
    driver: str
    basis: str | None = None
    tables: int = 0
    columns: int = 0
    changes: tuple[Change, ...] = ()
    seconds: float = 0.0
    error: KtxError | None = None

    @property
    def status(self) -> str:
        """`unchanged`, `drift` or `failed`."""
        return "failed" if self.error is not None else "drift" if self.changes else "unchanged"

    @property
    def result(self) -> str:
        """One line for a person."""
        if self.error is not None:
            return f"failed: {self.error.message}"
        counts = f"{plural(self.tables, 'table')}, {plural(self.columns, 'column')}"
        breaking = sum(change.breaking for change in self.changes)
        changed = f"{plural(len(self.changes), 'change')}, {breaking} breaking" if self.changes else "as it was scanned"
        return f"{counts}; {changed}"

    def to_json(self) -> dict[str, Any]:
        """Return the connection's part of the answer."""
        return {
            "connection": self.connection,
            "driver": self.driver,
            "status": self.status,
            "result": self.result,
            "compared_with": self.basis,
            "tables": self.tables,
            "columns": self.columns,
            "changes": [change.to_json() for change in self.changes],
            "seconds": round(self.seconds, 3),
            "error": None if self.error is None else self.error.to_json(),
        }


@dataclass(slots=True)
class Drift(Record):
    """All connections that were looked at."""

    connections: list[ConnectionDrift] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return how many changes there are, how many of them break something, and how many of each kind."""
        changes = [change for connection in self.connections for change in connection.changes]
        kinds = Counter(change.kind.value for change in changes)
        return {"changes": len(changes), "breaking": sum(c.breaking for c in changes), **dict(sorted(kinds.items()))}

    json_keys = ("connections", "counts")

    def error(self, *, breaking: bool) -> KtxError | None:
        """Return the error to end with; `breaking`: changes that break nothing are none."""
        failed = [connection.error for connection in self.connections if connection.error is not None]
        if failed:
            return _failed(failed) if len(failed) == len(self.connections) else self._partial(failed)
        counts = self.counts()
        count = counts["breaking" if breaking else "changes"]
        if not count:
            return None
        drifted = [connection for connection in self.connections if connection.status == "drift"]
        names = [connection.connection for connection in drifted]
        what = plural(count, "breaking change" if breaking else "change")
        message = f"{what} since the last scan: {listing(f'connection `{name}`' for name in names)}"
        return KtxError(message, hint=self._way_out(names), details=counts, code="drift")

    def _way_out(self, connections: Sequence[str]) -> Hint:
        """Return what to do: edit the definitions that break, where there are some, and ingest."""
        ingest = Command("ingest", *connections)
        uses = (
            use
            for connection in self.connections
            for change in connection.changes
            if change.breaking
            for use in change.uses
        )
        direct = [use.part for use in uses if use.via is None and not use.part.scan and use.part.place is not None]
        edits = dict.fromkeys(f"{part.kind} {part.name} ({part.place})" for part in direct)
        return Hint("edit {}; then: {}", listing(edits), ingest) if edits else ingest

    def _partial(self, failed: Sequence[KtxError]) -> PartialError:
        message = f"compared with errors; skipped: {listing((error.message for error in failed), 3)}"
        details = {
            **self.counts(),
            "left_out": [connection.connection for connection in self.connections if connection.error is not None],
        }
        return PartialError(message, hint=failed[0].hint, details=details)


def _failed(errors: Sequence[KtxError]) -> KtxError:
    if len(errors) == 1:
        return errors[0]
    codes = {error.code for error in errors}
    code = codes.pop() if len(codes) == 1 else "failed"
    return KtxError(listing((error.message for error in errors), 3), hint=errors[0].hint, code=code)
