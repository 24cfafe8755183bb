"""Passages of documents (evidence for what pages say) as documents to be searched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ktx_cli.context.search.model import KINDS, Document, Field
from ktx_cli.core.text import one_line

TITLE, HEADING, BODY = 2.0, 2.0, 1.0
_SUMMARY = 200


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document. `id` is how it is asked for, `heading` the headings it stands below."""

    id: str
    connection: str
    title: str
    text: str
    heading: str = ""


def passage_documents(passages: Iterable[Passage]) -> Iterator[Document]:
    """Yield a document for every passage."""
    for each in passages:
        fields = (Field("title", each.title, TITLE), Field("heading", each.heading, HEADING))
        filled = tuple(field for field in (*fields, Field("text", each.text, BODY)) if field.text)
        summary = one_line(f"{each.title}: {each.heading}" if each.heading else each.title, _SUMMARY)
        yield Document("passage", each.id, each.connection, summary, filled, KINDS.index("passage"))
