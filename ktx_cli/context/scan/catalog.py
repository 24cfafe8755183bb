"""Reads a connection's manifest fast: a parsed copy in `.ktx/cache`, written by runs only, stands in for the YAML."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktx_cli.context.scan.manifest import Entry
from ktx_cli.context.scan.shards import SUFFIXES, Shard, parse_shard
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import is_utf8
from ktx_cli.project.files import read_bytes, write_atomic
from ktx_cli.project.layout import Layout

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """All generated sources of a connection: source name -> entry, and the shards that could not be read."""

    tables: dict[str, Entry]
    problems: tuple[ResultWarning, ...] = ()

    @property
    def column_count(self) -> int:
        """How many columns all sources have together."""
        columns = (entry.get("columns") for entry in self.tables.values())
        return sum(len(listed) for listed in columns if isinstance(listed, list))


class ParsedCopies:
    """The parsed shards of one connection, found by the sha256 of the text they were parsed from."""

    def __init__(self, layout: Layout, connection: str) -> None:
        self._path = layout.cache / f"manifest-{connection}.json"
        self._documents: dict[str, dict[str, Any]] | None = None

    def parse(self, content: bytes, where: str) -> Shard:
        """Return the shard, from the copy when there is one for exactly these bytes."""
        digest = hashlib.sha256(content).hexdigest()
        document = self._load().get(digest)
        return Shard(document, digest) if document is not None else parse_shard(content, where)

    def _load(self) -> dict[str, dict[str, Any]]:
        """Read the copies; they are disposable, so an unreadable file counts as none."""
        if self._documents is None:
            try:
                stored = json.loads(read_bytes(self._path) or b"{}")
                self._documents = dict(stored["shards"]) if stored.get("format") == FORMAT else {}
            except (ValueError, TypeError, KeyError, AttributeError):
                self._documents = {}
        return self._documents


def write_parsed_copies(layout: Layout, connection: str, shards: Mapping[str, Shard]) -> None:
    """Store the parsed shards of a connection; for runs only."""
    path = layout.cache / f"manifest-{connection}.json"
    documents = {shard.sha256: shard.document for shard in shards.values()}
    text = json.dumps({"format": FORMAT, "shards": documents}, separators=(",", ":"))
    if json.loads(text)["shards"] != documents:  # JSON has no keys but text: such a shard is parsed each time
        documents = {key: value for key, value in documents.items() if json.loads(json.dumps(value)) == value}
        text = json.dumps({"format": FORMAT, "shards": documents}, separators=(",", ":"))
    write_atomic(path, text.encode())


def has_parsed_copies(layout: Layout, connection: str) -> bool:
    """Say whether a run has stored copies for the connection."""
    return (layout.cache / f"manifest-{connection}.json").exists()


def load_manifest(layout: Layout, connection: str) -> Manifest:
    """Read the manifest from the working tree; a broken shard is a problem and does not block the others."""
    copies = ParsedCopies(layout, connection)
    tables: dict[str, Entry] = {}
    problems: list[ResultWarning] = []
    for path in shard_files(layout, connection):
        where = path.relative_to(layout.root).as_posix()
        try:
            content = read_bytes(path)
            if content is not None:
                tables.update(copies.parse(content, where).tables)
        except KtxError as error:
            problems.append(ResultWarning("broken_shard", error.message, hint=error.hint, path=where))
    return Manifest(tables, tuple(problems))


def shard_files(layout: Layout, connection: str) -> list[Path]:
    """Return the shard files of a connection in the working tree, sorted."""
    folder = layout.schema_dir(connection)
    found = folder.glob("*") if folder.is_dir() else ()
    return sorted(path for path in found if path.suffix in SUFFIXES and is_utf8(path.name))
