"""Checks pages for forbidden content, whoever wrote it, and applies the edits that a model requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import ConfigError, Diagnostic, KtxError, ResultWarning, Spot, UsageError, listing, one_line, plural
from ktx_cli.privacy import personal_data, secrets
from ktx_cli.project import SEMANTIC_NAME, Tree
from ktx_cli.semantic import Model
from ktx_cli.wiki.injection import instructions
from ktx_cli.wiki.page import (
    DIAGNOSTIC_KEYS,
    FIELDS,
    GLOBAL,
    ORDER,
    PRIVATE,
    USAGE_MODES,
    Page,
    body_line,
    changed,
    check_key,
    could_be_key,
    field_line,
    key_problem,
    new_page,
    page_diagnostic,
    page_path,
    parse,
    place_of,
    same_but_for_case,
    scopes_seen_from,
    suggested_key,
)
from ktx_cli.wiki.reference import Kind, Reference, Resolver, line_of, references
from ktx_cli.wiki.store import NEAR, Graph, Wiki, file_of, graph_about, load_graph, nearest
from ktx_cli.wiki.text import hidden_characters, hidden_markup, hosts_in, images, links

LONGEST_SUMMARY: Final = 200
LONGEST_BODY: Final = 4000
"""Maximum number of characters of a page; longer pages must be split in two."""
MOST_TEXTS: Final = 8
LONGEST_TEXT: Final = 200
"""Maximum number of questions and synonyms of a page, and of characters of each."""

NamedHosts = Callable[[Page], Collection[str] | None]
"""The hosts that a page's sources name; None if they are unknown, so that links are not checked."""

_FINGERPRINT: Final = re.compile(r"[0-9a-f]{16}")
"""The id that ktx gives to a query in the query history."""


def lint_page(page: Page, named_hosts: Collection[str] | None, old: Page | None = None) -> Iterator[Diagnostic]:
    """Yield diagnostics to review before agents read the page, in line order.

    Sentences to agents, text invisible to readers, links to hosts that the page's sources do not name (`named_hosts`;
    the host in the field `source` always counts), images, data in links, likely secrets, personal contact data, and too
    much text. What the page already contained before (`old`) is not reported.
    """
    earlier = "" if old is None else "\n".join([old.text, *(text for _, text in _unquoted(old))])
    before = set() if old is None else {(each.code, each.message) for _, each, _ in _suspicious(old, named_hosts)}
    found = dict.fromkeys(
        page_diagnostic(page.path, line, spot.code, spot.message, spot.hint)
        for line, spot, value in _suspicious(page, named_hosts)
        if (value not in earlier if value else (spot.code, spot.message) not in before)
    )
    yield from sorted([*found, *too_long(page, old)], key=lambda each: (each.line, each.code, each.message))


def refused_codes(findings: Iterable[Diagnostic]) -> frozenset[str]:
    """Return the diagnostic codes that forbid an agent from writing a page: private data, and instructions to agents.

    A sentence to agents, or an unexplained link, is for a person to judge. Both on one page tell agents to turn to a
    host that no source of the page names.
    """
    return PRIVATE | (ORDER if {each.code for each in findings} >= ORDER else frozenset())


def _suspicious(page: Page, named_hosts: Collection[str] | None) -> Iterator[tuple[int, Spot, str]]:
    """Yield (line, spot, its text) for everything suspicious in a page's file, and in fields with YAML escapes.

    The text is empty if only its beginning is known.
    """
    known = None if named_hosts is None else {*named_hosts, *hosts_in(str(page.fields.get("source") or ""))}
    for line, text in ((None, page.text), *_unquoted(page)):
        own = _without_fingerprints(page, text)
        spots = (
            *(*instructions(text), *hidden_characters(text), *hidden_markup(text)),
            *(*links(text, known), *images(text), *secrets(own), *personal_data(own)),
        )
        for spot in spots:
            yield line or text.count("\n", 0, spot.at) + 1, spot, own[spot.at : spot.at + spot.length]


