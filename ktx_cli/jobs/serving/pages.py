"""Pages of the wiki for agents: one with everything it refers to, and what refers to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.context.tools.untrusted import visible
from ktx_cli.context.wiki.graph import backlinks
from ktx_cli.context.wiki.keys import scopes_seen_from
from ktx_cli.context.wiki.model import Page
from ktx_cli.context.wiki.references import Kind, Reference, references
from ktx_cli.core import yaml
from ktx_cli.jobs.wiki import find_page, scope_of
from ktx_cli.project.layout import Layout
from ktx_cli.project.tree import WorkingTree

_TOLD: Final = frozenset({"summary", "tags", "refs", "sl_refs"})
"""Fields of the front matter that an answer has of its own."""

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
    page = find_page(layout, key, scope_of(user))
    found = references(page)
    refs = [each.name for each in found if each.kind is Kind.PAGE]
    named = [*page.sl_refs, *(_named(each) for each in found if each.field is None and each.kind in _LAYER)]
    seen = scopes_seen_from(scope_of(user))
    readers = {each.key for each in backlinks(WorkingTree(layout.root), page) if each.scope in seen}
    return PageFacts(page, _once(refs), _once([visible(each) for each in named]), tuple(sorted(readers)))


def _named(reference: Reference) -> str:
    prefix = f"{reference.connection}/" if reference.connection else ""
    return prefix + reference.name


def _once(names: list[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
