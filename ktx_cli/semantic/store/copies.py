"""The files of the manifest as they are now, parsed: from the store of the layer where it has exactly these bytes."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from ktx_cli.core import KtxError, ResultWarning
from ktx_cli.project import Layout, WorkingTree
from ktx_cli.semantic.manifest import Entry, Shard, parse_shard, shard_files
from ktx_cli.semantic.store.reader import LayerStore, store_path, stored_by_this_version


class ParsedCopies:
    """The parsed shards of one connection, found by the sha256 of the text they were parsed from."""

    def __init__(self, layout: Layout, connection: str) -> None:
        self._layout, self._connection = layout, connection

    def parse(self, content: bytes, where: str) -> Shard:
        """Return the shard, from the store when it has exactly these bytes. Raises as `parse_shard`."""
        digest = hashlib.sha256(content).hexdigest()
        document = self._document(digest)
        return parse_shard(content, where) if document is None else Shard(document, digest)

    def _document(self, digest: str) -> dict[str, Any] | None:
        if self._store is None:
            return None
        query = "SELECT number, rest FROM files WHERE sha256 = ? AND rest IS NOT NULL AND kind = 'shard'"
        rows = self._store.ask(query, (digest,))
        if not rows:
            return None
        number, rest = rows[0]
        query = "SELECT name, document FROM entries WHERE file = ? ORDER BY number"
        tables = {name: json.loads(text) for name, text in self._store.ask(query, (number,))}
        return {key: tables if key == "tables" else value for key, value in json.loads(rest).items()}

    @functools.cached_property
    def _store(self) -> LayerStore | None:
        return stored_by_this_version(self._layout, self._connection)


def has_store(layout: Layout, connection: str) -> bool:
    """Say whether a run has stored the layer of a connection."""
    return store_path(layout, connection).exists()


@dataclass(frozen=True, slots=True)
class Manifest:
    """All generated sources of a connection: source name -> entry, and the shards that could not be read."""

    tables: dict[str, Entry]
    problems: tuple[ResultWarning, ...] = ()


def load_manifest(layout: Layout, connection: str) -> Manifest:
    """Read the manifest from the working tree; a broken shard is a problem and does not block the others."""
    tree, copies = WorkingTree(layout.root), ParsedCopies(layout, connection)
    tables: dict[str, Entry] = {}
    problems: list[ResultWarning] = []
    for path in shard_files(layout, connection):
        where = path.relative_to(layout.root).as_posix()
        try:
            content = tree.read(where)
            if content is not None:
                tables.update(copies.parse(content, where).tables)
        except KtxError as error:
            problems.append(ResultWarning("broken_shard", error.message, hint=error.hint, path=where))
    return Manifest(tables, tuple(problems))
