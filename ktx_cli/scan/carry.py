"""Texts under the keys of scans that no scan of ours recorded: another program's, or of a record that is lost.

They count as generated: they stay until there is a text to take their place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ktx_cli.core import ConfigError, ResultWarning, listing, yaml
from ktx_cli.scan.committed import DESCRIPTIONS, FILES, MANIFEST, RELATIONSHIPS, manifest_text, table_path
from ktx_cli.scan.descriptions.facts import TEXT_KEYS, Described, Source
from ktx_cli.scan.descriptions.record import record_bytes
from ktx_cli.scan.shards import Places
from ktx_cli.semantic import MANIFEST_HEADER, Entry, Shard, physical_name
from ktx_cli.warehouses import TableRef


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


_COMMENT = re.compile(r"(?m)(?:^|[ \t])#")


@dataclass(frozen=True, slots=True)
class Losses:
    """`tables`: physical name of a removed table people wrote about -> its shard. `comments`: shards that had some."""

    tables: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()

    @property
    def shards(self) -> frozenset[str]:
        """The shards that lose something."""
        return frozenset({*self.tables.values(), *self.comments})

    def warnings(
        self, connection: str, written: Collection[str], replaced: Mapping[str, str]
    ) -> Iterator[ResultWarning]:
        """Yield a warning for either kind, of the shards in `written`; `replaced`: path -> where its old text is."""
        tables = [table for table, shard in sorted(self.tables.items()) if shard in written]
        if tables:
            message = f"connection `{connection}`: removed with what people wrote about them: {listing(tables)}"
            hint = _hint({self.tables[table] for table in tables}, replaced)
            yield ResultWarning("removed_text", message, hint=hint, tables=tables)
        shards = [shard for shard in self.comments if shard in written]
        if shards:
            message = f"connection `{connection}`: comments are gone from {listing(shards)}, which ktx wrote anew"
            hint = f"{_hint(shards, replaced)}; what is to stay goes into a `descriptions` value"
            yield ResultWarning("removed_comments", message, hint=hint, paths=shards)


def _hint(shards: Collection[str], replaced: Mapping[str, str]) -> str:
    kept = [replaced[shard] for shard in sorted(shards) if shard in replaced]
    return f"the text before is in {listing(kept)}" if kept else "the last commit before this one has the text"


def has_comments(content: bytes, where: str) -> bool:
    """Say whether a shard that can be parsed holds comments other than the one ktx writes at its top."""
    text = content.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").removeprefix(MANIFEST_HEADER)
    if _COMMENT.search(text) is None:
        return False
    try:
        root = yaml.compose(text, where=where)
    except ConfigError:  # it was read before it came here, as bytes; then nothing can be said of its comments
        return False
    pieces, position = [], 0
    for node in _scalars(root):
        pieces += [text[position : node.start], _outside(text[node.start : node.end]) if node.style in "|>" else "x"]
        position = node.end
    return _COMMENT.search("".join(pieces) + text[position:]) is not None


def _scalars(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """Yield the scalars of a document in the order of its text."""
    waiting = [] if root is None else [root]
    while waiting:
        node = waiting.pop()
        if node.kind == "scalar":
            yield node
        below = [*node.items, *(part for pair in node.pairs for part in pair)]
        waiting += reversed(below)


def _outside(block: str) -> str:
    """Return what does not belong to the text of a block scalar: its header line, and comments below it."""
    header, _, body = block.partition("\n")
    lines = [line for line in body.split("\n") if line.strip()]
    indent = len(lines[0]) - len(lines[0].lstrip(" ")) if lines else 0
    return "\n".join([header, *(line for line in lines if len(line) - len(line.lstrip(" ")) < indent)])
