"""Pages and sources as resources: listed by cursor, read with a note where they had to be cut."""

from __future__ import annotations

import base64
import binascii
from typing import Final

import mcp_types as types

from ktx_cli.core.errors import UsageError
from ktx_cli.jobs.serving.project import ServedProject
from ktx_cli.jobs.serving.resources import MARKDOWN, SOURCE, WIKI, YAML, places, text_at
from ktx_cli.mcp.paging import LONGEST

AT_ONCE: Final = 100
"""Resources in one page of the list."""

TEMPLATES: Final = (
    types.ResourceTemplate(
        uri_template=WIKI,
        name="wiki page",
        title="A page of the wiki",
        description="What numbers mean: rules, exceptions, decisions. Keys: wiki_search.",
        mime_type=MARKDOWN,
    ),
    types.ResourceTemplate(
        uri_template=SOURCE,
        name="source",
        title="A source of the semantic layer",
        description="Columns, measures, joins and segments of a source, everything its files say put together.",
        mime_type=YAML,
    ),
)


def resource_page(project: ServedProject, cursor: str | None) -> types.ListResourcesResult:
    """Return the resources behind a cursor: those whose address comes after it; `UsageError` for one that is none."""
    after = "" if cursor is None else _decoded(cursor)
    left = [each for each in places(project) if each.uri > after]
    shown = left[:AT_ONCE]
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=each.uri, name=each.name, description=each.description or None, mime_type=each.mime)
            for each in shown
        ],
        next_cursor=_encoded(shown[-1].uri) if len(left) > AT_ONCE else None,
    )


def resource_text(project: ServedProject, uri: str, *, privacy: bool) -> types.ReadResourceResult:
    """Return what stands at an address, cut to the budget; raises as `text_at`."""
    found = text_at(project, uri, privacy=privacy)
    text = found.text
    if len(text) > LONGEST:
        note = (
            f"\n\n(cut: {LONGEST:,} of {len(text):,} characters are shown; the tool {found.tool} gives all, in pages)"
        )
        text = text[:LONGEST] + note
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=found.uri, mime_type=found.mime, text=text)]
    )


def _encoded(uri: str) -> str:
    return base64.urlsafe_b64encode(uri.encode()).decode()


def _decoded(cursor: str) -> str:
    try:
        return base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True).decode("utf-8")
    except (binascii.Error, UnicodeError):
        raise UsageError("this cursor is none of this server's", hint="list the resources from the beginning") from None
