"""The documents of the last runs as something to search: their passages, read again from where a run found them."""

from __future__ import annotations

import functools
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ktx_cli.context.documents.library import Library, Place
from ktx_cli.context.search.index.parts import Passages
from ktx_cli.context.search.passages import Passage
from ktx_cli.context.sources.model import RawFile
from ktx_cli.context.sources.raw_store import RawStore
from ktx_cli.context.sources.registry import DRIVERS, source_for
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.files import read_bytes
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import read_state

_FETCHES = "SELECT connection, kind, files FROM fetches ORDER BY connection"


def passages_of(layout: Layout, config: KtxConfig) -> list[Passages]:
    """Return the documents of every source that is still configured, as its last run had them."""
    found = read_state(layout, lambda database: _fetched(database, config)) or {}
    return [Passages(source, files, _loader(layout, config, source, files)) for source, files in found.items()]


def passage_of(layout: Layout, config: KtxConfig, key: str) -> Passage | None:
    """Return the passage of a citation key, as a search gave it; None where its document has none of that key now."""
    source, _, rest = key.partition(":")
    path = rest.rsplit(":", 2)[0]
    found = read_state(layout, lambda database: _fetched(database, config)) or {}
    files = found.get(source, {})
    passages = _loader(layout, config, source, files)(path) if path in files else ()
    return next((each for each in passages if each.id == key), None)


def _fetched(database: sqlite3.Connection, config: KtxConfig) -> dict[str, dict[str, str]]:
    """Return source of documents -> path -> sha256."""
    sources = config.sources()
    rows = ((id_, kind, files) for id_, kind, files in database.execute(_FETCHES) if id_ in sources)
    return {id_: json.loads(files) for id_, kind, files in rows if _is_of_documents(sources[id_], kind)}


def _is_of_documents(entry: Any, kind: str) -> bool:
    if entry.driver not in DRIVERS:
        return False
    source = source_for(entry.driver)
    return source.documents and source.kind == kind


def _loader(
    layout: Layout, config: KtxConfig, source: str, files: Mapping[str, str]
) -> Callable[[str], Iterable[Passage]]:
    store, folders = RawStore(layout.raw_store), list(_folders(layout, config.sources()[source]))

    def load(path: str) -> Iterator[Passage]:
        raw = store.find(path, files[path]) or _on_disk(folders, path, files[path])
        if raw is not None:
            yield from Library({source: {path: raw}}).to_search(Place(source, path))

    return load


def _folders(layout: Layout, entry: Any) -> Iterator[Path]:
    """Yield the folder of a source whose files are not copied: they are on this disk."""
    if entry.driver == "documents":
        base = Path(getattr(entry, "repo_url", None) or "").expanduser()
        yield layout.root / base / Path(entry.path).expanduser()


def _on_disk(folders: Iterable[Path], path: str, sha256: str) -> RawFile | None:
    """Return a file as it was, None where it is another one meanwhile, or gone."""
    for folder in folders:
        content = read_bytes(folder / path)
        if content is not None and hashlib.sha256(content).hexdigest() == sha256:
            return RawFile(path, sha256, len(content), functools.partial(bytes, content))
    return None
