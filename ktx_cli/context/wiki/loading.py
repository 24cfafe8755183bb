"""All pages of a tree: read once, read again where something changed, seen by a user, listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ktx_cli.context.wiki.keys import FOLDER, GLOBAL, could_be_key, page_path, place_of, scopes_seen_from, suggested_key
from ktx_cli.context.wiki.model import Finding, Page
from ktx_cli.context.wiki.page import parse
from ktx_cli.core.errors import StorageError, UsageError
from ktx_cli.core.text import did_you_mean, escaped, is_utf8, listing, one_line, plural, shell_words
from ktx_cli.project.tree import Tree


@dataclass(slots=True)
class Wiki:
    """The pages of a tree by path, and what is wrong with the files that hold none."""

    pages: dict[str, Page] = field(default_factory=dict)
    problems: dict[str, Finding] = field(default_factory=dict)

    def refresh(self, tree: Tree, paths: Iterable[str]) -> None:
        """Read these files again, or forget those that are gone; paths outside the wiki are passed over."""
        for path in paths:
            if path.startswith(FOLDER):
                self._take(path, file_of(tree, path))

    def get(self, key: str, scope: str = GLOBAL) -> Page | None:
        """Return the page somebody in `scope` sees under a key: a user's own page shadows the global one."""
        seen = (self.pages.get(page_path(each, key)) for each in scopes_seen_from(scope))
        return next((page for page in seen if page is not None), None)

    def seen_from(self, scope: str = GLOBAL) -> list[Page]:
        """Return the pages somebody in `scope` sees, by key."""
        found: dict[str, Page] = {}
        wanted = scopes_seen_from(scope)
        for page in self.pages.values():
            other = found.get(page.key)
            if page.scope in wanted and (other is None or wanted.index(page.scope) < wanted.index(other.scope)):
                found[page.key] = page
        return [found[key] for key in sorted(found)]

    def tags(self, scope: str = GLOBAL) -> dict[str, int]:
        """Return the tags of the pages seen from a scope, by name, with how many pages have each."""
        return dict(sorted(Counter(tag for page in self.seen_from(scope) for tag in set(page.tags)).items()))

    def _take(self, path: str, content: bytes | Finding | None) -> None:
        self.pages.pop(path, None)
        self.problems.pop(path, None)
        found = _read(path, content) if isinstance(content, bytes) else content
        if isinstance(found, Page):
            self.pages[path] = found
        elif found is not None:
            self.problems[path] = found


def load_wiki(tree: Tree) -> Wiki:
    """Return the pages of a tree; a file that cannot be a page is a problem, and does not keep others out."""
    wiki = Wiki()
    wiki.refresh(tree, sorted(tree.paths(FOLDER)))
    return wiki


def read_page(tree: Tree, key: str, scope: str = GLOBAL) -> Page | Finding | None:
    """Return the page somebody in `scope` sees under a key, or what is wrong with its file; None: there is none."""
    found = (own_page(tree, key, each) for each in scopes_seen_from(scope))
    return next((page for page in found if page is not None), None)


def own_page(tree: Tree, key: str, scope: str) -> Page | Finding | None:
    """Return the page of a key in this scope alone, or what is wrong with its file; None: there is none."""
    content = tree.read(page_path(scope, key)) if could_be_key(key) else None
    return None if content is None else parse(scope, key, content)


def no_such_page(key: str, wiki: Wiki, scope: str = GLOBAL) -> UsageError:
    """Return the error for a key nobody in `scope` sees a page under; its hint names the nearest one."""
    keys = [page.key for page in wiki.seen_from(scope)]
    meant = suggested_key(key)
    near = meant if meant in keys else did_you_mean(meant, keys)
    hint = shell_words("ktx", "wiki", "read", near) if near else _others(keys)
    first = sorted(keys, key=lambda each: each != near)
    return UsageError(f"there is no wiki page `{one_line(key, 60)}`", hint=hint, details={"candidates": first[:50]})


def _others(keys: list[str]) -> str:
    if not keys:
        return "ktx wiki write --help"
    return f"ktx wiki lists {plural(len(keys), 'page')}: {listing(keys)}"


def file_of(tree: Tree, path: str) -> bytes | Finding | None:
    """Return the content of a file of the wiki, why it cannot be read, or None where there is none."""
    try:
        return tree.read(path)
    except StorageError as error:
        return Finding(path, 1, "unreadable", error.message, error.hint)


def _read(path: str, content: bytes) -> Page | Finding | None:
    """Return the page of a file, what is wrong with it, or None for a file that is none of ours."""
    if not is_utf8(path):
        message = "its name is not UTF-8, so it is not a page"
        return Finding(escaped(path), 1, "place", message, f"rename it: {shell_words('git', 'mv', path)} NEW-NAME.md")
    place = place_of(path)
    if place is not None:
        return parse(*place, content)
    if not path.endswith(".md"):
        return None
    return Finding(path, 1, "place", "no page can have this path: pages lie in one folder", _moving(path))


def _moving(path: str) -> str:
    parts = path.removeprefix(FOLDER).split("/")
    scope, rest = (GLOBAL, parts[1:]) if parts[0] == GLOBAL else (GLOBAL, parts)
    if parts[0] == "user" and len(parts) > 2:
        scope, rest = "/".join(parts[:2]), parts[2:]
    return shell_words("git", "mv", path, page_path(scope, suggested_key("/".join(rest))))


def _renaming(path: str) -> str:
    return shell_words("git", "mv", path, path.removesuffix(".md") + "-2.md")


def case_twins(pages: Iterable[Page]) -> Iterator[Finding]:
    """Yield a finding for every page some file systems cannot tell from one before it."""
    first: dict[str, str] = {}
    for path in sorted(page.path for page in pages):
        other = first.setdefault(path.casefold(), path)
        if other != path:
            message = f"macOS and Windows take this file and {other} for one"
            yield Finding(path, 1, "key", message, f"rename one of them, for example: {_renaming(path)}")
