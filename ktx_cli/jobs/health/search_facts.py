"""What `ktx status` shows about search: whether the index is up to date, and whether embeddings are usable."""

from __future__ import annotations

import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ktx_cli.agent_tools import contents_of, value_scans
from ktx_cli.core import Command, KtxError, Record, listing, plural
from ktx_cli.jobs.health.model import CheckContext, CheckResult, Concern, Level, failed, unreached
from ktx_cli.project import SEMANTIC_NAME, WorkingTree, signatures_below
from ktx_cli.search import (
    SharedIndex,
    Store,
    index_of,
    layer_files,
    layer_signature,
    open_index,
    scan_signature,
    search_text_signatures,
    stray_signatures,
    values_signature,
    values_unit,
)
from ktx_cli.semantic import SUFFIXES
from ktx_cli.warehouses import dialect_of
from ktx_cli.wiki import FOLDER

if TYPE_CHECKING:
    from ktx_cli.project import KtxConfig, Layout

FIX: Final = Command("index")


@dataclass(frozen=True, slots=True)
class IndexFacts(Record):
    """`pages`: in the current wiki. `documents`: in the index. `behind`: what the index does not have in its current
    form. `where`: the database, and what compares vectors there, if the index is shared.
    """

    state: Literal["current", "behind", "missing", "other_version", "unusable", "not_needed"]
    pages: int
    documents: int | None = None
    behind: tuple[str, ...] = ()
    problem: str | None = None
    where: str | None = None

    json_keys = ("state", "documents", "behind", "problem", "where")

    @property
    def text(self) -> str:
        """The facts as one line."""
        return self._text if self.where is None or self.state == "unusable" else f"{self._text} ({self.where})"

    @property
    def _text(self) -> str:
        if self.state == "current":
            return f"up to date, {plural(self.documents or 0, 'document')}"
        if self.state == "behind":
            return f"{len(self.behind):,} outdated: {listing(self.behind, 3)}"
        return self.problem or {"missing": "none yet", "other_version": "of another version of ktx"}[self.state]


NO_INDEX: Final = IndexFacts("not_needed", 0, problem="not needed: a replica searches its copy of the snapshot")
"""The index in the folder of a replica."""


def index_facts(layout: Layout, config: KtxConfig, environ: Mapping[str, str] = os.environ) -> IndexFacts:
    """Compare the index with the sizes and times of the files, and with their contents if those differ."""
    try:
        pages = signatures_below(layout.root, FOLDER.rstrip("/"), (".md",))
    except KtxError as error:
        return IndexFacts("unusable", 0, problem=error.message)
    try:
        index = index_of(layout, config, environ)
        return (
            _compared(layout, config, pages)
            if isinstance(index, Path)
            else _compared_tree(index, layout, config, pages)
        )
    except (sqlite3.Error, KtxError) as error:
        database = unreached(error)
        problem = f"unknown: {database} cannot be reached" if database else f"the search index cannot be used: {error}"
        return IndexFacts("unusable", len(pages), problem=problem)


def _compared(layout: Layout, config: KtxConfig, pages: Mapping[str, str]) -> IndexFacts:
    if not layout.search_index.exists():
        return IndexFacts("missing", len(pages))
    database = open_index(layout.search_index)
    if database is None:
        return IndexFacts("other_version", len(pages))
    units = dict(database.ask("SELECT key, signature FROM units"))
    documents = Store(database).count
    database.close()
    behind = () if units == quick_signatures(layout, config, pages) else _behind(layout, config)
    return IndexFacts("behind" if behind else "current", len(pages), documents, behind)


def _compared_tree(index: SharedIndex, layout: Layout, config: KtxConfig, pages: Mapping[str, str]) -> IndexFacts:
    """Compare the files with the nearest tree in a shared index."""
    from ktx_cli.search import SharedTrees, behind, where_compared

    contents = contents_of(layout, config)
    signatures = contents.signatures()
    base = SharedTrees(index).base(contents, signatures, WorkingTree(layout.root))
    where = where_compared(index)
    if base is None:
        return IndexFacts("missing", len(pages), where=where)
    changed = _files_of(behind(base, signatures, contents, WorkingTree(layout.root)), base.units, signatures)
    return IndexFacts("behind" if changed else "current", len(pages), base.store.count, changed, where=where)


