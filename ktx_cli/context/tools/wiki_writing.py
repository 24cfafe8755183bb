"""Tools that write the wiki: a page is checked before it is saved, and only what was asked for changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from ktx_cli.context.tools.accepting import check_kept
from ktx_cli.context.tools.calling import Input, Tool
from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.limits import joined
from ktx_cli.context.tools.page_checking import check_page
from ktx_cli.context.tools.records import Action, named_page
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.wiki_reading import no_page, page_text
from ktx_cli.context.wiki.editing import Replacement
from ktx_cli.context.wiki.graph import graph_about
from ktx_cli.context.wiki.keys import check_key, suggested_key
from ktx_cli.context.wiki.lint import LONGEST_BODY, LONGEST_SUMMARY
from ktx_cli.context.wiki.loading import own_page
from ktx_cli.context.wiki.model import Finding, Page
from ktx_cli.context.wiki.page import render
from ktx_cli.context.wiki.writing import Revision, revised
from ktx_cli.core.text import listing
from ktx_cli.llm.tools import ToolOutput

_FIELDS: Final = (
    "summary", "tags", "refs", "sl_refs", "source", "intent", "tables", "representative_sql", "usage", "fingerprints",
)  # fmt: skip
_RAW_PATHS: Final = Field(None, description="The raw files of this task it comes from; without it all of them.")


class PageEdit(Input):
    """One passage and what comes in its place."""

    old_text: str = Field(min_length=1, description="A passage of the body as it stands there, there once.")
    new_text: str = Field(description="What comes in its place.")


class WritePage(Input):
    """A page, or changes of one. What is left out stays as it is; an empty list clears a field."""

    key: str = Field(description="Key of the page: letters, digits, - and _, no folders.")
    summary: str | None = Field(None, max_length=LONGEST_SUMMARY, description="One sentence; a new page needs it.")
    content: str | None = Field(None, description=f"The whole body as Markdown, at most {LONGEST_BODY} characters.")
    replacements: list[PageEdit] | None = Field(
        None, max_length=50, description="Edits of the body of a page that is there, in place of `content`."
    )
    tags: list[str] | None = Field(None, max_length=20, description="Tags; take those that are there.")
    refs: list[str] | None = Field(None, max_length=50, description="Keys of pages it refers to.")
    sl_refs: list[str] | None = Field(
        None, max_length=50, description="`[connection/]source[.entity]` of the semantic layer it is about."
    )
    source: str | None = Field(None, max_length=500, description="Where people read the original.")
    intent: str | None = Field(None, max_length=500, description="The question the page answers.")
    tables: list[str] | None = Field(None, max_length=50, description="Tables it is about, as the database has them.")
    representative_sql: str | None = Field(None, max_length=10_000, description="One statement that shows the case.")
    usage: dict[str, Any] | None = Field(None, description="Counts of a query's use.")
    fingerprints: list[str] | None = Field(None, max_length=200, description="Ids of the queries it stands for.")
    raw_paths: list[str] | None = _RAW_PATHS


class RemovePage(Input):
    """Which page goes."""

    key: str = Field(description="Key of the page.")
    raw_paths: list[str] | None = _RAW_PATHS


def _write(session: ToolSession, value: WritePage) -> ToolOutput:
    key = check_key(value.key)
    raw_paths = session.raw_paths(value.raw_paths)
    old = _old(session, key)
    page = revised(session.workspace, key, _revision(value, key, old), session.scope)
    _check_fields(page, old)
    if old is not None and page.text == old.text:
        session.confirmed(Action("wiki", "confirmed", named_page(page.scope, key), None, raw_paths))
        return ToolOutput(f"The page `{key}` says that already; nothing was changed.", {"success": True})
    check_kept(session, page.path, render(page))
    notes = check_page(session, page, old, raw_paths)
    _spend(session, created=old is None)
    session.workspace.write(page.path, render(page))
    named = named_page(page.scope, key)
    action = Action("wiki", "created" if old is None else "updated", named, None, raw_paths, page.summary)
    session.acted(action, page.path)
    shown = page_text(page)[0] if value.replacements else ""
    structured = {"success": True, "target": action.identity, "path": page.path, "notes": notes}
    return ToolOutput(joined(f"{action.kind}: {page.path}", "\n".join(notes), shown), structured)


def _old(session: ToolSession, key: str) -> Page | None:
    found = own_page(session.workspace, key, session.scope)
    if isinstance(found, Finding):
        raise Refused(f"the page `{key}` cannot be changed, its file is broken: {found.message}; people correct it")
    return found


def _revision(value: WritePage, key: str, old: Page | None) -> Revision:
    """Return what is wanted of the page; `Refused` where the arguments do not make one."""
    if value.content is not None and value.replacements:
        raise Refused("give `content` or `replacements`, not both")
    if old is None and value.replacements:
        raise Refused(f"there is no page `{key}` to edit: give `summary` and `content`")
    if old is None and not (value.content or "").strip():
        raise Refused(_new_needs(key))
    fields = {name: found for name in _FIELDS if (found := getattr(value, name)) is not None}
    edits = [Replacement(each.old_text, each.new_text) for each in value.replacements or ()]
    return Revision(fields, value.content, edits)


def _check_fields(page: Page, old: Page | None) -> None:
    """Refuse a page without its summary, and fields in `content` that are people's to set."""
    before: Mapping[str, Any] = {} if old is None else old.fields
    if old is None and not page.summary:
        raise Refused(_new_needs(page.key))
    if old is not None and old.summary and not page.summary:
        raise Refused("a page keeps a summary: leave it out, or give a sentence")
    others = sorted({*page.fields, *before} - {*_FIELDS})
    foreign = [name for name in others if page.fields.get(name) != before.get(name)]
    if foreign:
        raise Refused(f"these fields are people's to set: {listing(foreign)}; take them out of `content`")


