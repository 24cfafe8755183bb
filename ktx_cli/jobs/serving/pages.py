"""What agents read as a whole: a page with everything it refers to and what refers to it, a passage of a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.context.search.passages import Passage
from ktx_cli.context.tools.untrusted import visible
from ktx_cli.context.wiki.graph import backlinks
from ktx_cli.context.wiki.keys import scopes_seen_from
from ktx_cli.context.wiki.model import Page
from ktx_cli.context.wiki.references import Kind, Reference, references
from ktx_cli.core import yaml
from ktx_cli.core.errors import UsageError
from ktx_cli.core.text import did_you_mean, one_line
from ktx_cli.jobs.passages import passage_of
from ktx_cli.jobs.wiki import find_page, scope_of
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout
from ktx_cli.project.tree import WorkingTree

_TOLD: Final = frozenset({"summary", "tags", "refs", "sl_refs"})
"""Fields of the front matter that an answer has of its own."""

_LOOK: Final = "find keys with wiki_search, passages of documents (read by their id) with discover_data"

_LAYER: Final = (Kind.SOURCE, Kind.TABLE)


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
        more = {name: each for name, each in self.page.fields.items() if name not in _TOLD}
        head = f"---\n{yaml.dump(more)}---\n\n" if more else ""
        return visible(head + self.page.body)

    @property
    def as_resource(self) -> str:
        """The page as one text, front matter first."""
        return visible(self.page.text)


def page_facts(layout: Layout, key: str, user: str | None = None) -> PageFacts:
    """Return the page that `user` (None: anybody) sees under a key; raises as `find_page`."""
    page = _found(layout, key, user)
    found = references(page)
    refs = [each.name for each in found if each.kind is Kind.PAGE]
    named = [*page.sl_refs, *(_named(each) for each in found if each.field is None and each.kind in _LAYER)]
    seen = scopes_seen_from(scope_of(user))
    readers = {each.key for each in backlinks(WorkingTree(layout.root), page) if each.scope in seen}
    return PageFacts(page, _once(refs), _once([visible(each) for each in named]), tuple(sorted(readers)))


def passage_facts(layout: Layout, config: KtxConfig, key: str) -> Passage:
    """Return the passage of a document that discover_data gave the id of; `UsageError` where there is none now."""
    found = passage_of(layout, config, key)
    if found is None:
        hint = "copy the id from discover_data; a document that changed since it was read is read again by ktx ingest"
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


def _named(reference: Reference) -> str:
    prefix = f"{reference.connection}/" if reference.connection else ""
    return prefix + reference.name


def _once(names: list[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
