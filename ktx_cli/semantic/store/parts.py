"""The parts of a layer's files in a store: the entries for each source, and the sources they depend on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any, Final

from ktx_cli.project import SCHEMA_NAME
from ktx_cli.semantic.load.entries import SourceFile
from ktx_cli.semantic.manifest import DISABLED, plain_on
from ktx_cli.semantic.store.codec import NotStorable, plain

JOINS: Final = "joins"
"""A source joins another, so its joins use that source's spelling of columns."""
INHERITS: Final = "inherits"
"""A source inherits types and texts of columns from another, which it refers to by name or by table."""
DISABLES: Final = "disables"
"""A source disables joins in the manifest, its own and those from the other side."""


def is_shard(path: str) -> bool:
    """Whether a layer file belongs to the manifest, according to its path: `semantic-layer/shop/_schema/main.yaml`."""
    return path.split("/")[2:3] == [SCHEMA_NAME]


def parts_of(file: SourceFile) -> tuple[str | None, list[tuple[str, str, Any]]]:
    """Return a file's parts as JSON: its content besides tables, and (source, text, document) for each table.

    In the first, `tables` is 0, to keep its position. It is None, and there are no parts, for a document that does not
    survive a round trip through JSON.
    """
    document = file.document
    try:
        if not is_shard(file.path):
            text = json.dumps(plain(document), ensure_ascii=False, separators=(",", ":"))
            return "{}", [(str(document["name"]), text, document)]
        tables = document.get("tables", {})
        if not isinstance(tables, dict):
            return None, []
        rest = json.dumps(plain({key: 0 if key == "tables" else value for key, value in document.items()}))
        return rest, [
            (name, json.dumps(plain(entry), ensure_ascii=False, separators=(",", ":")), entry)
            for name, entry in _plain_items(tables)
        ]
    except NotStorable:
        return None, []


def _plain_items(tables: Mapping[Any, Any]) -> Iterable[tuple[str, Any]]:
    """Return the entries of a shard; raises `NotStorable` if one has a name that is not text, or is not a mapping."""
    for name, entry in tables.items():
        if not isinstance(name, str) or not isinstance(entry, dict):
            raise NotStorable
        yield name, entry


def needs_of(document: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Return (lower-case name, reason) of the sources that a source's entry needs, without a name for `DISABLES`."""
    joins = document.get("joins")
    for join in joins if isinstance(joins, list) else ():
        target = join.get("to") if isinstance(join, dict) else None
        if isinstance(target, str):
            yield target.casefold(), JOINS
    if document.get(DISABLED):
        yield "", DISABLES
    base = document.get("inherits_columns_from")
    if isinstance(base, str):
        yield base.casefold().replace('"', "").rpartition(".")[2], INHERITS


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """The declarations in a source's entry. `columns` and `measures`: how many names; `joins`: the `on` of each.

    `disabled`: the `on` of the joins that it removes; `is_overlay`: whether it has neither a table nor SQL.
    """

    columns: int
    measures: int
    joins: tuple[str, ...]
    disabled: tuple[str, ...]
    is_overlay: bool

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> EntryFacts:
        """Return the facts about an entry."""
        disabled = document.get(DISABLED)
        return cls(
            len(declared_names(document, "columns")),
            len(declared_names(document, "measures")),
            tuple(str(join.get("on")) for join in _mappings(document, "joins")),
            tuple(map(plain_on, disabled)) if isinstance(disabled, list) else (),
            "table" not in document and "sql" not in document,
        )

    @classmethod
    def load(cls, text: str) -> EntryFacts:
        """Return the facts from the JSON that `dump` wrote."""
        columns, measures, joins, disabled, is_overlay = json.loads(text)
        return cls(columns, measures, tuple(joins), tuple(disabled), is_overlay)

    def dump(self) -> str:
        """Return the facts as JSON."""
        return json.dumps(astuple(self), ensure_ascii=False, separators=(",", ":"))


def declared_names(document: Mapping[str, Any], key: str) -> set[str]:
    """Return the names of the columns or measures (`key`) that an entry lists."""
    return {str(each.get("name")) for each in _mappings(document, key)}


def _mappings(document: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    items = document.get(key)
    return (each for each in (items if isinstance(items, list) else ()) if isinstance(each, dict))


def path_entries(file: SourceFile | None) -> list[tuple[str, Any]]:
    """Return (source, document) of the entries in a file, or none for one that could not be read."""
    return [] if file is None else [(name, document) for name, _, document in parts_of(file)[1]]
