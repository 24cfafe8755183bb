"""What gates check of pages: front matter that can be read and used, and references that lead somewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.context.semantic.model import Model
from ktx_cli.context.wiki.graph import Graph, graph_about, load_graph
from ktx_cli.context.wiki.keys import (
    could_be_key,
    key_problem,
    page_path,
    place_of,
    scopes_seen_from,
    suggested_key,
)
from ktx_cli.context.wiki.loading import Wiki, file_of
from ktx_cli.context.wiki.model import FIELDS, USAGE_MODES, Finding, Page
from ktx_cli.context.wiki.page import field_line
from ktx_cli.context.wiki.references import Kind, Reference, line_of, references
from ktx_cli.context.wiki.resolving import Resolver
from ktx_cli.core.text import shell_words
from ktx_cli.project.layout import SEMANTIC_NAME
from ktx_cli.project.tree import Tree

_SEMANTIC: Final = f"{SEMANTIC_NAME}/"
_TYPES: Final[Mapping[str, tuple[type, str]]] = {
    "text": (str, "a text"),
    "texts": (list, "a list of texts"),
    "number": (int, "a whole number"),
    "mapping": (dict, "a mapping"),
    "mode": (str, f"one of {', '.join(USAGE_MODES)}"),
}


def check_pages(
    tree: Tree,
    models: Mapping[str, Model],
    touched: Iterable[str],
    *,
    graph: Graph | None = None,
    before: Mapping[str, Model] | None = None,
) -> list[Finding]:
    """Return what is wrong with the touched pages, and with others because of what was touched; by path and line.

    `touched`: paths that were written or deleted, also those of the semantic layer. `models`: every semantic layer as
    the tree has it. A page that was not touched is looked at when a page it refers to is gone or the semantic layer it
    refers to has changed, and told only for that; with `before`, the layers as they were, only for what was right then.

    Without `graph` the whole wiki is read where others have to be looked at. With it (of the tree before), only the
    touched files are; the graph is brought up to date.
    """
    paths = sorted(set(touched))
    changed = {path.split("/")[1] for path in paths if path.startswith(_SEMANTIC) and path.count("/") > 1}
    if graph is not None:
        graph.refresh(tree, paths)
        wiki = graph.wiki
    else:
        wiki = Wiki()
        wiki.refresh(tree, paths)
    removed = _removed(wiki, paths)
    checker = Checker(tree, models)
    found = [*checker.files(wiki, paths)]
    if removed or changed:
        checker.graph = graph or (load_graph(tree) if changed else graph_about(tree, removed))
        found += _others(checker, set(paths), removed, changed, before)
    return sorted(set(found), key=lambda each: (each.path, each.line, each.code, each.message))


@dataclass(slots=True)
class Checker:
    """Checks pages against a tree and its semantic layers; keys and names are looked up once."""

    tree: Tree
    models: Mapping[str, Model]
    graph: Graph | None = None
    resolver: Resolver = field(init=False)
    _visible: dict[tuple[str, str], bool] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.resolver = Resolver(self.models)

    def files(self, wiki: Wiki, paths: Iterable[str]) -> Iterator[Finding]:
        """Yield what is wrong with these files of a wiki."""
        for path in paths:
            if path in wiki.problems:
                yield wiki.problems[path]
            elif path in wiki.pages:
                yield from self.page(wiki.pages[path])

    def page(self, page: Page) -> Iterator[Finding]:
        """Yield what is wrong with one page: its key, its fields, its references."""
        yield from _form(page)
        yield from self.dangling(page, self.references(page))

    def dangling(self, page: Page, found: Iterable[Reference]) -> Iterator[Finding]:
        """Yield a finding for each of these references of a page that leads nowhere."""
        for reference in found:
            if reference.kind is Kind.PAGE:
                if reference.binding and not self.sees(page, reference.name):
                    yield _no_page(page, reference)
            elif (missing := self.resolver.missing(reference)) is not None:
                where = f"{reference.field}: " if reference.field else f"`{reference.written}`: "
                line = line_of(page, reference)
                yield Finding(page.path, line, missing.code, where + missing.message, missing.hint)

    def references(self, page: Page) -> tuple[Reference, ...]:
        """Return what a page refers to."""
        known = None if self.graph is None else self.graph.wiki.pages.get(page.path)
        return references(page) if self.graph is None or known is not page else self.graph.references(page)

    def sees(self, page: Page, key: str) -> bool:
        """Whether a page sees one under a key: in its own scope, or among everybody's."""
        if (page.scope, key) not in self._visible:
            places = [page_path(scope, key) for scope in scopes_seen_from(page.scope)] if could_be_key(key) else []
            self._visible[page.scope, key] = any(file_of(self.tree, place) is not None for place in places)
        return self._visible[page.scope, key] or key == page.key


