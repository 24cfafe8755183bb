"""The pages of a tree: read once, updated on changes, listed, and filtered by what a user can see."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Final

from ktx_cli.core import (
    Command,
    Diagnostic,
    Hint,
    StorageError,
    UsageError,
    did_you_mean,
    escaped,
    is_utf8,
    listing,
    one_line,
    plural,
    similar_names,
)
from ktx_cli.project import Tree
from ktx_cli.wiki.page import (
    FOLDER,
    GLOBAL,
    Page,
    could_be_key,
    page_diagnostic,
    page_path,
    parse,
    place_of,
    scopes_seen_from,
    suggested_key,
)
from ktx_cli.wiki.reference import Kind, Reference, references


@dataclass(slots=True)
class Wiki:
    """The pages of a tree by path, and the problems in files that are not valid pages."""

    pages: dict[str, Page] = field(default_factory=dict)
    problems: dict[str, Diagnostic] = field(default_factory=dict)

    def refresh(self, tree: Tree, paths: Iterable[str]) -> None:
        """Read these files again, or drop deleted ones; paths outside the wiki are ignored."""
        for path in paths:
            if path.startswith(FOLDER):
                self._take(path, file_of(tree, path))

    def get(self, key: str, scope: str = GLOBAL) -> Page | None:
        """Return the page with a key as seen from `scope`: a user's own page shadows the global one."""
        seen = (self.pages.get(page_path(each, key)) for each in scopes_seen_from(scope))
        return next((page for page in seen if page is not None), None)

    def seen_from(self, scope: str = GLOBAL) -> list[Page]:
        """Return the pages visible from `scope`, by key."""
        found: dict[str, Page] = {}
        wanted = scopes_seen_from(scope)
        for page in self.pages.values():
            other = found.get(page.key)
            if page.scope in wanted and (other is None or wanted.index(page.scope) < wanted.index(other.scope)):
                found[page.key] = page
        return [found[key] for key in sorted(found)]

    def tags(self, scope: str = GLOBAL) -> dict[str, int]:
        """Return the tags of the pages visible from a scope, by name, with the number of pages for each."""
        return dict(sorted(Counter(tag for page in self.seen_from(scope) for tag in set(page.tags)).items()))

    def _take(self, path: str, content: bytes | Diagnostic | None) -> None:
        self.pages.pop(path, None)
        self.problems.pop(path, None)
        found = _read(path, content) if isinstance(content, bytes) else content
        if isinstance(found, Page):
            self.pages[path] = found
        elif found is not None:
            self.problems[path] = found


def load_wiki(tree: Tree) -> Wiki:
    """Return the pages of a tree; a file that is not a valid page is reported as a problem and does not affect other
    pages.
    """
    wiki = Wiki()
    wiki.refresh(tree, sorted(tree.paths(FOLDER)))
    return wiki


def read_page(tree: Tree, key: str, scope: str = GLOBAL) -> Page | Diagnostic | None:
    """Return the page with a key as seen from `scope`, the problem in its file, or None if there is no such page."""
    found = (own_page(tree, key, each) for each in scopes_seen_from(scope))
    return next((page for page in found if page is not None), None)


def own_page(tree: Tree, key: str, scope: str) -> Page | Diagnostic | None:
    """Return the page with a key in exactly this scope, the problem in its file, or None if there is no such page."""
    content = tree.read(page_path(scope, key)) if could_be_key(key) else None
    return None if content is None else parse(scope, key, content)


def no_such_page(key: str, wiki: Wiki, scope: str = GLOBAL) -> UsageError:
    """Return the error for a key without a page visible from `scope`; its hint suggests the closest key."""
    keys = [page.key for page in wiki.seen_from(scope)]
    meant = suggested_key(key)
    near = meant if meant in keys else did_you_mean(meant, keys)
    hint = Command("wiki", "read", near) if near else _others(keys)
    similar = similar_names(meant, keys)
    first = similar if len(keys) > _MOST_CANDIDATES else dict.fromkeys((*similar, *keys))
    first = [*([near] if near else []), *(each for each in first if each != near)][:_MOST_CANDIDATES]
    return UsageError(f"there is no wiki page `{one_line(key, 60)}`", hint=hint, details={"candidates": first})


