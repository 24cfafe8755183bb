"""Pages and sources of a served project under addresses: listed in one order, read whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from ktx_cli.context.tools.untrusted import visible
from ktx_cli.core.errors import UsageError
from ktx_cli.core.text import one_line
from ktx_cli.jobs.semantic.reading import read_layers
from ktx_cli.jobs.serving.definitions import read_definition
from ktx_cli.jobs.serving.pages import page_facts
from ktx_cli.jobs.serving.project import ServedProject
from ktx_cli.jobs.wiki import read_wiki

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
