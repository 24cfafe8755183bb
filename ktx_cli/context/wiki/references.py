"""What a page refers to: `refs`, `[[pages]]`, `sl_refs`, and inline code that names sources, tables and entities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ktx_cli.context.wiki.markdown import inline_code, without, without_fences
from ktx_cli.context.wiki.model import Page
from ktx_cli.context.wiki.page import body_line, field_line


class Kind(StrEnum):
    """What a reference names.

    `page`: the key of a page. `source`: a source of the semantic layer, or something of one (`orders.revenue`).
    `table`: a table as the database calls it. `entity`: what may be a column, a measure or a segment of a source, or
    no reference at all.
    """

    PAGE = "page"
    SOURCE = "source"
    TABLE = "table"
    ENTITY = "entity"


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference of a page: `name` without the connection, `written` as it stands there.

    `field`: the list of the front matter it is in, None in the body. `at`: its index in that list, or the character of
    the body it begins with. `binding`: whether it is wrong when nothing has that name.
    """

    kind: Kind
    name: str
    written: str
    connection: str | None = None
    field: str | None = None
    at: int = 0
    binding: bool = True


_LINK: Final = re.compile(r"(?<!\\)\[\[([A-Za-z0-9][A-Za-z0-9_-]*)(?:#[^\[\]|\n]*)?(?:\|[^\[\]\n]*)?\]\]")
_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9_-]*")
_CONNECTION: Final = r"(?:([A-Za-z0-9][\w-]*)/)?"
_NAMED: Final = re.compile(rf"{_CONNECTION}(source|table):{_CONNECTION}([\w$#@\"][\w$#@\".-]*)")
_ENTITY: Final = re.compile(rf"{_CONNECTION}([^\W\d][\w$-]*\.[^\W\d][\w$]*)")
_FILE: Final = re.compile(r".*\.(?:csv|html?|ipynb|json|lkml|md|parquet|pdf|py|sh|sql|tsv|txt|xlsx?|xml|ya?ml)", re.I)
"""`orders.sql` is a file, unless the source has such a column."""


def references(page: Page) -> tuple[Reference, ...]:
    """Return all references of a page, those of the front matter first.

    In the body: `[[pages]]` outside code; in inline code outside fences `source:NAME`, `table:REF` and two-part names,
    each with `connection/` in front where it is said. Wildcards, placeholders and SQL are no references.
    """
    return (*_front(page), *_body(page.body))


def line_of(page: Page, reference: Reference) -> int:
    """Return the line of the page's file a reference stands on."""
    if reference.field is None:
        return body_line(page) + page.body.count("\n", 0, reference.at)
    return field_line(page, reference.field, reference.at)


def read_sl_ref(text: str) -> tuple[str | None, str]:
    """Return (connection, name) of `[connection/]source[.entity]`."""
    connection, slash, name = text.partition("/")
    return (connection, name) if slash else (None, text)


def _front(page: Page) -> Iterator[Reference]:
    for index, text in _items(page, "refs"):
        yield Reference(Kind.PAGE, text, text, field="refs", at=index)
    for index, text in _items(page, "sl_refs"):
        connection, name = read_sl_ref(text)
        yield Reference(Kind.SOURCE, name, text, connection, "sl_refs", index)


def _items(page: Page, name: str) -> Iterator[tuple[int, str]]:
    found = page.fields.get(name)
    items = found if isinstance(found, list) else [found]
    yield from ((index, item.strip()) for index, item in enumerate(items) if isinstance(item, str) and item.strip())


def _body(body: str) -> Iterator[Reference]:
    text = without_fences(body)
    spans = list(inline_code(text))
    for span in spans:
        found = _coded(span.text, span.start)
        if found is not None:
            yield found
    if "[[" in body:
        for link in _LINK.finditer(without(text, spans)):
            yield Reference(Kind.PAGE, link[1], link[0], at=link.start(), binding=_SLUG.fullmatch(link[1]) is not None)


def _coded(code: str, at: int) -> Reference | None:
    """Return the reference a piece of inline code is."""
    named = _NAMED.fullmatch(code)
    if named is not None:
        return Reference(Kind(named[2]), named[4], code, named[1] or named[3], at=at)
    entity = _ENTITY.fullmatch(code)
    if entity is None:
        return None
    return Reference(Kind.ENTITY, entity[2], code, entity[1], at=at, binding=_FILE.fullmatch(code) is None)