def _new_needs(key: str) -> str:
    return f"there is no page `{key}` yet: a new page needs `summary` and `content`"


def _spend(session: ToolSession, *, created: bool) -> None:
    """Take a page off the budget; `Refused` where nothing is left of it."""
    if session.budget is None:
        return
    name = "creates" if created else "updates"
    left = getattr(session.budget, name)
    if left <= 0:
        what = "new pages" if created else "changes of pages"
        raise Refused(f"the budget of {what} of this run is used up: write no more of them")
    setattr(session.budget, name, left - 1)


def _remove(session: ToolSession, value: RemovePage) -> ToolOutput:
    raw_paths = session.raw_paths(value.raw_paths)
    found = own_page(session.workspace, value.key, session.scope) if suggested_key(value.key) == value.key else None
    if found is None:
        raise no_page(session, value.key)
    path = found.path
    check_kept(session, path, None)
    found_readers = graph_about(session.workspace, (value.key,)).readers(value.key)
    readers = sorted({page.key for page in found_readers if page.key != value.key})[:50]
    session.workspace.delete(path)
    action = Action("wiki", "removed", named_page(session.scope, value.key), None, raw_paths)
    session.acted(action, path)
    note = f"These pages still refer to it, change them: {', '.join(readers)}" if readers else ""
    structured = {"success": True, "target": action.identity, "path": path, "readers": readers}
    return ToolOutput(joined(f"removed: {path}", note), structured)


def _target(session: ToolSession, value: WritePage | RemovePage) -> str:
    return f"wiki:{suggested_key(value.key)}"


TOOLS: Final = (
    Tool(
        "wiki_write",
        "Create a page of the wiki or change one. Every table, column, source and measure it names must have been"
        " looked up in this session. To change a page that is there, read it and give `replacements`.",
        WritePage,
        _write,
        target=_target,
        reads=False,
    ),
    Tool("wiki_remove", "Remove a page of the wiki.", RemovePage, _remove, target=_target, reads=False),
)
