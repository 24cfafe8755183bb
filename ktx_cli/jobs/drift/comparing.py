"""Compares the structure of a database with what was known of it; two tables without a change have equal snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ktx_cli.connectors.port import Column, ForeignKey, Index, Table, TableRef, UniqueKey
from ktx_cli.context.scan.names import physical_name
from ktx_cli.core.text import plural
from ktx_cli.jobs.drift.model import Change, ChangeKind


def changes_between(before: Iterable[Table], now: Iterable[Table], *, names_only: bool = False) -> list[Change]:
    """Return what changed, by table; a table or column with another name is one that goes and one that comes.

    `names_only`: names and semantic types (an empty native type: not even that) are all that is known of before.
    """
    old, new = {each.ref: each for each in before}, {each.ref: each for each in now}
    found: list[Change] = []
    for ref in sorted({*old, *new}, key=_order):
        if ref not in old:
            found.append(Change(ChangeKind.TABLE_ADDED, ref, after=_size(new[ref])))
        elif ref not in new:
            found.append(Change(ChangeKind.TABLE_REMOVED, ref, before=_size(old[ref])))
        else:
            found += _of_table(old[ref], new[ref], names_only)
    return found


def _order(ref: TableRef) -> tuple[str, str]:
    return ref.schema or "", ref.name


def _size(table: Table) -> str:
    return f"{table.kind.value} of {plural(len(table.columns), 'column')}"


def _of_table(old: Table, new: Table, names_only: bool) -> Iterator[Change]:
    ref = new.ref
    yield from _columns(old, new, names_only)
    if names_only:
        return
    yield from _differ(ChangeKind.TABLE_KIND, ref, (), old.kind.value, new.kind.value)
    yield from _differ(ChangeKind.TABLE_COMMENT, ref, (), old.comment, new.comment)
    yield from _differ(ChangeKind.VIEW, ref, (), old.view_sql, new.view_sql)
    yield from _primary_key(old, new)
    yield from _foreign_keys(ref, old.foreign_keys, new.foreign_keys)
    yield from _keys(ChangeKind.UNIQUE_KEY_REMOVED, ref, old.unique_keys, new.unique_keys)
    yield from _keys(ChangeKind.UNIQUE_KEY_ADDED, ref, new.unique_keys, old.unique_keys)
    yield from _keys(ChangeKind.INDEX_REMOVED, ref, old.indexes, new.indexes)
    yield from _keys(ChangeKind.INDEX_ADDED, ref, new.indexes, old.indexes)


def _differ(
    kind: ChangeKind, ref: TableRef, columns: tuple[str, ...], old: str | None, new: str | None
) -> Iterator[Change]:
    if old != new:
        yield Change(kind, ref, columns, old, new)


def _columns(old: Table, new: Table, names_only: bool) -> Iterator[Change]:
    before, now = {each.name: each for each in old.columns}, {each.name: each for each in new.columns}
    for name, column in before.items():
        if name not in now:
            yield Change(ChangeKind.COLUMN_REMOVED, new.ref, (name,), _typed(column, names_only))
    for name, column in now.items():
        if name in before:
            yield from _of_column(new.ref, before[name], column, names_only)
        else:
            yield Change(ChangeKind.COLUMN_ADDED, new.ref, (name,), None, _typed(column, names_only))
    kept = [name for name in before if name in now]
    moved = [name for name in now if name in before]
    if kept != moved and not names_only:
        yield Change(ChangeKind.COLUMN_ORDER, new.ref, tuple(moved), ", ".join(kept), ", ".join(moved))


def _of_column(ref: TableRef, old: Column, new: Column, names_only: bool) -> Iterator[Change]:
    name = (new.name,)
    before, after = _typed(old, names_only), _typed(new, names_only)
    if before != after and old.native_type:
        yield Change(ChangeKind.COLUMN_TYPE, ref, name, before, after, breaks_type=old.type is not new.type)
    if names_only:
        return
    yield from _differ(ChangeKind.COLUMN_NULLABLE, ref, name, _nullable(old), _nullable(new))
    yield from _differ(ChangeKind.COLUMN_COMMENT, ref, name, old.comment, new.comment)
    yield from _differ(ChangeKind.COLUMN_DEFAULT, ref, name, old.default, new.default)
    yield from _differ(ChangeKind.COLUMN_GENERATED, ref, name, _generated(old), _generated(new))


def _typed(column: Column, names_only: bool) -> str:
    """Return a type as the database spells it, with what the semantic layer takes it for."""
    return column.type.value if names_only else f"{column.native_type} ({column.type.value})"


def _nullable(column: Column) -> str:
    return "nullable" if column.nullable else "not null"


def _generated(column: Column) -> str | None:
    return "generated" if column.generated else None


def _primary_key(old: Table, new: Table) -> Iterator[Change]:
    if old.primary_key != new.primary_key:
        before, after = (", ".join(key) or None for key in (old.primary_key, new.primary_key))
        yield Change(ChangeKind.PRIMARY_KEY, new.ref, old.primary_key or new.primary_key, before, after)


def _foreign_keys(ref: TableRef, old: Sequence[ForeignKey], new: Sequence[ForeignKey]) -> Iterator[Change]:
    for key in old:
        if key not in new:
            yield Change(ChangeKind.FOREIGN_KEY_REMOVED, ref, key.columns, before=_told(key))
    for key in new:
        if key not in old:
            yield Change(ChangeKind.FOREIGN_KEY_ADDED, ref, key.columns, after=_told(key))


def _told(key: ForeignKey) -> str:
    name = f" ({key.name})" if key.name else ""
    return f"{physical_name(key.target)} ({', '.join(key.target_columns)}){name}"


def _keys(
    kind: ChangeKind, ref: TableRef, some: Sequence[UniqueKey | Index], others: Sequence[UniqueKey | Index]
) -> Iterator[Change]:
    """Yield the keys among some that are not among others."""
    for key in some:
        if key not in others:
            removed = kind in (ChangeKind.UNIQUE_KEY_REMOVED, ChangeKind.INDEX_REMOVED)
            said = f"({', '.join(key.columns)}){f' {key.name}' if key.name else ''}"
            yield Change(kind, ref, key.columns, said if removed else None, None if removed else said)
