"""Tools that read the wiki as the overlay has it: what the loop wrote is there too."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from ktx_cli.context.search.model import Scope
from ktx_cli.context.tools.calling import Input, Tool
from ktx_cli.context.tools.discovery import hit_line
from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.limits import LONGEST, RESERVE, Parts, cut_lines, joined
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.untrusted import visible, wrapped
from ktx_cli.context.wiki.keys import FOLDER, place_of, scopes_seen_from, suggested_key, user_of
from ktx_cli.context.wiki.loading import load_wiki, read_page
from ktx_cli.context.wiki.model import Finding, Page
from ktx_cli.core import yaml
from ktx_cli.core.text import did_you_mean, one_line, plural
from ktx_cli.llm.tools import ToolOutput


class Search(Input):
    """What to look for."""

    query: str = Field(max_length=500, description="Words of the topic.")
    limit: int = Field(10, ge=1, le=50, description="Pages at most.")


class ReadPage(Input):
    """Which page to read."""

    key: str = Field(description="Key of the page.")
    start_line: int = Field(1, ge=1, description="Line of the body to begin at, where a long one was cut.")


class ListTags(Input):
    """Nothing to say."""


def _search(session: ToolSession, value: Search) -> ToolOutput:
    found = session.search(value.query, Scope(("page",), user=user_of(session.scope)), value.limit)
    if not found:
        return ToolOutput("No page fits. Try other words.", {"success": True, "keys": []})
    parts = Parts()
    for each in found:
        parts.add(hit_line(each))
    more = parts.more("pages", "ask for fewer")
    keys = [each.id for each in found]
    return ToolOutput(joined(wrapped(parts.text(), "search: wiki pages"), more), {"success": True, "keys": keys})


def _read(session: ToolSession, value: ReadPage) -> ToolOutput:
    found = the_page(session, value.key)
    if found is None:
        raise no_page(session, value.key)
    if isinstance(found, Finding):
        raise Refused(f"the page `{value.key}` cannot be read: {found.message}")
    markdown, structured = page_text(found, value.start_line)
    return ToolOutput(markdown, structured)


def no_page(session: ToolSession, key: str) -> Refused:
    """Return the refusal of a key no page has."""
    keys = keys_of(session)
    near = next((each for each in (suggested_key(key), did_you_mean(key, sorted(keys))) if each in keys), None)
    advice = f"did you mean `{near}`?" if near else "look with wiki_search"
    return Refused(f"there is no page `{one_line(key, 120)}`; {advice}")


def keys_of(session: ToolSession) -> set[str]:
    """Return the keys of the pages this session sees, from the paths of their files alone."""
    paths = (path for scope in scopes_seen_from(session.scope) for path in session.workspace.paths(f"{FOLDER}{scope}/"))
    return {place[1] for place in map(place_of, paths) if place is not None}


def the_page(session: ToolSession, key: str) -> Page | Finding | None:
    """Return the page of a key as the overlay has it."""
    return read_page(session.workspace, key, session.scope) if suggested_key(key) == key else None


def page_text(page: Page, start_line: int = 1) -> tuple[str, dict[str, Any]]:
    """Return a page as a model reads it, front matter first, cut where it is long."""
    head = visible(yaml.dump(dict(page.fields))) if page.fields else ""
    head, _ = cut_lines(head, LONGEST // 4)
    lines = visible(page.body).split("\n")
    kept, count = cut_lines("\n".join(lines[start_line - 1 :]), LONGEST - RESERVE - len(head))
    last = start_line + count - 1
    cut = last < len(lines)
    note = f"(cut: lines {start_line} to {last} of {plural(len(lines), 'line')}; read on with start_line {last + 1})"
    text = wrapped(f"{head}---\n{kept}" if head else kept, f"wiki page {page.key}")
    return joined(text, note if cut else ""), {"success": True, "key": page.key, "fields": dict(page.fields)}


def _tags(session: ToolSession, value: ListTags) -> ToolOutput:
    tags = load_wiki(session.workspace).tags(session.scope)
    if not tags:
        return ToolOutput("No page has a tag yet.", {"success": True, "tags": []})
    parts = Parts()
    for tag, count in tags.items():
        parts.add(f"- {tag} ({plural(count, 'page')})")
    more = parts.more("tags", "search with wiki_search for the rest")
    return ToolOutput(joined(wrapped(parts.text(), "tags of the wiki"), more), {"success": True, "tags": list(tags)})


TOOLS: Final = (
    Tool("wiki_search", "Search the pages of the wiki by words. Finds what you wrote too.", Search, _search),
    Tool("wiki_read", "Read a page of the wiki: its front matter and its body.", ReadPage, _read),
    Tool("wiki_list_tags", "List the tags pages have, so that a new page takes one that is there.", ListTags, _tags),
)