def _without_fingerprints(page: Page, text: str) -> str:
    """Return a text with the ids of queries in the page's `fingerprints` blanked: they are not keys."""
    ids = [each for each in page.texts("fingerprints") if _FINGERPRINT.fullmatch(each)]
    for each in ids:
        text = text.replace(each, " " * len(each))
    return text


def _unquoted(page: Page) -> Iterator[tuple[int, str]]:
    """Yield (line, text) for the fields whose text is not literally in the file, because of YAML escapes."""
    written = " ".join(page.head.split())
    for path, text in _texts(page.fields, ()):
        if " ".join(text.split()) not in written:
            yield field_line(page, *path), text


def _texts(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield every text of a field, including keys, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key, (*path, key))
            yield from _texts(item, (*path, key))
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from _texts(item, (*path, place))


def too_long(page: Page, old: Page | None = None) -> Iterator[Diagnostic]:
    """Yield a diagnostic for a summary or body that is too long for a page written by an agent.

    A body that was too long before may stay so if it does not grow.
    """
    summary, body = len(page.summary), len(page.body.strip())
    if summary > LONGEST_SUMMARY and (old is None or page.summary != old.summary):
        message = f"the summary has {summary:,} characters, more than the maximum of {LONGEST_SUMMARY}"
        yield page_diagnostic(page.path, field_line(page, "summary"), "too_long", message, "shorten it to one sentence")
    if body > max(LONGEST_BODY, 0 if old is None else len(old.body.strip())):
        message = f"the page has {plural(body, 'character')}, more than the maximum of {LONGEST_BODY:,}"
        hint = "split it into two pages that link to each other"
        yield page_diagnostic(page.path, body_line(page), "too_long", message, hint)
    for name in ("questions", "synonyms"):
        texts = page.texts(name)
        is_old = old is not None and texts == old.texts(name)
        if not is_old and (len(texts) > MOST_TEXTS or any(len(each) > LONGEST_TEXT for each in texts)):
            message = f"`{name}` may have at most {MOST_TEXTS} texts of at most {LONGEST_TEXT} characters"
            hint = "keep the most common ones"
            yield page_diagnostic(page.path, field_line(page, name), "too_long", message, hint)


_SEMANTIC: Final = f"{SEMANTIC_NAME}/"
_TYPES: Final[Mapping[str, tuple[type, str, str]]] = {
    "text": (str, "a text", '"..."'),
    "texts": (list, "a list of texts", '["...", "..."]'),
    "number": (int, "a whole number", "1"),
    "mapping": (dict, "a mapping", "{executions: 1}"),
    "mode": (str, f"one of {', '.join(USAGE_MODES)}", "auto"),
}
"""The type of a field, that type in words, and an example."""


def check_pages(
    tree: Tree, models: Mapping[str, Model], touched: Iterable[str], *, before: Mapping[str, Model] | None = None
) -> list[Diagnostic]:
    """Return the errors in the changed pages, and those that the change causes in other pages, by path and line.

    `touched`: paths that were written or deleted, including those of the semantic layer. `models`: every semantic layer
    of the tree. An untouched page is checked if a page it refers to was deleted or a semantic layer it refers to has
    changed, and only for those references; with `before`, the layers before the change, only for references that were
    valid then.
    """
    paths = sorted(set(touched))
    changed = {path.split("/")[1] for path in paths if path.startswith(_SEMANTIC) and path.count("/") > 1}
    wiki = Wiki()
    wiki.refresh(tree, paths)
    removed = _removed(wiki, paths)
    checker = Checker(tree, models)
    found = [*checker.files(wiki, paths)]
    if removed or changed:
        checker.graph = load_graph(tree) if changed else graph_about(tree, removed)
        found += _others(checker, set(paths), removed, changed, before)
    return sorted(set(found), key=lambda each: (each.path, each.line, each.code, each.message))


