"""Fetches over an API: new items, items reused from the last fetch, and skipped items.

Whether an item changed depends on its `updated_at`, compared as text with the last value: no clocks are compared, and
changes between two pages of a list are found the next time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ktx_cli.core import ResultWarning, SourceError, StepProgress, one_line, plural
from ktx_cli.documents import RawFile, Skipped, Snapshot
from ktx_cli.sources.http import RETRIED, HttpAuthError
from ktx_cli.sources.port import FetchContext

MOST_FAILED: Final = 20
"""The number of failed requests after which the whole fetch fails."""

MOST_PAGES: Final = 10_000
"""The maximum number of pages of one list."""

DEEPEST: Final = 100
"""The maximum nesting of a response."""

_FORMAT: Final = 1
_OMITTED: Final = ("omitted",)
"""The entry of a page without a document, where others list the pages below them."""

Document = dict[str, Any]
AnswerError = SourceError | HttpAuthError


def render(document: Mapping[str, Any]) -> bytes:
    """Return the bytes of a raw file: JSON with sorted keys, so that equal documents give equal bytes."""
    return (json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list, or none if it is not a list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def entries(page: Mapping[str, Any], key: str, site: str, asked: str, *, id: str = "id") -> list[Mapping[str, Any]]:
    """Return the entries of a page of a list, all of which must have an `id`, unless that is an empty string.

    Raises `SourceError` for a page of any other shape, because entries that a list lacks count as deleted. `site` and
    `asked` (the request) are for its message.
    """
    found = page.get(key)
    if isinstance(found, list) and all(isinstance(each, Mapping) and (not id or each.get(id)) for each in found):
        return found
    raise SourceError(
        f"{site} returned an unexpected response for {asked}: "
        f"`{key}` is not a list of objects{' with an ID' if id else ''}",
        hint=f"retry when {site} responds as documented",
    )


class PageTokens:
    """The tokens or offsets of the pages of one list, which must end. `site` is its name for messages."""

    def __init__(self, site: str) -> None:
        self._site = site
        self._seen: set[str] = set()

    def following(self, token: object) -> str:
        """Return the token of the next page. Raises `SourceError` if it is not new, or there are too many pages."""
        text = str(token)
        if text in self._seen:
            raise SourceError(f"{self._site} returned the same part of a list twice", hint="retry later")
        if len(self._seen) >= MOST_PAGES:
            message = f"{self._site} returned a list with more than {MOST_PAGES:,} pages"
            raise SourceError(message, hint="select fewer objects in the connection")
        self._seen.add(text)
        return text


def require_shallow(answer: Any, what: str) -> None:
    """Raise `SourceError` for a response that is nested more deeply than any valid content."""
    level = [answer]
    for _ in range(DEEPEST):
        level = [item for each in level for item in _inside(each)]
        if not level:
            return
    raise SourceError(f"{what} is nested more than {DEEPEST} levels deep", hint="simplify it where it was created")


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


class ApiFetch:
    """The state of a fetch. `site` is the address; files from another address are not reused."""

    def __init__(self, context: FetchContext, site: str) -> None:
        self.context, self.site = context, site
        self.fetched = 0
        self._files: dict[str, RawFile] = {}
        self._skipped: list[Skipped] = []
        self._moments: dict[str, str] = {}
        self._last = _moments(context.cursor, site)

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def unchanged(self, path: str, moment: object) -> Document | None:
        """Return the stored document for an item that last changed at `moment`, or None if it must be read."""
        kept = self.kept(path) if moment and self._last and self._last.get(path) == str(moment) else None
        if kept is not None:
            self._moments[path] = str(moment)
        return kept

    def kept(self, path: str) -> Document | None:
        """Return the document from the last fetch, or None if it is missing or belongs to another site."""
        file = self._kept(path)
        document = json.loads(file.read()) if file else None
        return document if isinstance(document, dict) else None

    def read(self, path: str, moment: object) -> None:
        """Record that an item was read as of `moment`."""
        self.fetched += 1
        if moment:
            self._moments[path] = str(moment)

    def put(self, path: str, document: Mapping[str, Any]) -> None:
        """Keep a document as a raw file."""
        self._files[path] = self.context.raw.put(path, render(document))

    def keep(self, path: str) -> None:
        """Keep a raw file from the last fetch, if there was one."""
        file = self._kept(path)
        if file is not None:
            self._files[path] = file

    def skip(self, path: str, error: AnswerError) -> None:
        """Record an item that could not be read, and keep its previous content.

        Raises the error if it concerns the whole site: it does not respond, the login fails, or too much has failed
        already.
        """
        status = getattr(error, "status", None)
        if status in (0, 401) or len(self._skipped) >= MOST_FAILED:
            raise error
        self._skipped.append(Skipped(path, error.message, retry=status in RETRIED))
        self.keep(path)

    def report(self, done: int, total: int) -> None:
        """Report the fetch's progress."""
        self.context.emit(StepProgress("fetch", done, total, self.context.connection))

    def snapshot(self, origin: str, warnings: Iterable[ResultWarning] = ()) -> Snapshot:
        """Return the snapshot. The cursor does not move if something failed that may succeed next time.

        Items that can never be read have no moment in the cursor, so only they are requested again each time.
        """
        return Snapshot(
            files=dict(sorted(self._files.items())),
            complete=not self._skipped,
            cursor=self.context.cursor if any(each.retry for each in self._skipped) else self._cursor(),
            origin=origin,
            fetched=self.fetched,
            skipped=tuple(self._skipped),
            warnings=tuple(warnings),
        )

    def _kept(self, path: str) -> RawFile | None:
        before = self.context.previous.get(path) if self._last is not None else None
        return self.context.raw.find(path, before) if before else None

    def _cursor(self) -> str:
        stored = {"format": _FORMAT, "site": self.site, "moments": dict(sorted(self._moments.items()))}
        return json.dumps(stored, separators=(",", ":"))


