"""Checks pages, whoever wrote them, for what must not be in them, and makes the edits that a model asks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import (
    Command,
    ConfigError,
    Diagnostic,
    KtxError,
    ResultWarning,
    Spot,
    UsageError,
    listing,
    one_line,
    plural,
)
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
"""Characters; a page of more is two pages."""
MOST_TEXTS: Final = 8
LONGEST_TEXT: Final = 200
"""How many questions and synonyms a page may have, and the characters of each."""

NamedHosts = Callable[[Page], Collection[str] | None]
"""The hosts the sources of a page name; None where they are not known, so that links are not judged."""

_FINGERPRINT: Final = re.compile(r"[0-9a-f]{16}")
"""What ktx calls a query of the history by."""


def lint_page(page: Page, named_hosts: Collection[str] | None, old: Page | None = None) -> Iterator[Diagnostic]:
    """Yield what a person should look at before agents read the page, in the order of its lines.

    Sentences to agents, what readers do not see, links to hosts the sources of the page do not name (`named_hosts`; the
    one of the field `source` is always named), images, data in links, texts that look like secrets, contact data of
    persons, and too much text. What the page said before (`old`) is not held against it.
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
    """Return the codes among findings of a page for which no agent may write it: of private data, and of an order.

    A sentence to agents, or a link that nothing explains, is a person's to judge. Both on one page tell agents to turn
    to a host that no source of the page names.
    """
    return PRIVATE | (ORDER if {each.code for each in findings} >= ORDER else frozenset())


def _suspicious(page: Page, named_hosts: Collection[str] | None) -> Iterator[tuple[int, Spot, str]]:
    """Yield (line, spot, its text) of what is suspicious in the file of a page, and in fields that YAML has escapes in.

    The text is empty where only the beginning of it is known.
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


def too_long(page: Page, old: Page | None = None) -> Iterator[Diagnostic]:
    """Yield a finding for a summary or a body that is longer than an agent's page may be.

    A body that was too long before may stay so, if it does not grow.
    """
    summary, body = len(page.summary), len(page.body.strip())
    if summary > LONGEST_SUMMARY and (old is None or page.summary != old.summary):
        message = f"the summary has {summary:,} characters, {LONGEST_SUMMARY} are enough"
        yield page_diagnostic(page.path, field_line(page, "summary"), "too_long", message, "say it in one sentence")
    if body > max(LONGEST_BODY, 0 if old is None else len(old.body.strip())):
        message = f"the page has {plural(body, 'character')}, {LONGEST_BODY:,} are enough"
        hint = "make two pages of it, and refer from one to the other"
        yield page_diagnostic(page.path, body_line(page), "too_long", message, hint)
    for name in ("questions", "synonyms"):
        texts = page.texts(name)
        is_old = old is not None and texts == old.texts(name)
        if not is_old and (len(texts) > MOST_TEXTS or any(len(each) > LONGEST_TEXT for each in texts)):
            message = f"`{name}` may have {MOST_TEXTS} texts of at most {LONGEST_TEXT} characters"
            hint = "keep those that people use most"
            yield page_diagnostic(page.path, field_line(page, name), "too_long", message, hint)


_SEMANTIC: Final = f"{SEMANTIC_NAME}/"
_TYPES: Final[Mapping[str, tuple[type, str, str]]] = {
    "text": (str, "a text", '"..."'),
    "texts": (list, "a list of texts", '["...", "..."]'),
    "number": (int, "a whole number", "1"),
    "mapping": (dict, "a mapping", "{executions: 1}"),
    "mode": (str, f"one of {', '.join(USAGE_MODES)}", "auto"),
}
"""What a field holds: its type, that type in words, and an example."""


def check_pages(
    tree: Tree, models: Mapping[str, Model], touched: Iterable[str], *, before: Mapping[str, Model] | None = None
) -> list[Diagnostic]:
    """Return what is wrong with the touched pages, and with others because of what was touched; by path and line.

    `touched`: paths that were written or deleted, also those of the semantic layer. `models`: every semantic layer as
    the tree has it. A page that was not touched is looked at when a page it refers to is gone or the semantic layer it
    refers to has changed, and told only for that; with `before`, the layers as they were, only for what was right then.
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
            _, what, example = _TYPES[wanted]
            hint = f"write `{name}: {example}`; numbers and dates that are texts need quotes"
            line = field_line(page, name, *place)
            yield page_diagnostic(page.path, line, "field_type", f"`{name}` is not {what}", hint)


def _misfit(value: Any, wanted: str) -> tuple[int, ...] | None:
    """Return where in a field's value something has the wrong type, None where nothing has."""
    kind = _TYPES[wanted][0]
    if wanted == "texts" and isinstance(value, list):
        return next(((index,) for index, item in enumerate(value) if not isinstance(item, str)), None)
    fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    if wanted == "mode":
        fits = value in USAGE_MODES if isinstance(value, str) else False
    return None if fits or (wanted == "texts" and isinstance(value, str)) else ()


def warnings_of(found: Iterable[Diagnostic]) -> list[ResultWarning]:
    """Return findings as warnings of a command."""
    return [
        ResultWarning.of(each, "wiki_problems", str(each), path=each.path, line=each.line, finding=each.code)
        for each in found
    ]


_LITERAL: Final = re.compile(r"\\r\\n|\\n")
_SHORT_CODE: Final = re.compile(r"(?<!`)(`{1,2})(?!`)(?:(?!\1).)+\1(?!`)")


@dataclass(frozen=True, slots=True)
class Replacement:
    """A passage and what comes in its place; `old` must stand in the text once."""

    old: str
    new: str


