"""Overlays: files that change a source of the manifest."""

from __future__ import annotations

from typing import Any

from ktx_cli.context.scan.overlays import DISABLED, plain_on
from ktx_cli.context.semantic.loading.columns import OVERRIDES, ColumnDraft, override, read_column
from ktx_cli.context.semantic.loading.entry import Entry, unknown_name
from ktx_cli.context.semantic.loading.protection import VISIBILITY
from ktx_cli.context.semantic.loading.sources import SHARED_KEYS, SourceDraft, read_body

EXCLUDED, OVERRIDDEN = "exclude_columns", "column_overrides"
KEYS = frozenset((*SHARED_KEYS, "name", EXCLUDED, OVERRIDDEN, DISABLED))
_REFUSED = {
    "description": "write it as descriptions: {user: ...}",
    "inherits_columns_from": "remove it: an overlay has the columns of its source",
}


def apply_overlay(entry: Entry, draft: SourceDraft, dialect: str) -> None:
    """Change a source as the overlay says; what an overlay may not say is an error and left out.

    Where nobody can say which columns it takes out or hides, the source is lost.
    """
    excluded = _exclude(entry, draft)
    _override(entry, draft, excluded)
    draft.lost = draft.lost or entry.failed
    for name in excluded:
        del draft.columns[name]
    _refuse_keys(entry)
    entry.check_keys(KEYS)
    _add_computed(entry, draft, dialect)
    _disable_joins(entry, draft)
    read_body(entry, draft, dialect)


def _refuse_keys(entry: Entry) -> None:
    for key, hint in _REFUSED.items():
        if entry.values.get(key) is not None:
            entry.error("forbidden_key", f"{entry.what} is an overlay, which cannot have `{key}`", key, hint=hint)
    entry.values = {key: value for key, value in entry.values.items() if key not in _REFUSED}


def _exclude(entry: Entry, draft: SourceDraft) -> set[str]:
    """Return the columns taken out, as the source spells them."""
    found: set[str] = set()
    for index, name in enumerate(entry.names(EXCLUDED) or ()):
        column = draft.find(name)
        if column is None:
            what = f"`{EXCLUDED}` of {entry.what} names `{name}`, which `{draft.name}` does not have"
            entry.warn("unknown_column", what, EXCLUDED, index, hint=unknown_name(name, draft.columns))
        else:
            found.add(column.name)
    return found


def _override(entry: Entry, draft: SourceDraft, excluded: set[str]) -> None:
    """Change columns, but none that is excluded too: both cannot be meant."""
    visibilities: dict[str, Any] = {}
    for item in entry.items(OVERRIDDEN, "column override"):
        name = item.required("name")
        column = draft.find(name)
        if not name:
            continue
        if column is None:
            what = f"{item.what} is for a column that `{draft.name}` does not have"
            item.error("unknown_column", what, "name", hint=unknown_name(name, draft.columns))
        elif column.name in excluded:
            item.error(
                "forbidden_key",
                f"{item.what} is for a column that `{EXCLUDED}` takes out",
                hint="remove one of the two",
            )
        elif not _agrees(visibilities, column.name, item):
            what = f"{item.what} is there twice, with another `{VISIBILITY}` each time"
            item.error("duplicate", what, hint="remove one of the two")
        else:
            _override_one(item, column)


def _agrees(visibilities: dict[str, Any], name: str, item: Entry) -> bool:
    """Note the visibility of a column, and return whether no override before said another one."""
    if VISIBILITY not in item.values:
        return True
    visibility = item.values[VISIBILITY]
    return bool(visibilities.setdefault(name, visibility) == visibility)


def _override_one(item: Entry, column: ColumnDraft) -> None:
    for key in ("type", "expr"):
        if key in item.values:
            hint = f"remove it; for another {key} exclude the column and add one under `columns` with another name"
            item.error("forbidden_key", f"{item.what} cannot change `{key}`", key, hint=hint)
    item.check_keys((*OVERRIDES, "type", "expr"))
    override(item, column)
    column.place = item.place


def _add_computed(entry: Entry, draft: SourceDraft, dialect: str) -> None:
    """Add the columns of an overlay, which are computed ones."""
    for name, column in entry.read_all("columns", "column", lambda item: _computed(item, draft, dialect)).items():
        draft.columns[name] = column


def _computed(item: Entry, draft: SourceDraft, dialect: str) -> ColumnDraft | None:
    column = read_column(item, dialect, generated=False)
    if column is None:
        return None
    if column.name in draft.columns:
        hint = f"give it another name, or change that column under `{OVERRIDDEN}`"
        item.error("duplicate", f"{item.what} has the name of a column of `{draft.name}`", "name", hint=hint)
    elif column.expr is None or column.type is None:
        missing = "expr" if column.expr is None else "type"
        if not item.failed:
            item.error("missing", f"{item.what} of an overlay has no `{missing}`", hint=f"add `{missing}:` to it")
    return None if item.failed else column


def _disable_joins(entry: Entry, draft: SourceDraft) -> None:
    """Take out the joins whose `on` is listed, compared without regard to blanks."""
    for index, listed in enumerate(entry.names(DISABLED) or ()):
        found = [key for key in draft.joins if key[1] == plain_on(listed)]
        draft.disabled += [draft.joins.pop(key) for key in found]
        if not found:
            what = f"`{DISABLED}` of {entry.what} lists `{listed}`, which is the `on` of no join of `{draft.name}`"
            entry.warn(
                "unknown_join", what, DISABLED, index, hint=unknown_name(listed, (key[1] for key in draft.joins))
            )