_MOST_CANDIDATES: Final = 50
"""Maximum number of keys in the details of an error."""


def _others(keys: list[str]) -> str:
    if not keys:
        return Command("wiki", "write", "--help")
    return Hint("{} lists {}: {}", Command("wiki"), plural(len(keys), "page"), listing(keys))


def file_of(tree: Tree, path: str) -> bytes | Diagnostic | None:
    """Return the content of a wiki file, the reason why it cannot be read, or None if the file does not exist."""
    try:
        return tree.read(path)
    except StorageError as error:
        return page_diagnostic(path, 1, "unreadable", error.message, error.hint)


def _read(path: str, content: bytes) -> Page | Diagnostic | None:
    """Return the page in a file, the problem with it, or None for a file that is not a page."""
    if not is_utf8(path):
        message = "its name is not UTF-8, so it is not a page"
        return page_diagnostic(escaped(path), 1, "place", message, "rename it, for example to wiki/global/new-name.md")
    place = place_of(path)
    if place is not None:
        return parse(*place, content)
    if not path.endswith(".md"):
        return None
    nearest = _nearest_path(path)
    message = f"not a valid path for a page: pages belong directly in {nearest.rpartition('/')[0]}/"
    return page_diagnostic(path, 1, "place", message, f"move it to {nearest}")


def _nearest_path(path: str) -> str:
    """Return the path at which a file would be a page."""
    parts = path.removeprefix(FOLDER).split("/")
    scope, rest = (GLOBAL, parts[1:]) if parts[0] == GLOBAL else (GLOBAL, parts)
    if parts[0] == "user" and len(parts) > 2:
        scope, rest = "/".join(parts[:2]), parts[2:]
    return page_path(scope, suggested_key("/".join(rest)))


