"""Takes references out of pages whose goal is gone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ktx_cli.context.semantic.model import Model
from ktx_cli.context.wiki.model import Page
from ktx_cli.context.wiki.page import edited
from ktx_cli.context.wiki.references import Kind, Reference, read_sl_ref
from ktx_cli.context.wiki.resolving import Resolver
from ktx_cli.project.edit import Edit


@dataclass(frozen=True, slots=True)
class Pruned:
    """A page without the entries of `sl_refs` that lead nowhere; `dropped`: what they were."""

    page: Page
    dropped: tuple[str, ...]


def prune(pages: Iterable[Page], models: Mapping[str, Model]) -> Iterator[Pruned]:
    """Yield the pages whose `sl_refs` name something the semantic layer does not have, without those entries.

    The rest of a page stays as it is, its text too: what the text names is for its author to correct. Raises
    `ConfigError` where the form of a front matter allows no such change.
    """
    resolver = Resolver(models)
    for page in pages:
        dropped = [text for text in page.sl_refs if resolver.missing(_reference(text)) is not None]
        if dropped:
            yield Pruned(edited(page, _edits(page, dropped)), tuple(dropped))


def _edits(page: Page, dropped: Collection[str]) -> list[Edit]:
    """Return the edits that take entries out of the list, the last one first; a list that is left empty goes."""
    items = page.fields["sl_refs"]
    if len(page.sl_refs) == len(dropped) or not isinstance(items, list):
        return [Edit("delete", ("sl_refs",))]
    indexes = [index for index, item in enumerate(items) if isinstance(item, str) and item.strip() in dropped]
    return [Edit("delete", ("sl_refs", index)) for index in reversed(indexes)]


def _reference(text: str) -> Reference:
    connection, name = read_sl_ref(text)
    return Reference(Kind.SOURCE, name, text, connection, "sl_refs")
