"""What agents read as a whole: a page with everything it refers to and what refers to it, a passage of a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from ktx_cli.agent_tools import passage_of, visible
from ktx_cli.core import Command, Hint, UsageError, did_you_mean, one_line, yaml
from ktx_cli.jobs.semantic.layers import read_layers
from ktx_cli.jobs.serve.layers import read_definition
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.jobs.wiki import find_page, read_wiki, scope_of
from ktx_cli.project import KtxConfig, Layout, WorkingTree
from ktx_cli.search import Passage
from ktx_cli.wiki import Kind, Page, Reference, backlinks, references, scopes_seen_from

_SHOWN_FIELDS: Final = frozenset({"summary", "tags", "refs", "sl_refs"})
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
        more = {name: each for name, each in self.page.fields.items() if name not in _SHOWN_FIELDS}
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


def _named(reference: Reference) -> str:
    prefix = f"{reference.connection}/" if reference.connection else ""
    return prefix + reference.name


def _once(names: list[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


WIKI: Final = "ktx://wiki/{key}"
SOURCE: Final = "ktx://semantic-layer/{connection}/{source}"
MARKDOWN: Final = "text/markdown"
YAML: Final = "application/yaml"
_LONGEST: Final = 1_000


@dataclass(frozen=True, slots=True)
class Place:
    """Something that can be read. `mime`: what its text is."""

    uri: str
    name: str
    description: str
    mime: str


@dataclass(frozen=True, slots=True)
class Text:
    """What stands at an address. `tool`: the call that gives more of it where it has to be cut."""

    uri: str
    mime: str
    text: str
    tool: str


def places(project: ServedProject) -> list[Place]:
    """Return everybody's pages and the sources that may be shown, by address."""
    return sorted([*_pages(project), *_sources(project)], key=lambda each: each.uri)


def text_at(project: ServedProject, uri: str, *, privacy: bool) -> Text:
    """Return what stands at an address; `UsageError` for one that is none of ours, else as pages and sources raise."""
    kind, parts = _parts(uri)
    if kind == "wiki" and len(parts) == 1:
        facts = page_facts(project.layout, parts[0])
        return Text(uri, MARKDOWN, facts.as_resource, "wiki_read")
    if kind == "semantic-layer" and len(parts) == 2:
        found = read_definition(project, parts[1], parts[0], "composed", privacy=privacy)
        return Text(uri, YAML, found.yaml, "sl_read_source")
    raise UsageError(f"there is no resource `{one_line(uri, 200)}`", hint=f"addresses are {WIKI} and {SOURCE}")


def _pages(project: ServedProject) -> Iterator[Place]:
    for page in read_wiki(project.layout).seen_from():
        uri = f"ktx://wiki/{quote(page.key, safe='')}"
        yield Place(uri, page.key, one_line(visible(page.summary), 200), MARKDOWN)


def _sources(project: ServedProject) -> Iterator[Place]:
    layers = read_layers(project.layout, project.config(), None, load=project.load_layer)
    for each in layers.sources():
        uri = f"ktx://semantic-layer/{quote(each.connection, safe='')}/{quote(each.source.name, safe='')}"
        name = f"{each.connection}/{each.source.name}"
        yield Place(uri, name, one_line(visible(each.source.description or ""), 200), YAML)


def _parts(uri: str) -> tuple[str, list[str]]:
    """Return the kind of an address and its decoded parts; none of them can lead to another folder."""
    try:
        split = urlsplit(uri)
    except ValueError:
        return "", []
    if len(uri) > _LONGEST or split.scheme != "ktx" or split.query or split.fragment:
        return "", []
    return split.netloc, [unquote(each) for each in split.path.removeprefix("/").split("/")]
