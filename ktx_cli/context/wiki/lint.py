"""Looks through pages for what must not be in them, whoever wrote them: what people do not see, and what is no text."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ktx_cli.context.wiki.hidden import hidden_characters, hidden_markup
from ktx_cli.context.wiki.instructions import instructions
from ktx_cli.context.wiki.links import hosts_in, images, links
from ktx_cli.context.wiki.model import Finding, Page
from ktx_cli.context.wiki.page import body_line, field_line
from ktx_cli.context.wiki.secret_texts import secrets
from ktx_cli.core.text import plural

LONGEST_SUMMARY: Final = 200
LONGEST_BODY: Final = 4000
"""Characters; a page of more is two pages."""

NOTES: Final = frozenset({"instruction", "html_comment", "html", "unexpected_link", "image", "data_uri"})
"""Codes of what a person should look at; everything else keeps a page from being saved."""

NamedHosts = Callable[[Page], Collection[str] | None]
"""The hosts the sources of a page name; None where they are not known, so that links are not judged."""

_FINGERPRINT: Final = re.compile(r"[0-9a-f]{16}")
"""What ktx calls a query of the history by."""


def lint_page(page: Page, named_hosts: Collection[str] | None) -> Iterator[Finding]:
    """Yield what a person should look at before agents read the page, in the order of its lines.

    Sentences to agents, what readers do not see, links to hosts the sources of the page do not name (`named_hosts`; the
    one of the field `source` is always named), images, data in links, texts that look like secrets, and too much text.
    """
    known = None if named_hosts is None else {*named_hosts, *hosts_in(str(page.fields.get("source") or ""))}
    told = dict.fromkeys(_findings(page, page.text, known))
    for line, text in _unquoted(page):
        told.update(dict.fromkeys(replace(each, line=line) for each in _findings(page, text, known)))
    yield from sorted([*told, *too_long(page)], key=lambda each: (each.line, each.code, each.message))


def _findings(page: Page, text: str, known: Collection[str] | None) -> Iterator[Finding]:
    own = _without_fingerprints(page, text)
    spots = (
        *(*instructions(text), *hidden_characters(text), *hidden_markup(text)),
        *(*links(text, known), *images(text), *secrets(own)),
    )
    for spot in spots:
        yield Finding(page.path, text.count("\n", 0, spot.at) + 1, spot.code, spot.message, spot.hint)


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


def too_long(page: Page) -> Iterator[Finding]:
    """Yield a finding for a summary or a body that is longer than an agent's page may be."""
    summary, body = len(page.summary), len(page.body.strip())
    if summary > LONGEST_SUMMARY:
        message = f"the summary has {summary:,} characters, {LONGEST_SUMMARY} are enough"
        yield Finding(page.path, field_line(page, "summary"), "too_long", message, "say it in one sentence")
    if body > LONGEST_BODY:
        message = f"the page has {plural(body, 'character')}, {LONGEST_BODY:,} are enough"
        hint = "make two pages of it, and refer from one to the other"
        yield Finding(page.path, body_line(page), "too_long", message, hint)
