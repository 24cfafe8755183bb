"""The current semantic layer of each connection in an overlay, reloaded only if one of its files changed.

Loaded layers are cached for the whole process, because the loops of a run start with the same files.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import ConfigError, Diagnostic, KtxError, Recent, file_stem, listing, yaml
from ktx_cli.project import Layout, Tree, Workspace
from ktx_cli.protection import Refused
from ktx_cli.semantic import SUFFIXES, own_files

if TYPE_CHECKING:
    from ktx_cli.search import Found, Hit, Layer, Scope
    from ktx_cli.semantic import CalendarSettings, Model, Shard

MOST_KEPT: Final = 24
"""Number of cached models: enough for a few concurrent loops, each before and after a write."""

_Key = tuple[str, str, "CalendarSettings", str]

_MODELS: Final[Recent[Model]] = Recent(MOST_KEPT)
_PROBLEMS: Final[Recent[tuple[Diagnostic, ...]]] = Recent(MOST_KEPT)


class Layers:
    """Models and their problems: identical files, dialect and calendar give the same objects. Models are never changed.

    `configured`: the ids of all connections in `ktx.yaml`, None if they are those of `dialects`. `layout`: of the
    project whose stored layers are used for trees with the same files.
    """

    def __init__(
        self,
        dialects: Mapping[str, str],
        calendar: CalendarSettings,
        configured: Collection[str] | None = None,
        layout: Layout | None = None,
    ) -> None:
        self.dialects = dialects
        self.configured = frozenset(dialects if configured is None else configured)
        self._calendar, self._layout = calendar, layout

    def model(self, tree: Tree, connection: str) -> Model:
        """Return a connection's semantic layer in the given tree."""
        return self._model(tree, self._key(tree, connection))

    def models(self, tree: Tree) -> Mapping[str, Model]:
        """Return the semantic layers of all connections, each loaded on first use, by any thread."""
        return _Models(self, tree)

    def problems(self, tree: Tree, connection: str) -> tuple[Diagnostic, ...]:
        """Return all problems in a connection's files: first those from reading, then those from checking."""
        key = self._key(tree, connection)

        def check() -> tuple[Diagnostic, ...]:
            model = self._model(tree, key)
            from ktx_cli.semantic import check_model

            return (*model.problems, *check_model(model))

        return _PROBLEMS.get(key, check)

    def _key(self, tree: Tree, connection: str) -> _Key:
        return connection, self.dialects[connection], self._calendar, digest(tree, connection, self.configured)

    def _model(self, tree: Tree, key: _Key) -> Model:
        return _MODELS.get(key, lambda: self._load(tree, key))

    def _load(self, tree: Tree, key: _Key) -> Model:
        from ktx_cli.semantic import load_tree, stored_copy

        connection, dialect, calendar, _ = key
        if self._layout is not None:
            stored = stored_copy(self._layout, tree, connection, dialect, calendar, self.configured)
            if stored is not None:
                return stored
        return load_tree(tree, connection, dialect, calendar, parse=parse_once, configured=self.configured)


class _Models(Mapping[str, "Model"]):
    def __init__(self, layers: Layers, tree: Tree) -> None:
        self._layers, self._tree = layers, tree
        self._loaded: dict[str, Model] = {}
        self._lock = threading.Lock()

    def __getitem__(self, connection: str) -> Model:
        with self._lock:
            if connection not in self._loaded:
                self._loaded[connection] = self._layers.model(self._tree, connection)
            return self._loaded[connection]

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers.dialects)

    def __len__(self) -> int:
        return len(self._layers.dialects)


@functools.lru_cache(maxsize=1_024)
def parse_once(content: bytes, where: str) -> Shard:
    """Return a shard, parsed once for all loops of a run; the document is never changed. Raises like `parse_shard`."""
    from ktx_cli.semantic import parse_shard

    return parse_shard(content, where)


