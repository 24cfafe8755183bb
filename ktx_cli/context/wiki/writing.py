"""A page as somebody wants it written: what they say put into what is there, and checked before it is saved."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktx_cli.context.semantic.model import Model
from ktx_cli.context.wiki.checking import Checker
from ktx_cli.context.wiki.editing import Replacement, replaced, with_newlines
from ktx_cli.context.wiki.keys import GLOBAL, check_key, page_path, place_of, same_but_for_case
from ktx_cli.context.wiki.lint import lint_page
from ktx_cli.context.wiki.model import Finding, Page
from ktx_cli.context.wiki.page import changed, new_page, parse
from ktx_cli.core.errors import ConfigError, KtxError, UsageError
from ktx_cli.core.text import listing, plural
from ktx_cli.project.tree import Tree


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
    pending: Collection[str] = (),
) -> list[Finding]:
    """Return what gates and lint say of a page, by line; what its file said before (`old`) is not held against it.

    Those with a code of `NOTES` need not keep it from being saved. `pending`: codes that are looked at later, as
    `dangling_page` is where pages are still being written.
    """
    checker = Checker(tree, models)
    found = {*checker.page(page), *lint_page(page, named_hosts)}
    if old is not None:
        before = {(each.code, each.message) for each in (*checker.page(old), *lint_page(old, named_hosts))}
        found = {each for each in found if (each.code, each.message) not in before}
    kept = [each for each in found if each.code not in pending]
    return sorted(kept, key=lambda each: (each.line, each.code, each.message))


def refused(page: Page, found: Sequence[Finding]) -> KtxError:
    """Return the error for a page that was not saved for what was found."""
    told = listing([f"line {each.line}: {each.message}" for each in found], 3)
    first = next((each.hint for each in found if each.hint), None)
    return KtxError(
        f"{page.path} was not written: {plural(len(found), 'problem')}: {told}",
        hint=first,
        code="wiki_problems",
        details={"findings": [each.to_json() for each in found]},
    )


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
    if isinstance(found, Finding):
        message = f"the front matter of the content cannot be read: line {found.line}: {found.message}"
        raise ConfigError(message, hint="correct it, or leave it out")
    return Revision({**found.fields, **revision.fields}, found.body)


def _present(tree: Tree, key: str, scope: str) -> Page | None:
    content = tree.read(page_path(scope, key))
    if content is None:
        return None
    found = parse(scope, key, content)
    if isinstance(found, Finding):
        raise ConfigError(str(found), hint=found.hint, details={"path": found.path, "line": found.line})
    return found


def _new(tree: Tree, key: str, revision: Revision, scope: str) -> Page:
    if revision.replacements:
        raise UsageError(f"there is no page `{key}` to replace passages in", hint="give the whole text as content")
    if not (revision.content or "").strip():
        raise UsageError(
            f"there is no page `{key}` yet, and a new one needs a text", hint="give it as content (--content TEXT)"
        )
    fields = {name: value for name, value in revision.fields.items() if _or_none(value) is not None}
    page = new_page(key, fields, with_newlines(revision.content or ""), scope)
    twin = twin_of(tree, page)
    if twin is not None:
        raise UsageError(
            f"`{key}` is on macOS and Windows the same file as the page `{twin}`",
            hint=f"write `{twin}`, or another key",
        )
    return page


def _or_none(value: Any) -> Any:
    return None if value in ([], (), "", {}) else value
