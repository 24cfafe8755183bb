"""`inherits_columns_from`: what a source of its own does not say of a column is taken from the manifest's."""

from __future__ import annotations

from collections.abc import Mapping

from ktx_cli.context.semantic.loading.columns import ColumnDraft
from ktx_cli.context.semantic.loading.entry import Entry, unknown_name
from ktx_cli.context.semantic.loading.sources import SourceDraft
from ktx_cli.core.text import listing

KEY = "inherits_columns_from"


def inherit(entry: Entry, draft: SourceDraft, manifest: Mapping[str, SourceDraft]) -> None:
    """Fill in the columns' blank types, descriptions, roles and meanings from the named entry of the manifest."""
    wanted = entry.text(KEY)
    if wanted is None:
        return
    found = _entries(wanted, manifest)
    if len(found) != 1:
        what = f"`{KEY}` of {entry.what} is `{wanted}`, which " + (
            f"could be {listing(sorted(each.name for each in found))}" if found else "the manifest does not have"
        )
        entry.error(
            "unknown_source",
            what,
            KEY,
            hint=f"write {KEY}: {found[0].name}" if found else unknown_name(wanted, manifest),
        )
        if entry.trouble is not None:  # what is hidden there would be hidden here
            draft.bar(entry.trouble)
        return
    if found[0].barred is not None:
        draft.bar(found[0].barred)
    for column in draft.columns.values():
        base = found[0].find(column.name)
        if base is not None and column.expr is None:
            _fill(column, base)


def _entries(wanted: str, manifest: Mapping[str, SourceDraft]) -> list[SourceDraft]:
    """Return the entries of that name, else of that table, else of tables whose name ends in it, whatever the case."""
    if wanted in manifest:
        return [manifest[wanted]]
    folded = wanted.casefold().replace('"', "")
    for fits in (_is_named, _is_table, _ends_table):
        found = [draft for draft in manifest.values() if fits(draft, folded)]
        if found:
            return found
    return []


def _is_named(draft: SourceDraft, folded: str) -> bool:
    return draft.name.casefold() == folded


def _is_table(draft: SourceDraft, folded: str) -> bool:
    return ".".join(draft.table or ()).casefold() == folded


def _ends_table(draft: SourceDraft, folded: str) -> bool:
    path = ".".join(draft.table or ()).casefold()
    return path.endswith(f".{folded}") or folded.endswith(f".{path}")


def _fill(column: ColumnDraft, base: ColumnDraft) -> None:
    column.type = column.type or base.type
    column.role = column.role or base.role
    column.descriptions = {**base.descriptions, **column.descriptions}
    column.visibility = column.visibility or base.visibility
    column.natural_granularity = column.natural_granularity or base.natural_granularity
    column.timezone = column.timezone or base.timezone
    column.unit = column.unit or base.unit
    column.values = column.values or base.values