def quick_signatures(layout: Layout, config: KtxConfig, pages: Mapping[str, str]) -> dict[str, str]:
    """Return the signatures of all units as in `agent_tools.contents_of`, if nothing must be loaded for that."""
    signatures = dict(pages)
    layers: dict[str, dict[str, str]] = defaultdict(dict)
    for path, signature in layer_files(layout.root, SEMANTIC_NAME).items():
        if path.count("/") > 1:
            layers[path.split("/")[1]][path] = signature
    strays = stray_signatures(layout.root, config.connections.keys()) if layers else {}
    for connection, files in layers.items():
        if connection not in config.databases() and not any(path.endswith(SUFFIXES) for path in files):
            continue  # as in `layer_ids`
        entry = config.connections.get(connection)
        folder, _ = layout.context_paths(connection)
        about = {**files, **search_text_signatures(layout.root, connection), **({} if entry is None else strays)}
        signatures[folder] = layer_signature(about, (None if entry is None else dialect_of(entry.driver)) or "")
    for connection, stamp in value_scans(layout, config).items():
        folder, _ = layout.context_paths(connection)
        if folder in signatures and connection in config.connections:
            signatures[values_unit(folder)] = values_signature(
                stamp, signatures[folder], scan_signature(layout.root, connection)
            )
    if config.sources():
        from ktx_cli.agent_tools import passages_of

        for part in passages_of(layout, config):
            signatures |= part.signatures()
    return signatures


def _behind(layout: Layout, config: KtxConfig) -> tuple[str, ...]:
    """Return what is outdated, with the code that searches use; a file that was only touched is not outdated."""
    from ktx_cli.search import behind, identity, open_base

    there = identity(layout.search_index)
    base = None if there is None else open_base(layout.search_index, there)
    contents = contents_of(layout, config)
    signatures = contents.signatures()
    known = {} if base is None else base.units
    return _files_of(behind(base, signatures, contents, WorkingTree(layout.root)), known, signatures)


def _files_of(
    units: Iterable[str], known: Mapping[str, tuple[str, str]], signatures: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the files of outdated units that differ, or the units whose files are not known."""
    from ktx_cli.search import files_between

    changed: set[str] = set()
    for unit in units:
        changed |= files_between(unit, known.get(unit, ("",))[0], signatures.get(unit, "")) or {unit}
    return tuple(sorted(changed))


EMBEDDINGS: Final = "embeddings"


@dataclass(frozen=True, slots=True)
class EmbeddingFacts(Record):
    """The embeddings. `usable`: all requirements are met; `ktx doctor` checks whether vectors can be computed."""

    backend: str
    model: str | None
    state: Literal["none", "usable", "unverified", "unusable"]
    finding: CheckResult

    json_keys = ("backend", "model", "state")


def embedding_facts(context: CheckContext) -> EmbeddingFacts:
    """Return whether vectors are configured, and whether their requirements are met; opens no keyring,
    loads no model.
    """
    settings = context.loaded.config.ingest.embeddings
    if settings.backend == "none":
        return EmbeddingFacts("none", None, "none", CheckResult(EMBEDDINGS, Level.OK, "none"))
    name = f"{settings.backend}:{settings.model}" if settings.model else settings.backend
    if str(settings.openai.api_key or "").strip().startswith("keyring:") and settings.backend == "openai":
        again = Command("doctor", "--only", EMBEDDINGS)
        finding = CheckResult(EMBEDDINGS, Level.SKIP, f"{name}: unverified, the keyring was not read", again)
        return EmbeddingFacts(settings.backend, settings.model, "unverified", finding)
    try:
        model = _require(context)
    except KtxError as error:
        finding = failed(EMBEDDINGS, error, Concern.SETUP, where=name, level=Level.WARN)
        return EmbeddingFacts(settings.backend, settings.model, "unusable", finding)
    return EmbeddingFacts(
        settings.backend, model, "usable", CheckResult(EMBEDDINGS, Level.OK, f"{settings.backend}:{model}")
    )


def _require(context: CheckContext) -> str:
    """Return the model; raises `KtxError` if a requirement is missing."""
    from ktx_cli.llm import create_embedder

    config = context.loaded.config
    settings = config.ingest.embeddings
    embedder = create_embedder(config, context.project_dir, context.environ)
    assert embedder is not None
    model = embedder.model.partition(":")[2]
    in_process = settings.backend == "model2vec" or (
        settings.backend == "sentence-transformers" and not settings.sentence_transformers.base_url
    )
    if in_process:
        from ktx_cli.llm import model_folder

        _require_package(settings.backend)
        model_folder(model, context.project_dir)
    return model


def _require_package(backend: str) -> None:
    if find_spec(backend.replace("-", "_")) is None:
        from ktx_cli.llm import missing_package

        raise missing_package(backend)
