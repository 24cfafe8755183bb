"""Joins as the files declare them, and what makes two of them the same."""

from __future__ import annotations

from collections.abc import Collection

from ktx_cli.context.scan.overlays import plain_on
from ktx_cli.context.semantic.loading.entry import Entry
from ktx_cli.context.semantic.loading.on import Sides, parse_on
from ktx_cli.context.semantic.model import Join, Relationship
from ktx_cli.core.errors import ConfigError

JOIN_KEYS = frozenset(("to", "on", "relationship", "alias", "source"))
RELATIONSHIPS = tuple(each.value for each in Relationship)
PROVENANCES = ("formal", "inferred", "manual")

Key = tuple[str, str, str | None]
"""What makes two joins of a source the same: `to`, `on` with single blanks, the alias."""


def join_key(join: Join) -> Key:
    """Return what makes a join the same as another one of its source."""
    return join.to, plain_on(join.on), join.alias


def read_join(entry: Entry, own: str, dialect: str, columns: Collection[str]) -> Join | None:
    """Return a join, None where something in it is wrong.

    `own` is the source it is declared in, `columns` are its columns.
    """
    entry.check_keys(JOIN_KEYS)
    to, on, alias = entry.required("to"), entry.required("on"), entry.text("alias")
    relationship = _relationship(entry)
    provenance = entry.word("source", PROVENANCES)
    if entry.failed or relationship is None:
        return None
    try:
        parts = parse_on(on, Sides(own, to, alias, dialect, columns))
    except ConfigError as error:
        what = f"the `on` of a join from `{own}` to `{to}` cannot be used ({plain_on(on)}): {error.message}"
        entry.error("join_on", what, "on", hint=error.hint)
        return None
    return Join(to, on, parts.pairs, relationship, alias, parts.conditions, provenance, entry.place)


def _relationship(entry: Entry) -> Relationship | None:
    word = entry.word("relationship", RELATIONSHIPS)
    if word is None and not entry.failed:
        hint = f"add relationship: {'|'.join(RELATIONSHIPS)}, from this source to the other"
        entry.error("missing", f"{entry.what} has no `relationship`", hint=hint)
    return Relationship(word) if word else None
