"""Files of a scan that change together or not at all, and texts of people that a scan removes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ktx_cli.core import ConfigError, ResultWarning, listing, yaml
from ktx_cli.scan.committed import FILES
from ktx_cli.scan.descriptions.facts import Described
from ktx_cli.scan.descriptions.record import DESCRIPTIONS, record_bytes
from ktx_cli.scan.relationships.record import RELATIONSHIPS
from ktx_cli.scan.snapshot import MANIFEST, manifest_text, table_path
from ktx_cli.semantic import MANIFEST_HEADER
from ktx_cli.warehouses import TableRef


@dataclass(frozen=True, slots=True)
class LinkedFiles:
    """Which snapshot file belongs to which shard: by both, the next scan tells people's values from generated ones.

    So they change together or not at all. So do the record of relationships, which is one for all tables, and each
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
        """Return `files` less those that are linked to a held path, with a manifest that says so."""
        manifest = f"{self.folder}/{MANIFEST}"
        if held & {manifest, *(f"{self.folder}/{name}" for name in FILES)}:
            return {}
        shards = {shard for raw, shard in self.shard_of.items() if raw in held} | held
        linked = {raw for raw, shard in self.shard_of.items() if shard in shards}
        kept = {path: content for path, content in files.items() if path not in shards and path not in linked}
        if linked:
            kept.pop(f"{self.folder}/{RELATIONSHIPS}", None)
            self._hold_texts(kept, linked)
        if manifest in files:
            kept[manifest] = manifest_text(self.connection, self.driver, self._hashes(linked)).encode()
        return kept

    def _hashes(self, linked: set[str]) -> dict[str, str]:
        hashes = {path: value for path, value in self.new.items() if f"{self.folder}/{path}" not in linked}
        return hashes | {path: value for path, value in self.old.items() if f"{self.folder}/{path}" in linked}

    def _hold_texts(self, kept: dict[str, bytes | None], linked: set[str]) -> None:
        """Leave the record of descriptions as it was for the linked tables."""
        path = f"{self.folder}/{DESCRIPTIONS}"
        if path not in kept:
            return
        held = {ref for ref in (*self.old_texts, *self.new_texts) if f"{self.folder}/{table_path(ref)}" in linked}
        texts = {ref: each for ref, each in self.new_texts.items() if ref not in held}
        texts |= {ref: each for ref, each in self.old_texts.items() if ref in held}
        if texts == self.old_texts:
            del kept[path]
        else:
            kept[path] = record_bytes(texts.values())


_COMMENT = re.compile(r"(?m)(?:^|[ \t])#")


@dataclass(frozen=True, slots=True)
class RemovedTexts:
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
