"""Edits of a page's text by old and new passages, as a model writes them: all of them, or none."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import ConfigError, Diagnostic, KtxError, UsageError, listing, one_line, plural
from ktx_cli.project import Edit, Tree
from ktx_cli.semantic import Model
from ktx_cli.wiki.check import Checker, lint_page
from ktx_cli.wiki.keys import GLOBAL, check_key, page_path, place_of, same_but_for_case
from ktx_cli.wiki.page import DIAGNOSTIC_KEYS, Page, changed, edited, new_page, parse
from ktx_cli.wiki.reference import Kind, Reference, Resolver, read_sl_ref
from ktx_cli.wiki.store import NEAR, nearest

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
        raise UsageError(
            f"nothing was changed: {'; '.join(problems)}",
            hint="read the page again and quote each passage as it stands there, with enough of it to be the only one",
            details={"problems": problems},
        )
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
    for spans in (_exact(text, old), _spaced(text, old)):
        if len(spans) > 1:
            return f"fits {plural(len(spans), 'passage')}"
        if spans:
            return spans[0]
    alike = nearest(text, old)
    if len(alike) > 1:
        return f"is like {plural(len(alike), 'passage')}"
    return alike[0] if alike else f"fits nothing, and nothing is like it by {NEAR:.0%}"


def _exact(text: str, old: str) -> list[tuple[int, int]]:
    return _overlapping(re.compile(re.escape(old)), text)


def _spaced(text: str, old: str) -> list[tuple[int, int]]:
    return _overlapping(re.compile(r"\s+".join(map(re.escape, old.split()))), text)


def _overlapping(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    """Return where a pattern fits, also where it fits again before it ends."""
    spans: list[tuple[int, int]] = []
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
    pending: Collection[str] = (),
) -> list[Diagnostic]:
    """Return what gates and lint say of a page, by line; what its file said before (`old`) is not held against it.

    Those that are no errors need not keep it from being saved. `pending`: codes that are looked at later, as
    `dangling_page` is where pages are still being written.
    """
    checker = Checker(tree, models)
    found = {*checker.page(page), *lint_page(page, named_hosts)}
    if old is not None:
        before = {(each.code, each.message) for each in (*checker.page(old), *lint_page(old, named_hosts))}
        found = {each for each in found if (each.code, each.message) not in before}
    kept = [each for each in found if each.code not in pending]
    return sorted(kept, key=lambda each: (each.line, each.code, each.message))


def refused(page: Page, found: Sequence[Diagnostic]) -> KtxError:
    """Return the error for a page that was not saved for what was found."""
    problems_text = listing([f"line {each.line}: {each.message}" for each in found], 3)
    first = next((each.hint for each in found if each.hint), None)
    return KtxError(
        f"{page.path} was not written: {plural(len(found), 'problem')}: {problems_text}",
        hint=first,
        code="wiki_problems",
        details={"findings": [each.select(DIAGNOSTIC_KEYS) for each in found]},
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


@dataclass(frozen=True, slots=True)
class Pruned:
    """A page without the entries of `sl_refs` that lead nowhere; `dropped`: what they were."""

    page: Page
    dropped: tuple[str, ...]


def prune(pages: Iterable[Page], models: Mapping[str, Model]) -> Iterator[Pruned]:
    """Yield the pages whose `sl_refs` name something the semantic layer does not have, without those entries.

    The rest of a page stays as it is, its text too: what the text names is for its author to correct. Raises
    `ConfigError` where the form of a front matter allows no such change.
    """
    resolver = Resolver(models)
    for page in pages:
        dropped = [text for text in page.sl_refs if resolver.missing(_reference(text)) is not None]
        if dropped:
            yield Pruned(edited(page, _edits(page, dropped)), tuple(dropped))


def _edits(page: Page, dropped: Collection[str]) -> list[Edit]:
    """Return the edits that take entries out of the list, the last one first; a list that is left empty goes."""
    items = page.fields["sl_refs"]
    if len(page.sl_refs) == len(dropped) or not isinstance(items, list):
        return [Edit("delete", ("sl_refs",))]
    indexes = [index for index, item in enumerate(items) if isinstance(item, str) and item.strip() in dropped]
    return [Edit("delete", ("sl_refs", index)) for index in reversed(indexes)]


def _reference(text: str) -> Reference:
    connection, name = read_sl_ref(text)
    return Reference(Kind.SOURCE, name, text, connection, "sl_refs")