def digest(tree: Tree, connection: str, configured: Collection[str]) -> str:
    """Return a digest of the files of a connection's semantic layer, and of those without a connection."""
    from ktx_cli.semantic import stray_paths

    found = hashlib.sha256()
    try:
        strays = stray_paths(tree, configured)
    except KtxError as error:
        strays = []
        found.update(f"{error.message}\0".encode("utf-8", "surrogateescape"))
    for path in (*sorted(tree.paths(f"{Layout.context_paths(connection)[0]}/")), *strays):
        try:
            content = tree.read(path) or b""
        except KtxError as error:  # a problem of the model, which names the file
            content = f"\0{error.code}".encode()
        found.update(f"{path}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        found.update(content)
    return found.hexdigest()


def new_problems(before: tuple[Diagnostic, ...], after: tuple[Diagnostic, ...]) -> list[Diagnostic]:
    """Return the problems that did not exist before, ignoring changed line numbers."""
    known = {_same(each) for each in before}
    return [each for each in after if _same(each) not in known]


def _same(problem: Diagnostic) -> tuple[str | None, ...]:
    return problem.severity, problem.code, problem.message, problem.path, problem.location.object


Find = Callable[[Workspace, str, "Scope", int], "Found"]
"""Takes the overlay a loop writes to, a query, a scope and a limit; searches the overlay as it is now."""


def in_memory(layers: Layers) -> Find:
    """Return a `Find` without an index: it reads the whole overlay on first use."""
    from ktx_cli.search import Contents, Overlays, Pages, found, rank

    parts = [layer_part(layers, connection) for connection in sorted(layers.dialects)]
    overlays = Overlays(lambda: Contents([Pages(), *parts]))

    def find(workspace: Workspace, query: str, scope: Scope, limit: int) -> Found:
        stores = overlays.view(workspace).stores
        return found(stores, rank(stores, query, scope, limit), limit, scope.user)

    return find


def layer_part(layers: Layers, connection: str) -> Layer:
    """Return a connection's semantic layer in searchable form, loaded in the same way as for the tools of loops."""
    from ktx_cli.search import Layer

    def load(tree: Tree) -> Model:
        return layers.model(tree, connection)

    return Layer(None, connection, layers.dialects[connection], load, layers.configured)


def find_in(
    find: Find, workspace: Workspace, connections: Collection[str], query: str, scope: Scope, limit: int
) -> list[Hit]:
    """Return only hits from pages and from these connections, best first, including internal definitions."""
    wanted = limit if scope.connection is not None else 4 * limit + 20
    hits = find(workspace, query, replace(scope, internal=True), wanted).hits
    return [each for each in hits if not each.connection or each.connection in connections][:limit]


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file about a source beside the manifest."""

    path: str
    content: bytes
    document: Mapping[str, Any]


def own_file(tree: Tree, connection: str, name: str) -> OwnFile | None:
    """Return the file about a source, or None if only the manifest or nothing defines it; raises `Refused` for
    several.
    """
    found = [each for each in _own(tree, connection) if each.document["name"] == name]
    if len(found) > 1:
        raise Refused(f"several files are about `{name}`: {listing(each.path for each in found)}; people sort that out")
    if found:
        return found[0]
    path = _new_path(connection, name)
    content = tree.read(path)
    if content is not None:
        document = _document(content, path)
        about = "broken" if document is None else f"about `{document.get('name')}`"
        raise Refused(f"{path} is {about}, so nothing can be written about `{name}`; people sort that out")
    return None


def path_of(tree: Tree, connection: str, name: str) -> str:
    """Return where the file about a source is, or would be."""
    found = own_file(tree, connection, name)
    return _new_path(connection, name) if found is None else found.path


def manifest_names(tree: Tree, connection: str) -> list[str]:
    """Return the names of the generated sources, except those in unreadable shards."""
    found: list[str] = []
    for path in tree.paths(f"{Layout.schema_path(connection)}/"):
        content = tree.read(path) if path.endswith(SUFFIXES) else None
        if content is None:
            continue
        try:
            found += parse_once(content, path).tables
        except KtxError:  # every check of the connection reports it
            continue
    return found


def read_document(text: str, where: str) -> dict[str, Any]:
    """Return the mapping that a model wrote as YAML; raises `Refused`, with line and column, for anything else."""
    try:
        document = yaml.load(text, where=where)
    except ConfigError as error:
        raise Refused(f"the YAML cannot be read, nothing was saved: {error.message}" + _hint(error)) from error
    if not isinstance(document, dict):
        raise Refused("the YAML is not a mapping; begin with `name: <source>`. Nothing was saved")
    return document


def put_into(file: OwnFile | None, document: Mapping[str, Any], text: str, where: str) -> bytes:
    """Return the new text of a file; in an existing file, only differences are changed and comments are kept."""
    fresh = text.strip("\n") + "\n"
    if file is None:
        return fresh.encode("utf-8", "strict")
    from ktx_cli.project import edit

    try:
        return edit.apply(file.content, edit.diff(dict(file.document), dict(document), ()), where=where)
    except (ConfigError, ValueError):  # its form leaves no place for the change
        return fresh.encode("utf-8", "strict")


def _hint(error: KtxError) -> str:
    return f" ({error.hint})" if error.hint else ""


def _own(tree: Tree, connection: str) -> Iterator[OwnFile]:
    for path in own_files(tree, connection):
        content = tree.read(path)
        document = None if content is None else _document(content, path)
        if content is not None and document is not None and "name" in document:
            yield OwnFile(path, content, document)


@functools.lru_cache(maxsize=2_000)
def _document(content: bytes, path: str) -> Mapping[str, Any] | None:
    """Return the mapping in a file, or None for anything else; the mapping is never changed."""
    try:
        found = yaml.load(content, where=path)
    except ConfigError:
        return None
    return found if isinstance(found, dict) else None


def _new_path(connection: str, name: str) -> str:
    return f"{Layout.context_paths(connection)[0]}/{file_stem(name)}.yaml"