@dataclass(slots=True)
class Checker:
    """Checks pages against a tree and its semantic layers, looking up keys and names only once."""

    tree: Tree
    models: Mapping[str, Model]
    graph: Graph | None = None
    resolver: Resolver = field(init=False)
    _visible: dict[tuple[str, str], bool] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.resolver = Resolver(self.models)

    def files(self, wiki: Wiki, paths: Iterable[str]) -> Iterator[Diagnostic]:
        """Yield the errors in the given wiki files."""
        for path in paths:
            if path in wiki.problems:
                yield wiki.problems[path]
            elif path in wiki.pages:
                yield from self.page(wiki.pages[path])

    def page(self, page: Page) -> Iterator[Diagnostic]:
        """Yield the errors in one page: in its key, fields and references."""
        yield from _form(page)
        yield from self.dangling(page, self.references(page))

    def dangling(self, page: Page, found: Iterable[Reference]) -> Iterator[Diagnostic]:
        """Yield a diagnostic for each broken reference of a page."""
        for reference in found:
            if reference.kind is Kind.PAGE:
                if reference.binding and not self.sees(page, reference.name):
                    yield _no_page(page, reference)
            elif (missing := self.resolver.missing(reference)) is not None:
                where = f"{reference.field}: " if reference.field else f"`{reference.written}`: "
                line = line_of(page, reference)
                yield page_diagnostic(page.path, line, missing.code, where + missing.message, missing.hint)

    def references(self, page: Page) -> tuple[Reference, ...]:
        """Return the references of a page."""
        known = None if self.graph is None else self.graph.wiki.pages.get(page.path)
        return references(page) if self.graph is None or known is not page else self.graph.references(page)

    def sees(self, page: Page, key: str) -> bool:
        """Return whether a page can see a page with this key: in its own scope, or among the global pages."""
        if (page.scope, key) not in self._visible:
            places = [page_path(scope, key) for scope in scopes_seen_from(page.scope)] if could_be_key(key) else []
            self._visible[page.scope, key] = any(file_of(self.tree, place) is not None for place in places)
        return self._visible[page.scope, key] or key == page.key


def _removed(wiki: Wiki, paths: Iterable[str]) -> set[str]:
    """Return the page keys among the paths that have no file."""
    places = (place_of(path) for path in paths if path not in wiki.pages and path not in wiki.problems)
    return {place[1] for place in places if place is not None}


def _others(
    checker: Checker,
    touched: Collection[str],
    removed: Collection[str],
    changed: Collection[str],
    before: Mapping[str, Model] | None,
) -> Iterator[Diagnostic]:
    """Yield the errors that the change causes in unchanged pages."""
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
    hint = f"write {page_path(page.scope, suggested)}, or remove the reference"
    where = f"{reference.field}: " if reference.field else ""
    message = f"{where}there is no page `{reference.name}`"
    return page_diagnostic(page.path, line_of(page, reference), "dangling_page", message, hint)


def _form(page: Page) -> Iterator[Diagnostic]:
    problem = key_problem(page.key)
    if problem is not None:
        hint = f"rename it to {page_path(page.scope, suggested_key(page.key))}"
        yield page_diagnostic(page.path, 1, "key", f"`{page.key}` {problem}", hint)
    if not page.summary and not isinstance(page.fields.get("summary"), int | float | list | dict):
        hint = "write `summary: <one sentence>` between the --- lines at the top of the page"
        yield page_diagnostic(page.path, 1, "missing_summary", "the page has no summary", hint)
    for name, value in page.fields.items():
        wanted = FIELDS.get(name)
        if wanted is not None and value is not None and (place := _misfit(value, wanted)) is not None:
            _, what, example = _TYPES[wanted]
            hint = f"write `{name}: {example}`; quote text that looks like a number or date"
            line = field_line(page, name, *place)
            yield page_diagnostic(page.path, line, "field_type", f"`{name}` is not {what}", hint)


def _misfit(value: Any, wanted: str) -> tuple[int, ...] | None:
    """Return the path to a wrong type in a field's value, or None if all types are correct."""
    kind = _TYPES[wanted][0]
    if wanted == "texts" and isinstance(value, list):
        return next(((index,) for index, item in enumerate(value) if not isinstance(item, str)), None)
    fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    if wanted == "mode":
        fits = value in USAGE_MODES if isinstance(value, str) else False
    return None if fits or (wanted == "texts" and isinstance(value, str)) else ()