def replaced(text: str, replacements: Sequence[Replacement]) -> str:
    """Return the text with every replacement made, each in the text the one before left.

    A passage is looked for as it is, then with any white space between its words, then by likeness (`NEAR` or more).
    Raises `UsageError` with everything that could not be placed: nothing, or several passages fit.
    """
    problems: list[str] = []
    for number, each in enumerate(replacements, start=1):
        found = _span(text, each.old)
        if isinstance(found, str):
            problems.append(f"replacement {number} (`{one_line(each.old, 60)}`) {found}")
        else:
            text = text[: found[0]] + each.new + text[found[1] :]
    if problems:
        hint = "read the page again and quote each passage as it stands there, with enough of it to be the only one"
        raise UsageError(f"nothing was changed: {'; '.join(problems)}", hint=hint, details={"problems": problems})
    return text


def with_newlines(body: str) -> str:
    """Return a body whose line ends arrived as the two characters `\\n` with line ends; any other as it is.

    A body of one line that names `\\n` only inside of code means it so.
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
    """Return where the one passage stands that `old` means, else why there is none."""
    if not old.strip():
        return "has no old text"
    spaced = r"\s+".join(map(re.escape, old.split()))
    for spans in (_overlapping(re.escape(old), text), _overlapping(spaced, text)):
        if len(spans) > 1:
            return f"fits {plural(len(spans), 'passage')}"
        if spans:
            return spans[0]
    alike = nearest(text, old)
    if len(alike) > 1:
        return f"is like {plural(len(alike), 'passage')}"
    return alike[0] if alike else f"fits nothing, and nothing is like it by {NEAR:.0%}"


def _overlapping(written: str, text: str) -> list[tuple[int, int]]:
    """Return where a pattern fits, also where it fits again before it ends."""
    pattern, spans = re.compile(written), list[tuple[int, int]]()
    found = pattern.search(text)
    while found is not None:
        spans.append(found.span())
        found = pattern.search(text, found.start() + 1)
    return spans


@dataclass(frozen=True, slots=True)
class Revision:
    """What is wanted of a page. `fields`: what is not named stays, None or an empty list takes it away.

    `content` is the whole text, `replacements` change passages of the present one; one of the two, or neither. Front
    matter in front of the content counts as fields, those of `fields` before it.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    content: str | None = None
    replacements: Sequence[Replacement] = ()


def revised(tree: Tree, key: str, revision: Revision, scope: str = GLOBAL) -> Page:
    """Return the page a revision makes of what the tree has under a key and scope, or a new one.

    Everything that is not named stays byte for byte, also marks like `stale_since`. Raises `UsageError`: no page can
    have the key, there is nothing to replace in, a replacement does not fit, a new page without text; `ConfigError`
    where the present file cannot be read.
    """
    present = _present(tree, check_key(key), scope)
    if revision.content is not None and revision.replacements:
        raise UsageError("content and replacements exclude each other", hint="give the whole text, or passages of it")
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
    """Return what gates and lint say of a page, by line; what its file said before (`old`) is not held against it.

    Those that are no errors need not keep it from being saved.
    """
    checker = Checker(tree, models)
    before = set() if old is None else {(each.code, each.message) for each in checker.page(old)}
    found = {each for each in checker.page(page) if (each.code, each.message) not in before}
    return sorted({*found, *lint_page(page, named_hosts, old)}, key=lambda each: (each.line, each.code, each.message))


def refused(page: Page, found: Sequence[Diagnostic]) -> KtxError:
    """Return the error for a page that was not saved for what was found."""
    problems_text = listing([f"line {each.line}: {each.message}" for each in found], 3)
    first = next((each.hint for each in found if each.hint), None)
    message = f"{page.path} was not written: {plural(len(found), 'problem')}: {problems_text}"
    details = {"findings": [each.select(DIAGNOSTIC_KEYS) for each in found]}
    return KtxError(message, hint=first, code="wiki_problems", details=details)


def twin_of(tree: Tree, page: Page) -> str | None:
    """Return the key of another page in the same scope that some file systems cannot tell from this one."""
    folder = page_path(page.scope, "").removesuffix(".md")
    return same_but_for_case(page.key, _keys(tree.paths(folder), page.scope))


def _keys(paths: Iterable[str], scope: str) -> list[str]:
    places = (place_of(path) for path in paths)
    return [place[1] for place in places if place is not None and place[0] == scope]


def _taken_apart(revision: Revision, key: str, scope: str) -> Revision:
    """Return the revision with the front matter of its content among its fields."""
    content = with_newlines(revision.content or "").lstrip("\ufeff")
    if not content.startswith("---"):
        return revision
    found = parse(scope, key, content.encode("utf-8", "surrogatepass"))
    if isinstance(found, Diagnostic):
        message = f"the front matter of the content cannot be read: line {found.line}: {found.message}"
        raise ConfigError(message, hint="correct it, or leave it out")
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
        raise UsageError(f"there is no page `{key}` to replace passages in", hint="give the whole text as content")
    if not (revision.content or "").strip():
        message = f"there is no page `{key}` yet, and a new one needs a text"
        raise UsageError(message, hint="give it as content (--content TEXT)")
    fields = {name: value for name, value in revision.fields.items() if _or_none(value) is not None}
    page = new_page(key, fields, with_newlines(revision.content or ""), scope)
    twin = twin_of(tree, page)
    if twin is not None:
        message = f"`{key}` is on macOS and Windows the same file as the page `{twin}`"
        raise UsageError(message, hint=f"write `{twin}`, or another key")
    return page


def _or_none(value: Any) -> Any:
    return None if value in ([], (), "", {}) else value
