"""Wiki pages of query patterns: written from evidence, reused, marked when nobody asks any more, archived in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from ktx_cli.sources.query_history.evidence import PatternFacts, QueryPattern, most_executed
from ktx_cli.sources.query_history.model import KIND
from ktx_cli.wiki import Page, changed, new_page

PREFIX: Final = "historic-sql-"
TAGS: Final = ("historic-sql", "pattern")
STALE, ARCHIVED = "stale", "archived"
REUSE: Final = 0.6
"""The share of tables and statements two patterns have in common from which they are one page."""


@dataclass(frozen=True, slots=True)
class PageChange:
    """A page as it is to be. `reason`: `created`, `updated`, `asked again`, `stale` or `archived`."""

    page: Page
    reason: str


def pattern_pages(
    pages: Iterable[Page],
    evidence: Sequence[QueryPattern],
    current: Mapping[str, PatternFacts],
    *,
    connection: str,
    today: date,
    archive_after_days: int,
    complete: bool = True,
) -> tuple[PageChange, ...]:
    """Return the pages that change, sorted by key; a page that stays as it is is not among them.

    `pages`: the wiki's pages, of which those with `source: query-history` of this `connection` are looked at and no
    key of any is taken.
    `current`: the patterns of this snapshot, of files that changed and of files that did not. A page whose statements
    are all gone is marked `stale_since` today, once; it is archived when that is `archive_after_days` ago. With
    `complete` False nothing is known to be gone.
    """
    book = _Book(pages, connection)
    for pattern in evidence:
        facts = [current[each] for each in pattern.fingerprints if each in current]
        if facts:
            book.write(pattern, facts)
    for page in book.others():
        fate = _fate(page, current, today, archive_after_days, complete=complete)
        if fate is not None:
            book.put(changed(page, fate[0]), fate[1])
    return book.changes()


class _Book:
    """The pages while they are written."""

    def __init__(self, pages: Iterable[Page], connection: str) -> None:
        self._connection = connection
        self._taken = {page.key: page for page in pages}
        self._own = {key: page for key, page in self._taken.items() if _is_of(page, connection)}
        self._new: dict[str, PageChange] = {}
        self._written: set[str] = set()

    def write(self, pattern: QueryPattern, facts: Sequence[PatternFacts]) -> None:
        """Write a pattern's page: on the page that is most like it, else on a new one."""
        fields = _fields(pattern, facts, self._connection)
        before = self._alike(fields)
        if before is None:
            self.put(new_page(self._free_key(pattern.slug), fields, pattern.narrative), "created")
            return
        page = changed(before, {**_merged(before, fields), **_revived(before)}, pattern.narrative)
        self._written.add(page.key)
        if page.text != before.text:
            self.put(page, "updated")

    def put(self, page: Page, reason: str) -> None:
        """Set what a page is to be."""
        first = self._new.get(page.key)
        self._new[page.key] = PageChange(page, first.reason if first is not None else reason)
        self._taken[page.key] = self._own[page.key] = page
        self._written.add(page.key)

    def others(self) -> list[Page]:
        """Return the source's pages that no evidence was written on."""
        return [page for key, page in sorted(self._own.items()) if key not in self._written]

    def changes(self) -> tuple[PageChange, ...]:
        """Return what changes."""
        return tuple(self._new[key] for key in sorted(self._new))

    def _alike(self, fields: Mapping[str, Any]) -> Page | None:
        wanted = {*fields["tables"], *fields["fingerprints"]}
        found = [(_overlap(wanted, page), key) for key, page in self._own.items()]
        found.sort(key=lambda each: (-each[0], each[1]))
        return self._own[found[0][1]] if found and found[0][0] >= REUSE else None

    def _free_key(self, slug: str) -> str:
        key, number = PREFIX + slug, 2
        while key in self._taken:
            key, number = f"{PREFIX}{slug}-{number}", number + 1
        return key


def _overlap(wanted: set[str], page: Page) -> float:
    there = {*page.texts("tables"), *page.texts("fingerprints")}
    return len(wanted & there) / len(wanted | there)


def _is_of(page: Page, connection: str) -> bool:
    return page.fields.get("source") == KIND and page.fields.get("connection", connection) == connection


def _fields(pattern: QueryPattern, facts: Sequence[PatternFacts], connection: str) -> dict[str, Any]:
    return {
        "summary": pattern.title,
        "tags": list(TAGS),
        "sl_refs": list(dict.fromkeys(pattern.sl_refs)) or None,
        "source": KIND,
        "connection": connection,
        "tables": sorted({table for each in facts for table in each.tables}),
        "representative_sql": most_executed(facts).sql,
        "fingerprints": sorted({each.id for each in facts}),
    }


def _merged(before: Page, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with the tags people gave the page."""
    return {**fields, "tags": _tags(before, add=TAGS)}


def _revived(page: Page) -> dict[str, Any]:
    return {name: None for name in ("stale_since", "archived_since") if name in page.fields}


def _tags(page: Page, add: Iterable[str] = ()) -> list[str]:
    kept = [tag for tag in page.tags if tag not in (STALE, ARCHIVED)]
    return list(dict.fromkeys((*kept, *add)))


def _fate(
    page: Page, current: Mapping[str, PatternFacts], today: date, archive_after_days: int, *, complete: bool
) -> tuple[dict[str, Any], str] | None:
    """Return the fields that change on a page nobody wrote on in this run, and why; None where none does."""
    if any(each in current for each in page.texts("fingerprints")):
        return ({**_revived(page), "tags": _tags(page)}, "asked again") if page.is_stale else None
    if not complete or page.fields.get("archived_since") is not None:
        return None
    since = _day(page.fields.get("stale_since"))
    if since is None:
        return {"stale_since": today.isoformat(), "tags": _tags(page, (STALE,))}, STALE
    if (today - since).days < archive_after_days:
        return None
    return {"archived_since": today.isoformat(), "tags": _tags(page, (STALE, ARCHIVED))}, ARCHIVED


def _day(value: Any) -> date | None:
    """Return the day of a date or of a moment; None for what is neither."""
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError:
        return None