def warnings_of(found: Iterable[Diagnostic]) -> list[ResultWarning]:
    """Return diagnostics as warnings of a command."""
    return [
        ResultWarning.of(each, "wiki_problems", str(each), path=each.path, line=each.line, finding=each.code)
        for each in found
    ]


_LITERAL: Final = re.compile(r"\\r\\n|\\n")
_SHORT_CODE: Final = re.compile(r"(?<!`)(`{1,2})(?!`)(?:(?!\1).)+\1(?!`)")


@dataclass(frozen=True, slots=True)
class Replacement:
    """A passage and its replacement; `old` must occur in the text exactly once."""

    old: str
    new: str


def replaced(text: str, replacements: Sequence[Replacement]) -> str:
    """Return the text after applying all replacements in sequence.

    A passage is searched for literally, then with any white space between its words, then by similarity (`NEAR` or
    more). Raises `UsageError` that lists all that could not be placed, because no passage or several match.
    """
    problems: list[str] = []
    for number, each in enumerate(replacements, start=1):
        found = _span(text, each.old)
        if isinstance(found, str):
            problems.append(f"replacement {number} (`{one_line(each.old, 60)}`) {found}")
        else:
            text = text[: found[0]] + each.new + text[found[1] :]
    if problems:
        hint = "read the page again and quote each passage exactly, with enough text to be unique"
        raise UsageError(f"nothing was changed: {'; '.join(problems)}", hint=hint, details={"problems": problems})
    return text


def with_newlines(body: str) -> str:
    """Return a body whose line breaks arrived as the two characters `\\n` with real line breaks; other bodies are
    unchanged.

    In a body of one line, `\\n` only inside code is meant literally.
    """
    if "\\n" not in body or "\n" in body.strip():
        return body
    code = [found.span() for found in _SHORT_CODE.finditer(body)]
    found = [each for each in _LITERAL.finditer(body) if not any(a < each.start() < b for a, b in code)]
    pieces, position = [], 0
    for each in found:
        pieces.append(body[position : each.start()])
        position = each.end()
    return "\n".join([*pieces, body[position:]])


def _span(text: str, old: str) -> tuple[int, int] | str:
    """Return the location of the only passage that `old` matches, or the reason why there is none."""
    if not old.strip():
        return "has no old text"
    spaced = r"\s+".join(map(re.escape, old.split()))
    for spans in (_overlapping(re.escape(old), text), _overlapping(spaced, text)):
        if len(spans) > 1:
            return f"matches {plural(len(spans), 'passage')}"
        if spans:
            return spans[0]
    alike = nearest(text, old)
    if len(alike) > 1:
        return f"is similar to {plural(len(alike), 'passage')}"
    return alike[0] if alike else f"matches nothing, and no passage is at least {NEAR:.0%} similar"


def _overlapping(written: str, text: str) -> list[tuple[int, int]]:
    """Return where a pattern matches, including overlapping matches."""
    pattern, spans = re.compile(written), list[tuple[int, int]]()
    found = pattern.search(text)
    while found is not None:
        spans.append(found.span())
        found = pattern.search(text, found.start() + 1)
    return spans


