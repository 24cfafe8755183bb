"""The search index beside the files: whether a search can use it as it is. Nothing is written, no model loaded."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ktx_cli.connectors.registry import dialect_of
from ktx_cli.context.scan.shards import SUFFIXES
from ktx_cli.context.search.index.file import open_index
from ktx_cli.context.search.index.signatures import (
    layer_signature,
    scan_signature,
    signatures_below,
    stray_signatures,
    values_signature,
    values_unit,
)
from ktx_cli.context.wiki.keys import FOLDER
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import listing, plural
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import SEMANTIC_NAME, Layout
from ktx_cli.project.state import read_state

FIX: Final = "ktx index"

_VALUE_SCANS: Final = "SELECT connection, privacy, finished FROM value_scans WHERE privacy <> 'strict'"


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """`pages`: of the wiki as it is now. `documents`: in the index. `behind`: what is not in it as it is now."""

    state: Literal["current", "behind", "missing", "other_version", "unusable"]
    pages: int
    documents: int | None = None
    behind: tuple[str, ...] = ()
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the facts as they stand in the envelope."""
        return {
            "state": self.state,
            "documents": self.documents,
            "behind": list(self.behind),
            "problem": self.problem,
        }

    @property
    def text(self) -> str:
        """The facts in one line."""
        if self.state == "current":
            return f"up to date, {plural(self.documents or 0, 'document')}"
        if self.state == "behind":
            return f"behind by {len(self.behind):,}: {listing(self.behind, 3)}"
        return self.problem or {"missing": "none yet", "other_version": "of another version of ktx"}[self.state]


def index_facts(layout: Layout, config: KtxConfig) -> IndexFacts:
    """Compare the index with the sizes and times of the files, and with their contents where those differ."""
    try:
        pages = signatures_below(layout.root, FOLDER.rstrip("/"), (".md",))
    except KtxError as error:
        return IndexFacts("unusable", 0, problem=error.message)
    try:
        return _compared(layout, config, pages)
    except (sqlite3.Error, KtxError) as error:
        return IndexFacts("unusable", len(pages), problem=f"the search index cannot be used: {error}")


def _compared(layout: Layout, config: KtxConfig, pages: Mapping[str, str]) -> IndexFacts:
    if not layout.search_index.exists():
        return IndexFacts("missing", len(pages))
    database = open_index(layout.search_index)
    if database is None:
        return IndexFacts("other_version", len(pages))
    units = dict(database.ask("SELECT key, signature FROM units"))
    documents = database.ask("SELECT count(*) FROM docs")[0][0]
    database.close()
    behind = () if units == quick_signatures(layout, config, pages) else _behind(layout, config)
    return IndexFacts("behind" if behind else "current", len(pages), documents, behind)


def quick_signatures(layout: Layout, config: KtxConfig, pages: Mapping[str, str]) -> dict[str, str]:
    """Return the signatures of all units as `jobs.search.contents_of` has them, where that needs nothing loaded."""
    found = dict(pages)
    layers: dict[str, dict[str, str]] = defaultdict(dict)
    for path, signature in signatures_below(layout.root, SEMANTIC_NAME, SUFFIXES, irregular=True).items():
        if path.count("/") > 1:
            layers[path.split("/")[1]][path] = signature
    strays = stray_signatures(layout.root, config.connections.keys()) if layers else {}
    for connection, files in layers.items():
        entry = config.connections.get(connection)
        folder, _ = layout.context_paths(connection)
        about = files if entry is None else {**files, **strays}
        found[folder] = layer_signature(about, (None if entry is None else dialect_of(entry.driver)) or "")
    scans = {} if config.scan.privacy == "strict" else read_state(layout, _value_scans) or {}
    for connection, stamp in scans.items():
        folder, _ = layout.context_paths(connection)
        if folder in found and connection in config.connections:
            found[values_unit(folder)] = values_signature(stamp, found[folder], scan_signature(layout.root, connection))
    if config.sources():
        from ktx_cli.jobs.passages import passages_of

        for part in passages_of(layout, config):
            found |= part.signatures()
    return found


def _value_scans(database: sqlite3.Connection) -> dict[str, str]:
    return {name: f"{privacy} {finished}" for name, privacy, finished in database.execute(_VALUE_SCANS)}


def _behind(layout: Layout, config: KtxConfig) -> tuple[str, ...]:
    """Return what is behind by the very code a search uses: a file that was only touched is not."""
    from ktx_cli.context.search.index.file import identity
    from ktx_cli.context.search.index.parts import files_between
    from ktx_cli.context.search.index.views import behind, open_base
    from ktx_cli.jobs.search import contents_of
    from ktx_cli.project.tree import WorkingTree

    there = identity(layout.search_index)
    base = None if there is None else open_base(layout.search_index, there)
    contents = contents_of(layout, config)
    signatures = contents.signatures()
    known = {} if base is None else base.units
    found: set[str] = set()
    for unit in behind(base, signatures, contents, WorkingTree(layout.root)):
        found |= files_between(unit, known.get(unit, ("",))[0], signatures.get(unit, "")) or {unit}
    return tuple(sorted(found))
