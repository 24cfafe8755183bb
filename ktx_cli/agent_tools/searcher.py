"""Searches a project and writes its search index: the content that both read, and the embeddings they use."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ktx_cli.agent_tools.layers import Find, Layers
from ktx_cli.agent_tools.library import passages_of
from ktx_cli.core import ConfigError, Hint, ResultWarning, StorageError, UsageError, choose_one
from ktx_cli.project import KtxConfig, Layout, Tree, WorkingTree, Workspace, connection_of, read_state
from ktx_cli.search import KINDS, VALUE, Contents, Found, Hit, Layer, Pages, Part, Scope, Values
from ktx_cli.semantic import ColumnValues, ParsedCopies, calendar_of, layer_ids, load_lists, stored_hashes
from ktx_cli.warehouses import dialect_of
from ktx_cli.wiki import user_scope

if TYPE_CHECKING:
    from ktx_cli.agent_tools.session import SampleValues
    from ktx_cli.llm import Embedder
    from ktx_cli.project import Mount, Mounts
    from ktx_cli.search import SearchAnswer, Searcher
    from ktx_cli.semantic import Model

_VALUE_SCANS = "SELECT connection, privacy, finished FROM value_scans WHERE privacy <> 'strict' ORDER BY connection"


def contents_of(layout: Layout, config: KtxConfig) -> Contents:
    """Return the searchable contents of a project; raises `StorageError` if the state database cannot be read."""
    layers = _layers(layout, config)
    return Contents([_pages(layout), *layers.values(), *_stored(layout, config, layers)])


def _pages(layout: Layout) -> Pages:
    """Return the pages that exist for the reader of a layout."""
    return Pages(layout.root, None if layout.connections is None else _PageFilter(layout, layout.connections).shows)


def _readable_contents(layout: Layout, config: KtxConfig, pages: Pages) -> Contents:
    """Return the readable contents of a project; values and passages are omitted if the state cannot be read."""
    layers = _layers(layout, config)
    try:
        stored, warnings = _stored(layout, config, layers), []
    except (ConfigError, StorageError) as error:
        warning = ResultWarning.because("state_unreadable", "values and documents are not searched", error)
        stored, warnings = [], [warning]
    return Contents([pages, *layers.values(), *stored], warnings)


def _layers(layout: Layout, config: KtxConfig) -> dict[str, Layer]:
    ids = sorted({*layer_ids(layout), *config.databases()})
    return {connection: _layer(layout, config, connection) for connection in ids}


def _stored(layout: Layout, config: KtxConfig, layers: Mapping[str, Layer]) -> list[Part]:
    """Return the contents from the state database: column values and documents."""
    values = [
        Values(layers[connection], stamp, functools.partial(_lists, layout, connection))
        for connection, stamp in value_scans(layout, config).items()
        if connection in layers and connection in config.connections  # of others, the files may be gone or moved
    ]
    return [*values, *passages_of(layout, config)]


def open_searcher(layout: Layout, config: KtxConfig, environ: Mapping[str, str]) -> Searcher:
    """Return a searcher for a project, to be closed when the process no longer needs it.

    Embeddings that cannot be used as they are configured are a warning of every search.
    """
    from ktx_cli.search import Searcher, index_of

    @functools.cache
    def embedder() -> Embedder | None:
        from ktx_cli.llm import create_embedder

        return create_embedder(config, layout.root, environ)

    pages, tree = _pages(layout), WorkingTree(layout.root)

    def contents() -> Contents:
        return _readable_contents(layout, config, pages)

    return Searcher(index_of(layout, config, environ), contents, tree, embedder, is_part=layout.connections is not None)


class _PageFilter:
    """Tells which pages exist for the reader of a layout; remembers it for as long as a page stays the same."""

    def __init__(self, layout: Layout, connections: frozenset[str]) -> None:
        self._tree = WorkingTree(layout.root)
        self._connections = connections
        self._known: dict[str, tuple[str, bool]] = {}

    def shows(self, path: str, signature: str) -> bool:
        """Return whether a page exists; a file that is not a page does not."""
        from ktx_cli.wiki import Page, is_about, parse, place_of

        known = self._known.get(path)
        if known is None or known[0] != signature:
            place, content = place_of(path), self._tree.read(path)
            page = None if place is None or content is None else parse(*place, content)
            known = self._known[path] = (signature, isinstance(page, Page) and is_about(page, self._connections))
        return known[1]


def search(
    layout: Layout,
    config: KtxConfig,
    query: str,
    *,
    environ: Mapping[str, str],
    scope: Scope,
    limit: int = 20,
    searcher: Searcher | None = None,
) -> SearchAnswer:
    """Return the hits for the words of a query, best first; writes nothing. `searcher`: an open one, which stays open.

    Raises `UsageError` for a query without a word, and for a connection or a user that cannot be.
    """
    if not query.strip():
        raise UsageError("there is nothing to search for", hint="write at least one word, for example `revenue`")
    if scope.connection is not None and scope.connection not in layer_ids(layout):
        connection_of(config, scope.connection)
    if scope.user is not None:
        user_scope(scope.user)
    if searcher is not None:
        return searcher.search(query, scope, limit)
    own = open_searcher(layout, config, environ)
    try:
        return own.search(query, scope, limit)
    finally:
        own.close()


def search_mounts(
    mounts: Mounts,
    query: str,
    *,
    environ: Mapping[str, str],
    scope: Scope,
    limit: int = 20,
    opened: Callable[[Mount | None], Searcher] | None = None,
) -> SearchAnswer:
    """Return the hits in a root and all its mounts, in a single ranking; writes nothing.

    Connections, pages and passages of a mount are named as the root names them: `finance/warehouse`. `opened`: gives
    the open searcher of a project (None: the root), which stays open. Raises as `search`; `scope` has no connection.
    """
    from ktx_cli.search import Found, SearchAnswer, search_together

    if not query.strip():
        raise UsageError("there is nothing to search for", hint="write at least one word, for example `revenue`")
    if scope.user is not None:
        user_scope(scope.user)
    projects = [mount for mount, _, _ in mounts.projects()]
    with contextlib.ExitStack() as stack:
        searchers = []
        for mount, layout, config in mounts.projects():
            searcher = open_searcher(layout, config, environ) if opened is None else opened(mount)
            if opened is None:
                stack.callback(searcher.close)
            searchers.append(searcher)
        found = search_together(searchers, query, scope, limit)
    hits = tuple(hit_of_mount(projects[number], hit) for number, hit in found.hits)
    by_mount = ((projects[number], each) for number, each in found.warnings)
    warnings = [each if mount is None else mount.warning(each) for mount, each in by_mount]
    by_meaning = [mount.name for mount in mounts.usable.values() if mount.config.ingest.embeddings.backend != "none"]
    if by_meaning:
        message = "several projects were searched by words only, because vectors are compared within a single project"
        hint = Hint("to search a project by meaning too, {}", choose_one("connection", by_meaning))
        warnings.append(ResultWarning("no_vectors", message, hint=hint))
    return SearchAnswer(Found(hits, found.total, found.corrected, found.suggested), tuple(warnings))


def hit_of_mount(mount: Mount | None, hit: Hit) -> Hit:
    """Return a hit with the names that the root uses."""
    if mount is None:
        return hit
    connection = mount.qualified(hit.connection) if hit.connection else ""
    name = mount.qualified(hit.id) if hit.kind in ("page", "passage") else hit.id
    return replace(hit, connection=connection, id=name, pages=tuple(map(mount.qualified, hit.pages)))


def finder(searcher: Searcher, config: KtxConfig, codes: SampleValues) -> Find:
    """Return the search function with which the tools of all loops of a run search their overlays, even concurrently.

    A model sees row values only if allowed. `codes`: the complete code lists of a source, whose values are also found
    if `scan.share_code_lists` is `all`.
    """
    from ktx_cli.agent_tools.session import shares_code_lists

    allowed, shares = kinds_for_models(config), shares_code_lists(config.scan.privacy, config.scan.share_code_lists)

    def find(workspace: Workspace, query: str, scope: Scope, limit: int) -> Found:
        wanted = scope.kinds or KINDS
        kinds = tuple(kind for kind in wanted if kind in allowed)
        found = Found(())
        if kinds:
            found = searcher.search_tree(workspace, query, replace(scope, kinds=kinds), limit).found
        if shares and VALUE in wanted:
            found_codes = of_codes(workspace, query, scope, limit)
            hits = (*found.hits, *found_codes)[:limit]
            return replace(found, hits=hits, total=found.total + len(found_codes))
        return found

    def of_codes(workspace: Workspace, query: str, scope: Scope, limit: int) -> list[Hit]:
        hits = searcher.search_tree(workspace, query, replace(scope, kinds=(VALUE,)), limit).found.hits
        models = {
            each: layers.model(workspace, each) for each in {hit.connection for hit in hits} & layers.dialects.keys()
        }
        return [hit for hit in hits if hit.connection in models and _is_code(hit, models[hit.connection], codes)]

    layers = Layers(
        {each: dialect_of(entry.driver) or "" for each, entry in config.databases().items()},
        calendar_of(config),
        config.connections.keys(),
    )
    return find


def _is_code(hit: Hit, model: Model, codes: SampleValues) -> bool:
    """Whether a value belongs to a column whose complete code list agents may see."""
    name, _, column = hit.id.partition(" = ")[0].rpartition(".")
    source = model.sources.get(name)
    return source is not None and column in codes(model.connection, source)


def kinds_for_models(config: KtxConfig) -> tuple[str, ...]:
    """Return the kinds that a model may see in full: row values only if `scan.privacy` is `off`."""
    return KINDS if config.scan.privacy == "off" else tuple(kind for kind in KINDS if kind != "value")


def _layer(layout: Layout, config: KtxConfig, connection: str) -> Layer:
    entry = config.connections.get(connection)
    dialect = (None if entry is None else dialect_of(entry.driver)) or ""
    configured = None if entry is None else config.configured
    layers = Layers({connection: dialect}, calendar_of(config), {*config.configured, connection})

    def load(tree: Tree) -> Model:
        if isinstance(tree, Workspace):  # the tools of the loop that writes to it read it too, and share what was read
            return layers.model(tree, connection)
        from ktx_cli.semantic import load_layer, load_tree

        if isinstance(tree, WorkingTree):
            return load_layer(layout, config, connection)
        return load_tree(tree, connection, dialect, parse=ParsedCopies(layout, connection).parse, configured=configured)

    hashes = functools.partial(stored_hashes, layout, connection)
    return Layer(layout.root, connection, dialect, load, configured, hashes)


def value_scans(layout: Layout, config: KtxConfig) -> dict[str, str]:
    """Return connection -> when its values were read, and under which rule; under `strict`, there are none."""
    if config.scan.privacy == "strict":
        return {}
    rows = read_state(layout, lambda database: database.execute(_VALUE_SCANS).fetchall()) or ()
    return {name: f"{privacy} {finished}" for name, privacy, finished in rows}


def _lists(layout: Layout, connection: str) -> tuple[ColumnValues, ...]:
    return read_state(layout, lambda database: load_lists(database, connection)) or ()