@dataclass(frozen=True, slots=True)
class Revision:
    """The requested changes to a page. `fields`: fields not listed stay; None or an empty list removes a field.

    `content` is the whole text, `replacements` change passages of the current one; give at most one of the two. Front
    matter at the top of the content counts as fields, with lower precedence than `fields`.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    content: str | None = None
    replacements: Sequence[Replacement] = ()


def revised(tree: Tree, key: str, revision: Revision, scope: str = GLOBAL) -> Page:
    """Return the page that results from applying a revision to the page with a key and scope, or to a new page.

    Everything that is not mentioned stays byte for byte, including marks such as `stale_since`. Raises `UsageError` for
    an invalid key, replacements without a page, a replacement that does not match, or a new page without text;
    `ConfigError` if the current file cannot be read.
    """
    present = _present(tree, check_key(key), scope)
    if revision.content is not None and revision.replacements:
        raise UsageError(
            "content and replacements are mutually exclusive", hint="pass the whole text, or replacements of passages"
        )
    revision = _taken_apart(revision, key, scope)
    if present is None:
        return _new(tree, key, revision, scope)
    body = None if revision.content is None else with_newlines(revision.content)
    if revision.replacements:
        body = replaced(present.body, revision.replacements)
    fields = {name: _or_none(value) for name, value in revision.fields.items()}
    same = {name for name, value in fields.items() if present.fields.get(name) == value}
    return changed(present, {name: value for name, value in fields.items() if name not in same}, body)


def problems_of(
    page: Page,
    tree: Tree,
    models: Mapping[str, Model],
    *,
    old: Page | None = None,
    named_hosts: Collection[str] | None = None,
) -> list[Diagnostic]:
    """Return a page's diagnostics from gates and lint, by line, except those that its file already had (`old`).

    Those that are not errors need not keep it from being saved.
    """
    checker = Checker(tree, models)
    before = set() if old is None else {(each.code, each.message) for each in checker.page(old)}
    found = {each for each in checker.page(page) if (each.code, each.message) not in before}
    return sorted({*found, *lint_page(page, named_hosts, old)}, key=lambda each: (each.line, each.code, each.message))


def refused(page: Page, found: Sequence[Diagnostic]) -> KtxError:
    """Return the error for a page that was not saved because of its diagnostics."""
    problems_text = listing([f"line {each.line}: {each.message}" for each in found], 3)
    first = next((each.hint for each in found if each.hint), None)
    message = f"{page.path} was not written: {plural(len(found), 'problem')}: {problems_text}"
    details = {"findings": [each.select(DIAGNOSTIC_KEYS) for each in found]}
    return KtxError(message, hint=first, code="wiki_problems", details=details)


def twin_of(tree: Tree, page: Page) -> str | None:
    """Return the key of another page in the same scope that some file systems cannot distinguish from this page."""
    folder = page_path(page.scope, "").removesuffix(".md")
    return same_but_for_case(page.key, _keys(tree.paths(folder), page.scope))


def _keys(paths: Iterable[str], scope: str) -> list[str]:
    places = (place_of(path) for path in paths)
    return [place[1] for place in places if place is not None and place[0] == scope]


def _taken_apart(revision: Revision, key: str, scope: str) -> Revision:
    """Return the revision with its content's front matter moved into its fields."""
    content = with_newlines(revision.content or "").lstrip("\ufeff")
    if not content.startswith("---"):
        return revision
    found = parse(scope, key, content.encode("utf-8", "surrogatepass"))
    if isinstance(found, Diagnostic):
        message = f"cannot read the front matter of the content: line {found.line}: {found.message}"
        raise ConfigError(message, hint="correct it, or omit it")
    return Revision({**found.fields, **revision.fields}, found.body)


def _present(tree: Tree, key: str, scope: str) -> Page | None:
    content = tree.read(page_path(scope, key))
    if content is None:
        return None
    found = parse(scope, key, content)
    if isinstance(found, Diagnostic):
        raise ConfigError(str(found), hint=found.hint, details={"path": found.path, "line": found.line})
    return found


def _new(tree: Tree, key: str, revision: Revision, scope: str) -> Page:
    if revision.replacements:
        raise UsageError(f"there is no page `{key}` to replace passages in", hint="pass the whole text as content")
    if not (revision.content or "").strip():
        message = f"there is no page `{key}` yet, and a new page needs text"
        raise UsageError(message, hint="pass it as content (--content TEXT)")
    fields = {name: value for name, value in revision.fields.items() if _or_none(value) is not None}
    page = new_page(key, fields, with_newlines(revision.content or ""), scope)
    twin = twin_of(tree, page)
    if twin is not None:
        message = f"on macOS and Windows, `{key}` is the same file as the page `{twin}`"
        raise UsageError(message, hint=f"write `{twin}`, or another key")
    return page


def _or_none(value: Any) -> Any:
    return None if value in ([], (), "", {}) else value
