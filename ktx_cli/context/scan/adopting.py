"""Texts under the keys of scans that no scan of ours recorded: another program's, or of a record that is lost.

They count as generated: they stay until there is a text to take their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.scan.describe.facts import TEXT_KEYS, Described, Source
from ktx_cli.context.scan.manifest import Entry
from ktx_cli.context.scan.names import physical_name
from ktx_cli.context.scan.shards import Places, Shard


def adopted_texts(
    refs: Iterable[TableRef], recorded: Mapping[TableRef, Described], shards: Mapping[str, Shard], places: Places
) -> dict[TableRef, Described]:
    """Return the texts of tables that are not `recorded`, with an empty hash: they answer to nothing known."""
    found = {}
    for ref in refs:
        place = places.primary.get(physical_name(ref))
        if ref in recorded or place is None:
            continue
        path, name = place
        described = _described(ref, shards[path].tables[name])
        if described is not None:
            found[ref] = described
    return found


def _described(ref: TableRef, entry: Entry) -> Described | None:
    """Return the texts of an entry: the model's where there is one, else those of rules."""
    sources: tuple[Source, ...] = ("ai", "rules")
    for source in sources:
        key = TEXT_KEYS[source]
        text = _text(entry, key)
        listed = entry.get("columns")
        texts = {str(column.get("name")): _text(column, key) for column in (listed if isinstance(listed, list) else [])}
        columns = {name: said for name, said in texts.items() if said is not None}
        if text is not None or columns:
            return Described(ref, "", source, text, columns)
    return None


def _text(fields: Mapping[str, Any], key: str) -> str | None:
    texts = fields.get("descriptions")
    text = texts.get(key) if isinstance(texts, dict) else None
    return text if isinstance(text, str) else None