def case_twins(pages: Iterable[Page]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for every page that some file systems cannot distinguish from an earlier page."""
    first: dict[str, str] = {}
    for path in sorted(page.path for page in pages):
        other = first.setdefault(path.casefold(), path)
        if other != path:
            message = f"on macOS and Windows, this file and {other} are the same"
            hint = f"rename one of them, for example to {path.removesuffix('.md')}-2.md"
            yield page_diagnostic(path, 1, "key", message, hint)


@dataclass(slots=True)
class Graph:
    """A wiki and the references in its pages, by path."""

    wiki: Wiki
    _references: dict[str, tuple[Reference, ...]] = field(default_factory=dict, init=False)
    _to_key: dict[str, set[str]] = field(default_factory=dict, init=False)
    _to_layer: dict[str | None, set[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for path, page in self.wiki.pages.items():
            self._references[path] = references(page)
            for reference in self._references[path]:
                self._readers_of(reference).add(path)

    def references(self, page: Page) -> tuple[Reference, ...]:
        """Return the references in a page of the wiki."""
        return self._references[page.path]

    def backlinks(self, key: str, scope: str) -> list[Page]:
        """Return the pages that refer to the page with a key and scope, by path.

        Pages of a user who has an own page with that key do not refer to the global page.
        """
        pages = (self.wiki.pages[path] for path in sorted(self._to_key.get(key, ())))
        return [page for page in pages if self._scope_seen(key, page.scope) == scope]

    def readers(self, key: str) -> list[Page]:
        """Return the pages that refer to a key, whether or not a page has it, by path."""
        return [self.wiki.pages[path] for path in sorted(self._to_key.get(key, ()))]

    def layer_readers(self, connection: str) -> list[Page]:
        """Return the pages that refer to the semantic layer of one connection, or of any connection, by path."""
        paths = self._to_layer.get(connection, set()) | self._to_layer.get(None, set())
        return [self.wiki.pages[path] for path in sorted(paths)]

    def _scope_seen(self, key: str, scope: str) -> str | None:
        found = self.wiki.get(key, scope)
        return None if found is None else found.scope

    def _readers_of(self, reference: Reference) -> set[str]:
        if reference.kind is Kind.PAGE:
            return self._to_key.setdefault(reference.name, set())
        return self._to_layer.setdefault(reference.connection, set())


def is_about(page: Page, connections: Collection[str]) -> bool:
    """Return whether a page exists for a reader for whom only these connections exist.

    A page that ktx keeps for one connection, or whose references to the semantic layer all name connections, exists
    only with one of them. Any other page is for everybody.
    """
    own = page.fields.get("connection")
    if page.is_catalog and isinstance(own, str):
        return own in connections
    named = {each.connection for each in references(page) if each.kind is not Kind.PAGE}
    return not named or None in named or not named.isdisjoint(connections)


def backlinks(tree: Tree, page: Page) -> list[Page]:
    """Return the pages of a tree that refer to a page, by path."""
    return graph_about(tree, (page.key,)).backlinks(page.key, page.scope)


def graph_about(tree: Tree, keys: Collection[str]) -> Graph:
    """Return the pages that have or mention one of these keys, with their references; other pages are not parsed."""
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


NEAR: Final = 0.85
"""Minimum similarity of texts treated as equal: twice the number of shared characters, divided by the total of both."""

_CANDIDATES: Final = 8
"""Maximum number of passages that are compared letter by letter."""
_SLACK: Final = 2
"""Maximum difference in word count between two passages."""
_WORD: Final = re.compile(r"\S+")


def nearest(text: str, wanted: str) -> list[tuple[int, int]]:
    """Return the locations of passages with a similarity to `wanted` of at least `NEAR`: the best per place, best
    first.

    A passage begins and ends with a word.
    """
    spans = [found.span() for found in _WORD.finditer(text)]
    if not spans:
        return []
    words = [text[start:end] for start, end in spans]
    asked = wanted.split()
    scored: list[tuple[float, int, int]] = []
    for first in _candidates(text, spans, " ".join(asked)):
        for count in range(max(1, len(asked) - _SLACK), len(asked) + _SLACK + 1):
            if first + count <= len(words):
                scored.append((likeness(words[first : first + count], asked), first, first + count))
    chosen: list[tuple[int, int]] = []
    for score, first, end in sorted(scored, key=lambda each: (-each[0], each[1], each[2])):
        if score >= NEAR and all(end <= other or first >= last for other, last in chosen):
            chosen.append((first, end))
    return [(spans[first][0], spans[end - 1][1]) for first, end in chosen]


def likeness(one: list[str], other: list[str]) -> float:
    """Return the similarity of two texts, 0 to 1, comparing words first, and letters where the words differ.

    The measure of Ratcliff and Obershelp (1988), in two steps.
    """
    total = sum(map(len, one)) + sum(map(len, other)) + len(one) + len(other) - 2
    shared = 0
    for tag, start, end, begin, stop in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag == "equal":
            shared += sum(map(len, one[start:end])) + end - start
        elif tag == "replace":
            left, right = " ".join(one[start:end]) + " ", " ".join(other[begin:stop]) + " "
            blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
            shared += sum(block.size for block in blocks)
    return 1.0 if total <= 0 else min(1.0, 2 * max(shared - 1, 0) / total)


def _candidates(text: str, spans: list[tuple[int, int]], wanted: str) -> list[int]:
    """Return the first words of the passages that share the most letter triples with `wanted`, one per place."""
    size = len(wanted)
    triples = Counter(wanted[place : place + 3] for place in range(max(size - 2, 1)))
    counts = _shared(text, triples, size)
    best = sorted(range(len(spans)), key=lambda each: (-counts[spans[each][0]], each))
    chosen: list[int] = []
    for each in best:
        if counts[spans[each][0]] <= 0 or len(chosen) == _CANDIDATES:
            break
        if all(abs(spans[each][0] - spans[other][0]) > min(size // 4, 40) or each == other for other in chosen):
            chosen.append(each)
    near = {each + step for each in chosen for step in (-1, 0, 1)}
    return sorted(each for each in near if 0 <= each < len(spans))


def _shared(text: str, triples: Counter[str], size: int) -> list[int]:
    """Return, for each character, how many common triples a passage of `size` characters starting there has."""
    window: Counter[str] = Counter()
    counts = [0] * len(text)
    shared = 0
    for end in range(len(text) - 1, -1, -1):
        added = text[end : end + 3]
        window[added] += 1
        shared += window[added] <= triples[added]
        gone = end + max(size - 2, 1)
        if gone < len(text):
            removed = text[gone : gone + 3]
            shared -= window[removed] <= triples[removed]
            window[removed] -= 1
        counts[end] = shared
    return counts
