"""Looks through pages for what must not be in them, whoever wrote them: what people do not see, and what is no text."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import Command, Diagnostic, ResultWarning, plural
from ktx_cli.privacy import secrets
from ktx_cli.project import SEMANTIC_NAME, Tree
from ktx_cli.semantic import Model
from ktx_cli.wiki.injection import instructions
from ktx_cli.wiki.keys import could_be_key, key_problem, page_path, place_of, scopes_seen_from, suggested_key
from ktx_cli.wiki.links import hosts_in, images, links
from ktx_cli.wiki.page import FIELDS, USAGE_MODES, Page, body_line, field_line, page_diagnostic
from ktx_cli.wiki.reference import Kind, Reference, Resolver, line_of, references
from ktx_cli.wiki.store import Graph, Wiki, file_of, graph_about, load_graph
from ktx_cli.wiki.text import hidden_characters, hidden_markup

LONGEST_SUMMARY: Final = 200
LONGEST_BODY: Final = 4000
"""Characters; a page of more is two pages."""

NamedHosts = Callable[[Page], Collection[str] | None]
"""The hosts the sources of a page name; None where they are not known, so that links are not judged."""

_FINGERPRINT: Final = re.compile(r"[0-9a-f]{16}")
"""What ktx calls a query of the history by."""


def lint_page(page: Page, named_hosts: Collection[str] | None) -> Iterator[Diagnostic]:
    """Yield what a person should look at before agents read the page, in the order of its lines.

    Sentences to agents, what readers do not see, links to hosts the sources of the page do not name (`named_hosts`; the
    one of the field `source` is always named), images, data in links, texts that look like secrets, and too much text.
    """
    known = None if named_hosts is None else {*named_hosts, *hosts_in(str(page.fields.get("source") or ""))}
    found = dict.fromkeys(_suspicious(page, page.text, known))
    for line, text in _unquoted(page):
        found.update(dict.fromkeys(_suspicious(page, text, known, line)))
    yield from sorted([*found, *too_long(page)], key=lambda each: (each.line, each.code, each.message))


def _suspicious(page: Page, text: str, known: Collection[str] | None, line: int | None = None) -> Iterator[Diagnostic]:
    """Yield what is suspicious in a text of the page: its file, or a field that starts on `line`."""
    own = _without_fingerprints(page, text)
    spots = (
        *(*instructions(text), *hidden_characters(text), *hidden_markup(text)),
        *(*links(text, known), *images(text), *secrets(own)),
    )
    for spot in spots:
        where = line or text.count("\n", 0, spot.at) + 1
        yield page_diagnostic(page.path, where, spot.code, spot.message, spot.hint)


def _without_fingerprints(page: Page, text: str) -> str:
    """Return a text in which the ids of queries that the page lists in `fingerprints` are blanks: they are no keys."""
    ids = [each for each in page.texts("fingerprints") if _FINGERPRINT.fullmatch(each)]
    for each in ids:
        text = text.replace(each, " " * len(each))
    return text


def _unquoted(page: Page) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of the fields that say what does not stand in the file as it is: YAML has escapes."""
    written = " ".join(page.head.split())
    for path, text in _texts(page.fields, ()):
        if " ".join(text.split()) not in written:
            yield field_line(page, *path), text


def _texts(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield every text of a field, keys too, with the path to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key, (*path, key))
            yield from _texts(item, (*path, key))
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from _texts(item, (*path, place))


def too_long(page: Page) -> Iterator[Diagnostic]:
    """Yield a finding for a summary or a body that is longer than an agent's page may be."""
    summary, body = len(page.summary), len(page.body.strip())
    if summary > LONGEST_SUMMARY:
        message = f"the summary has {summary:,} characters, {LONGEST_SUMMARY} are enough"
        yield page_diagnostic(page.path, field_line(page, "summary"), "too_long", message, "say it in one sentence")
    if body > LONGEST_BODY:
        message = f"the page has {plural(body, 'character')}, {LONGEST_BODY:,} are enough"
        hint = "make two pages of it, and refer from one to the other"
        yield page_diagnostic(page.path, body_line(page), "too_long", message, hint)


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
) -> list[Diagnostic]:
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

    def files(self, wiki: Wiki, paths: Iterable[str]) -> Iterator[Diagnostic]:
        """Yield what is wrong with these files of a wiki."""
        for path in paths:
            if path in wiki.problems:
                yield wiki.problems[path]
            elif path in wiki.pages:
                yield from self.page(wiki.pages[path])

    def page(self, page: Page) -> Iterator[Diagnostic]:
        """Yield what is wrong with one page: its key, its fields, its references."""
        yield from _form(page)
        yield from self.dangling(page, self.references(page))

    def dangling(self, page: Page, found: Iterable[Reference]) -> Iterator[Diagnostic]:
        """Yield a finding for each of these references of a page that leads nowhere."""
        for reference in found:
            if reference.kind is Kind.PAGE:
                if reference.binding and not self.sees(page, reference.name):
                    yield _no_page(page, reference)
            elif (missing := self.resolver.missing(reference)) is not None:
                where = f"{reference.field}: " if reference.field else f"`{reference.written}`: "
                line = line_of(page, reference)
                yield page_diagnostic(page.path, line, missing.code, where + missing.message, missing.hint)

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
) -> Iterator[Diagnostic]:
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


def _no_page(page: Page, reference: Reference) -> Diagnostic:
    suggested = suggested_key(reference.name)
    hint = f"write {page_path(page.scope, suggested)}, or take the reference out"
    where = f"{reference.field}: " if reference.field else ""
    message = f"{where}there is no page `{reference.name}`"
    return page_diagnostic(page.path, line_of(page, reference), "dangling_page", message, hint)


def _form(page: Page) -> Iterator[Diagnostic]:
    problem = key_problem(page.key)
    if problem is not None:
        move = Command("mv", page.path, page_path(page.scope, suggested_key(page.key)), program="git")
        yield page_diagnostic(page.path, 1, "key", f"`{page.key}` {problem}", move)
    if not page.summary and not isinstance(page.fields.get("summary"), int | float | list | dict):
        hint = "write `summary: <one sentence>` between the --- lines it begins with"
        yield page_diagnostic(page.path, 1, "missing_summary", "the page has no summary", hint)
    for name, value in page.fields.items():
        wanted = FIELDS.get(name)
        if wanted is not None and value is not None and (place := _misfit(value, wanted)) is not None:
            message = f"`{name}` is not {_TYPES[wanted][1]}"
            line = field_line(page, name, *place)
            yield page_diagnostic(page.path, line, "field_type", message, _typed_hint(name, wanted))


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


def warnings_of(found: Iterable[Diagnostic]) -> list[ResultWarning]:
    """Return findings as warnings of a command."""
    return [
        ResultWarning.of(each, "wiki_problems", str(each), path=each.path, line=each.line, finding=each.code)
        for each in found
    ]
