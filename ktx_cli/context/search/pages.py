"""Wiki pages as documents to be searched."""

from __future__ import annotations

import re
from typing import Final

from ktx_cli.context.search.model import KINDS, Document, Field
from ktx_cli.context.wiki.keys import GLOBAL, place_of
from ktx_cli.context.wiki.model import Finding, Page
from ktx_cli.context.wiki.page import parse
from ktx_cli.core.text import one_line

NAME, TITLE, BODY, REFERENCE = 4.0, 2.0, 1.0, 0.5
"""How much a word counts in the key, in the title, summary and tags, in the body, in a reference."""

_HEADING: Final = re.compile(r"^#[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_SUMMARY: Final = 200


def page_document(path: str, content: bytes) -> Document | None:
    """Return the document of a page's file, None for a path no page can have.

    A page whose front matter cannot be read is searched as the text it is.
    """
    place = place_of(path)
    if place is None:
        return None
    scope, key = place
    page = parse(scope, key, content)
    if isinstance(page, Finding):
        page = Page(key, scope, {}, content.decode("utf-8", "replace"))
    heading = _HEADING.search(page.body)
    title = heading[1] if heading else ""
    fields = (
        Field("key", key, NAME),
        Field("title", title, TITLE),
        Field("summary", page.summary, TITLE),
        Field("tags", " ".join(page.tags), TITLE),
        Field("refs", " ".join((*page.refs, *page.sl_refs, *page.texts("tables"))), REFERENCE),
        Field("body", page.body, BODY),
    )
    summary = one_line(page.summary or title or page.body, _SUMMARY)
    owner = "" if scope == GLOBAL else scope.partition("/")[2]
    filled = tuple(each for each in fields if each.text)
    return Document("page", key, "", summary, filled, KINDS.index("page"), owner, tags=tuple(page.tags))
