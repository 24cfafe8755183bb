"""Read documents (Markdown, HTML, PDF, SQL) as text, and divide them into passages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.documents.conventions import (
        FISCAL_YEAR_START,
        TIMEZONE,
        WEEK_START,
        Convention,
        is_convention,
        is_zone,
        month_number,
        stated_conventions,
        week_day,
    )
    from ktx_cli.documents.dates import Meaning, Statement, conflicts, day_of, stated_dates, statements
    from ktx_cli.documents.html import MAX_HTML, Token, markdown_of, text_token, tokens, visible
    from ktx_cli.documents.markdown import (
        Passage,
        fenced,
        is_heading,
        outside_fences,
        passages,
        slug,
        with_front_matter,
        without_comments,
    )
    from ktx_cli.documents.outline import (
        Mark,
        Outline,
        Standing,
        dates_of,
        is_current,
        marks_of,
        outline_of,
        stated_standing,
    )
    from ktx_cli.documents.raw import Changes, Document, RawFile, Skipped, Snapshot, UnreadableDocumentError, WorkUnit
    from ktx_cli.documents.reader import SUFFIXES, read_document

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
