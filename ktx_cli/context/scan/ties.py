"""What must change together or not at all: a table's shard, its snapshot file, and what the records say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.scan.describe.described import record_bytes
from ktx_cli.context.scan.describe.facts import Described
from ktx_cli.context.scan.records import DESCRIPTIONS, FILES, RELATIONSHIPS
from ktx_cli.context.scan.snapshot import MANIFEST, manifest_text, table_path


@dataclass(frozen=True, slots=True)
class Ties:
    """What ties a table's snapshot file to its shard: the next scan tells people's values from generated ones by both.

    So they change together or not at all. So does the record of relationships, which tells for all tables, and each
    table's part of the descriptions. `shard_of`: snapshot path -> shard path. `old`, `new`: path below `folder` ->
    sha256, before and after; `old_texts`, `new_texts`: the record of descriptions, before and after.
    """

    connection: str
    driver: str
    folder: str
    shard_of: Mapping[str, str]
    old: Mapping[str, str]
    new: Mapping[str, str]
    old_texts: Mapping[TableRef, Described] = field(default_factory=dict)
    new_texts: Mapping[TableRef, Described] = field(default_factory=dict)

    def without(self, files: Mapping[str, bytes | None], held: frozenset[str]) -> dict[str, bytes | None]:
        """Return `files` less what is tied to a held path, with a manifest that says so."""
        manifest = f"{self.folder}/{MANIFEST}"
        if held & {manifest, *(f"{self.folder}/{name}" for name in FILES)}:
            return {}
        shards = {shard for raw, shard in self.shard_of.items() if raw in held} | held
        tied = {raw for raw, shard in self.shard_of.items() if shard in shards}
        kept = {path: content for path, content in files.items() if path not in shards and path not in tied}
        if tied:
            kept.pop(f"{self.folder}/{RELATIONSHIPS}", None)
            self._hold_texts(kept, tied)
        if manifest in files:
            kept[manifest] = manifest_text(self.connection, self.driver, self._hashes(tied)).encode()
        return kept

    def _hashes(self, tied: set[str]) -> dict[str, str]:
        hashes = {path: value for path, value in self.new.items() if f"{self.folder}/{path}" not in tied}
        return hashes | {path: value for path, value in self.old.items() if f"{self.folder}/{path}" in tied}

    def _hold_texts(self, kept: dict[str, bytes | None], tied: set[str]) -> None:
        """Leave the record of descriptions as it was for the tied tables."""
        path = f"{self.folder}/{DESCRIPTIONS}"
        if path not in kept:
            return
        held = {ref for ref in (*self.old_texts, *self.new_texts) if f"{self.folder}/{table_path(ref)}" in tied}
        texts = {ref: each for ref, each in self.new_texts.items() if ref not in held}
        texts |= {ref: each for ref, each in self.old_texts.items() if ref in held}
        if texts == self.old_texts:
            del kept[path]
        else:
            kept[path] = record_bytes(texts.values())