def _removed(wiki: Wiki, paths: Iterable[str]) -> set[str]:
    """Return the keys of pages among the paths that have no file."""
    places = (place_of(path) for path in paths if path not in wiki.pages and path not in wiki.problems)
    return {place[1] for place in places if place is not None}


def _others(
    checker: Checker,
    touched: Collection[str],
    removed: Collection[str],
    changed: Collection[str],
    before: Mapping[str, Model] | None,
) -> Iterator[Finding]:
    """Yield what is wrong with pages that were not touched, because of what was."""
    graph = checker.graph
    assert graph is not None
    earlier = None if before is None else Resolver(before)
    for key in removed:
        for page in graph.readers(key):
            if page.path not in touched:
                about = [each for each in graph.references(page) if each.kind is Kind.PAGE and each.name == key]
                yield from checker.dangling(page, about)
    readers = {page.path: page for connection in changed for page in graph.layer_readers(connection)}
    for path in readers.keys() - touched:
        about = [
            each
            for each in graph.references(readers[path])
            if each.kind is not Kind.PAGE
            and (each.connection is None or each.connection in changed)
            and (earlier is None or earlier.missing(each) is None)
        ]
        yield from checker.dangling(readers[path], about)


def _no_page(page: Page, reference: Reference) -> Finding:
    suggested = suggested_key(reference.name)
    hint = f"write {page_path(page.scope, suggested)}, or take the reference out"
    where = f"{reference.field}: " if reference.field else ""
    message = f"{where}there is no page `{reference.name}`"
    return Finding(page.path, line_of(page, reference), "dangling_page", message, hint)


def _form(page: Page) -> Iterator[Finding]:
    problem = key_problem(page.key)
    if problem is not None:
        hint = shell_words("git", "mv", page.path, page_path(page.scope, suggested_key(page.key)))
        yield Finding(page.path, 1, "key", f"`{page.key}` {problem}", hint)
    if not page.summary and not isinstance(page.fields.get("summary"), int | float | list | dict):
        hint = "write `summary: <one sentence>` between the --- lines it begins with"
        yield Finding(page.path, 1, "missing_summary", "the page has no summary", hint)
    for name, value in page.fields.items():
        wanted = FIELDS.get(name)
        if wanted is not None and value is not None and (place := _misfit(value, wanted)) is not None:
            message = f"`{name}` is not {_TYPES[wanted][1]}"
            line = field_line(page, name, *place)
            yield Finding(page.path, line, "field_type", message, _typed_hint(name, wanted))


def _misfit(value: Any, wanted: str) -> tuple[int, ...] | None:
    """Return where in a field's value something has the wrong type, None where nothing has."""
    kind = _TYPES[wanted][0]
    if wanted == "texts" and isinstance(value, list):
        return next(((index,) for index, item in enumerate(value) if not isinstance(item, str)), None)
    fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    if wanted == "mode":
        fits = value in USAGE_MODES if isinstance(value, str) else False
    return None if fits or (wanted == "texts" and isinstance(value, str)) else ()


def _typed_hint(name: str, wanted: str) -> str:
    examples = {
        "text": f'{name}: "..."',
        "texts": f'{name}: ["...", "..."]',
        "number": f"{name}: 1",
        "mapping": f"{name}: {{executions: 1}}",
        "mode": f"{name}: auto",
    }
    return f"write `{examples[wanted]}`; numbers and dates that are texts need quotes"
