"""What agents read as a whole: a page with everything it refers to and what refers to it, a passage of a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ktx_cli.agent_tools import passage_of, visible
from ktx_cli.core import Command, Hint, UsageError, did_you_mean, one_line, yaml
from ktx_cli.jobs.wiki import find_page, scope_of
from ktx_cli.project import KtxConfig, Layout, WorkingTree
from ktx_cli.search import Passage
from ktx_cli.wiki import Kind, Page, backlinks, references, scopes_seen_from

_SHOWN_FIELDS: Final = frozenset({"summary", "tags", "refs", "sl_refs"})
"""Fields of the front matter that an answer has of its own."""

_LOOK: Final = "find keys with wiki_search, passages of documents (read by their id) with discover_data"


@dataclass(frozen=True, slots=True)
class PageFacts:
    """A page with its references: keys of pages, names of the semantic layer, and the pages that refer to it."""

    page: Page
    refs: tuple[str, ...]
    sl_refs: tuple[str, ...]
    backlinks: tuple[str, ...]

    @property
    def content(self) -> str:
        """What the page says, with what else is in its front matter on top; hidden characters are shown."""
        more = {name: each for name, each in self.page.fields.items() if name not in _SHOWN_FIELDS}
        head = f"---\n{yaml.dump(more)}---\n\n" if more else ""
        return visible(head + self.page.body)


def page_facts(layout: Layout, key: str, user: str | None = None) -> PageFacts:
    """Return the page that `user` (None: anybody) sees under a key; raises as `find_page`."""
    page = _found(layout, key, user)
    found = references(page)
    refs = dict.fromkeys(each.name for each in found if each.kind is Kind.PAGE)
    names = [
        f"{each.connection}/{each.name}" if each.connection else each.name
        for each in found
        if each.field is None and each.kind in (Kind.SOURCE, Kind.TABLE)
    ]
    seen = scopes_seen_from(scope_of(user))
    readers = {each.key for each in backlinks(WorkingTree(layout.root), page) if each.scope in seen}
    return PageFacts(
        page, tuple(refs), tuple(dict.fromkeys(map(visible, (*page.sl_refs, *names)))), tuple(sorted(readers))
    )


def passage_facts(layout: Layout, config: KtxConfig, key: str) -> Passage:
    """Return the passage of a document that discover_data gave the id of; `UsageError` where there is none now."""
    found = passage_of(layout, config, key)
    if found is None:
        hint = Hint(
            "copy the id from discover_data; a document that changed since it was read is read again by {}",
            Command("ingest"),
        )
        raise UsageError(f"there is no passage `{one_line(key, 200)}`", hint=hint)
    return found


def _found(layout: Layout, key: str, user: str | None) -> Page:
    """Return a page; where there is none the hint names what an agent can do."""
    try:
        return find_page(layout, key, scope_of(user))
    except UsageError as error:
        known = error.details.get("candidates")
        if known is not None:
            near = did_you_mean(key[:100], known[:1])
            error.hint = f"did you mean `{near}`?" if near else _LOOK
        raise
