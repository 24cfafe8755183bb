"""Which pages refer to what, kept up to date a page at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ktx_cli.context.wiki.keys import FOLDER
from ktx_cli.context.wiki.loading import Wiki, file_of, load_wiki
from ktx_cli.context.wiki.model import Page
from ktx_cli.context.wiki.references import Kind, Reference, references
from ktx_cli.project.tree import Tree


@dataclass(slots=True)
class Graph:
    """A wiki and the references of its pages, by path; built once, then told what changed."""

    wiki: Wiki
    _references: dict[str, tuple[Reference, ...]] = field(default_factory=dict, init=False)
    _to_key: dict[str, set[str]] = field(default_factory=dict, init=False)
    _to_layer: dict[str | None, set[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for path, page in self.wiki.pages.items():
            self._link(path, page)

    def refresh(self, tree: Tree, paths: Iterable[str]) -> None:
        """Read these files again; other paths than those of pages do no harm."""
        paths = list(paths)
        for path in paths:
            self._unlink(path)
        self.wiki.refresh(tree, paths)
        for path in paths:
            page = self.wiki.pages.get(path)
            if page is not None:
                self._link(path, page)

    def references(self, page: Page) -> tuple[Reference, ...]:
        """Return what a page of the wiki refers to."""
        return self._references[page.path]

    def backlinks(self, key: str, scope: str) -> list[Page]:
        """Return the pages that refer to the page of a key and scope, by path.

        A global page is not what a user's page refers to who has one of their own of that key.
        """
        pages = (self.wiki.pages[path] for path in sorted(self._to_key.get(key, ())))
        return [page for page in pages if self._scope_seen(key, page.scope) == scope]

    def readers(self, key: str) -> list[Page]:
        """Return the pages that refer to a key, whether it has a page or not, by path."""
        return [self.wiki.pages[path] for path in sorted(self._to_key.get(key, ()))]

    def layer_readers(self, connection: str) -> list[Page]:
        """Return the pages that refer to the semantic layer of a connection, or of any, by path."""
        paths = self._to_layer.get(connection, set()) | self._to_layer.get(None, set())
        return [self.wiki.pages[path] for path in sorted(paths)]

    def _scope_seen(self, key: str, scope: str) -> str | None:
        found = self.wiki.get(key, scope)
        return None if found is None else found.scope

    def _link(self, path: str, page: Page) -> None:
        found = references(page)
        self._references[path] = found
        for reference in found:
            self._readers_of(reference).add(path)

    def _unlink(self, path: str) -> None:
        for reference in self._references.pop(path, ()):
            self._readers_of(reference).discard(path)

    def _readers_of(self, reference: Reference) -> set[str]:
        if reference.kind is Kind.PAGE:
            return self._to_key.setdefault(reference.name, set())
        return self._to_layer.setdefault(reference.connection, set())


def backlinks(tree: Tree, page: Page) -> list[Page]:
    """Return the pages of a tree that refer to a page, by path."""
    return graph_about(tree, (page.key,)).backlinks(page.key, page.scope)


def graph_about(tree: Tree, keys: Collection[str]) -> Graph:
    """Return the pages that have one of these keys or name it, with their references; others are not read through."""
    words = [key.encode() for key in keys]
    endings = tuple(f"/{key}.md" for key in keys)
    paths = [each for each in tree.paths(FOLDER) if each.endswith(endings) or _names(file_of(tree, each), words)]
    wiki = Wiki()
    wiki.refresh(tree, paths)
    return Graph(wiki)


def _names(content: object, words: Collection[bytes]) -> bool:
    return isinstance(content, bytes) and any(word in content for word in words)


def load_graph(tree: Tree) -> Graph:
    """Return the pages of a tree with their references."""
    return Graph(load_wiki(tree))
