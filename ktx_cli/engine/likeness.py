"""Finds pages with the same text and equivalent measures among what the agents of a run wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ktx_cli.agent_tools import Parts, ToolSession, joined, wrapped
from ktx_cli.engine.work import UnitOutcome, UnitStatus, wrote
from ktx_cli.semantic import Measure, VisibleModel
from ktx_cli.wiki import GLOBAL, Page, SimilarPages, outlines, own_page

_ROOM: Final = 8_000
"""Maximum number of characters in the list."""

_MOST_PAGES: Final = 200
"""Maximum number of a run's pages that are compared with the others."""


def likeness_notes(session: ToolSession, outcomes: Iterable[UnitOutcome]) -> str:
    """Return what the merged units wrote that resembles other content, for the reconciliation task."""
    landed = [each for each in outcomes if each.status is UnitStatus.DONE]
    written = dict.fromkeys(each.identity for outcome in landed for each in wrote(outcome) if each.kind != "removed")
    parts = Parts(_ROOM)
    for line in (*_pages(session, written), *_measures(session, written)):
        parts.add(f"- {line}")
    if not parts.shown:
        return ""
    heading = "This run wrote texts similar to existing ones. Check each pair: one may repeat or contradict the other."
    listed = wrapped(parts.text(), "similar pages and measures")
    return joined(f"{heading}\n{listed}", parts.more("pairs", "find the rest with discover_data"))


def _pages(session: ToolSession, written: Iterable[str]) -> Iterator[str]:
    keys = [each.removeprefix("wiki:") for each in written if each.startswith("wiki:")][:_MOST_PAGES]
    index = SimilarPages.of(outlines(session.workspace, GLOBAL)) if keys else SimilarPages()
    seen: set[frozenset[str]] = set()
    for key in keys:
        page = own_page(session.workspace, key, GLOBAL)
        for other in index.like(page) if isinstance(page, Page) else ():
            pair = frozenset((key, other.page.key))
            if pair not in seen:
                seen.add(pair)
                same = ", and the same summary" if other.same_summary else ""
                yield f"wiki:{key} and wiki:{other.page.key} share {other.share:.0%} of their text{same}"


def _measures(session: ToolSession, written: Iterable[str]) -> Iterator[str]:
    sources = [each.removeprefix("sl:").partition("/") for each in written if each.startswith("sl:")]
    for connection in sorted({connection for connection, _, _ in sources}.intersection(session.connections)):
        shown = session.shown(connection)
        own = {name for each, _, name in sources if each == connection}
        yield from _measures_of(shown, own)


def _measures_of(shown: VisibleModel, own: set[str]) -> Iterator[str]:
    found = [(source.name, measure) for source in shown.sources() for measure in shown.measures(source)]
    for number, (source, measure) in enumerate(found):
        for other_source, other in found[number + 1 :]:
            if not own.intersection((source, other_source)):
                continue
            one, two = f"`{source}.{measure.name}`", f"`{other_source}.{other.name}`"
            is_same = _meaning(measure) == _meaning(other)
            if source == other_source and is_same:
                yield f"{one} and {two} have the same expression and filter: {measure.expr}"
            elif measure.name == other.name and not is_same:
                yield f"{one} is `{measure.expr}`, and {two} is `{other.expr}`: one name, two definitions"


def _meaning(measure: Measure) -> tuple[object, ...]:
    """Return what two measures of one source have in common if they give the same number."""
    texts = (" ".join(each.casefold().split()) for each in (measure.expr, measure.filter or ""))
    special = (measure.semi_additive, measure.cumulative, measure.offset, measure.percent_of, measure.per)
    return (*texts, tuple(sorted(measure.segments)), *special)