def _moments(cursor: str | None, site: str) -> dict[str, str] | None:
    """Return path -> moment from the last fetch, or None if that is invalid or from another site."""
    try:
        stored = json.loads(cursor or "{}")
        if stored["format"] != _FORMAT or stored["site"] != site:
            return None
        return {str(path): str(moment) for path, moment in stored["moments"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class PageFetch:
    """The pages fetched so far. `site`: the address; pages from another address are not reused.

    `limit`: the maximum number of pages read in this run; unchanged pages do not count. `noun`: what a page is called.
    """

    def __init__(self, context: FetchContext, site: str, limit: int, *, noun: str = "page") -> None:
        self.context, self.site, self._noun = context, site, noun
        self.fetched = 0
        self._limit = limit
        self._files: dict[str, RawFile] = {}
        self._entries: dict[str, tuple[str, ...]] = {}
        self._skipped: list[Skipped] = []
        self._complete = True
        self._postponed = 0
        self._last = _entries(context.cursor, site)

    def unchanged(self, path: str, moment: str) -> bool:
        """Reuse a page from the last fetch if the source says that it is unchanged. Returns False otherwise."""
        if not moment or self._last.get(path, ("",))[0] != moment:
            return False
        if self.below(path) == _OMITTED:
            self._entries[path] = self._last[path]
            return True
        raw = self._before(path)
        if raw is not None:
            self._files[path] = raw
            self._entries[path] = self._last[path]
        return raw is not None

    def below(self, path: str) -> tuple[str, ...]:
        """Return what `put` recorded about a page when it was last read."""
        return self._last.get(path, ("",))[1:]

    def may_read(self, path: str) -> bool:
        """Return whether another page may be read. If not, the page keeps its content until the next run."""
        if self.fetched < self._limit:
            return True
        self._postponed += 1
        self.keep(path)
        return False

    def put(
        self, path: str, content: bytes, moment: str, below: Iterable[str] = (), *, was_requested: bool = True
    ) -> None:
        """Add a page that was read, and the pages below it. With an empty `moment`, it is read again next time.

        `was_requested`: whether the page took a request of its own; otherwise it does not count towards the limit.
        """
        if was_requested:
            self.fetched += 1
            self.context.emit(StepProgress("fetch", self.fetched, None, self.context.connection))
        self._entries[path] = (moment, *below)
        self._files[path] = self.context.raw.put(path, content)

    def omit(self, path: str, moment: str) -> None:
        """Record a page without a document as of `moment`, so that it is not read again until it changes."""
        self._entries[path] = (moment, *_OMITTED)

    def keep(self, path: str) -> None:
        """Keep a page from the last fetch, if there was one; the next fetch reads it again."""
        raw = self._before(path)
        if raw is not None:
            self._files[path] = raw
            self._entries[path] = ("", *self.below(path))

    def skip(self, what: str, reason: str, *, missing: bool = False, for_good: bool = False) -> None:
        """Record an item that could not be read. `missing`: it may still exist, so nothing counts as deleted.

        `for_good`: no later run can read it either while it is unchanged.
        """
        self._skipped.append(Skipped(what, one_line(reason), retry=missing and not for_good))
        self._complete = self._complete and not missing

    def snapshot(self, origin: str, warnings: Iterable[ResultWarning] = ()) -> Snapshot:
        """Return the snapshot and the cursor for the next fetch."""
        if self._postponed:
            reason = f"the limit of {plural(self._limit, self._noun)} per run was reached"
            self.skip(plural(self._postponed, f"more {self._noun}"), reason, missing=True)
        return Snapshot(
            files=dict(sorted(self._files.items())),
            complete=self._complete,
            cursor=json.dumps(
                {"format": _FORMAT, "site": self.site, "pages": dict(sorted(self._entries.items()))},
                separators=(",", ":"),
            ),
            origin=origin,
            fetched=self.fetched,
            skipped=tuple(self._skipped),
            warnings=tuple(warnings),
        )

    def _before(self, path: str) -> RawFile | None:
        digest = self.context.previous.get(path)
        return self.context.raw.find(path, digest) if digest else None


def _entries(cursor: str | None, site: str) -> dict[str, tuple[str, ...]]:
    """Return path -> moment and children from the last fetch, or nothing if that is invalid or from another site."""
    try:
        stored = json.loads(cursor or "{}")
        if stored["format"] != _FORMAT or stored["site"] != site:
            return {}
        return {str(path): tuple(map(str, entry)) for path, entry in stored["pages"].items() if entry}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
