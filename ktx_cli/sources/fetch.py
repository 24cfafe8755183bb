"""Fetches over an API: what is new, what is kept of the last one, what had to be left out.

Whether a thing changed is what its source says of it (`updated_at`), compared as a text with what it said last time: no
clocks are compared, and nothing that changed between two pages of a list is missed the next time.
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
"""How many answers may fail before the whole fetch does."""

DEEPEST: Final = 100
"""Levels of the deepest answer that is read."""

_FORMAT: Final = 1

Document = dict[str, Any]
AnswerError = SourceError | HttpAuthError


def render(document: Mapping[str, Any]) -> bytes:
    """Return the bytes of a raw file: JSON with sorted keys, the same for the same document."""
    return (json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; none where it is no list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def require_shallow(answer: Any, what: str) -> None:
    """Raise `SourceError` for an answer that nests deeper than anything a source has to say."""
    level = [answer]
    for _ in range(DEEPEST):
        level = [item for each in level for item in _inside(each)]
        if not level:
            return
    raise SourceError(f"{what} nests deeper than {DEEPEST} levels", hint="mend it where it was made")


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


class ApiFetch:
    """What a fetch has so far. `site` is the address: what was kept of another one does not count."""

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
        """Return the kept document of something that says it changed last at `moment`; None: it has to be read."""
        kept = self.kept(path) if moment and self._last and self._last.get(path) == str(moment) else None
        if kept is not None:
            self._moments[path] = str(moment)
        return kept

    def kept(self, path: str) -> Document | None:
        """Return the document the last fetch had; None where it is gone, or of another site."""
        file = self._kept(path)
        document = json.loads(file.read()) if file else None
        return document if isinstance(document, dict) else None

    def read(self, path: str, moment: object) -> None:
        """Note that something was read as it was at `moment`."""
        self.fetched += 1
        if moment:
            self._moments[path] = str(moment)

    def put(self, path: str, document: Mapping[str, Any]) -> None:
        """Keep a document as a raw file."""
        self._files[path] = self.context.raw.put(path, render(document))

    def keep(self, path: str) -> None:
        """Keep a raw file as the last fetch had it, if it had one."""
        file = self._kept(path)
        if file is not None:
            self._files[path] = file

    def skip(self, path: str, error: AnswerError) -> None:
        """Note what could not be read, and keep what was read of it before.

        Raises the error where it is about the site and not about this: nobody answers, nobody may log in, or too much
        failed already.
        """
        status = getattr(error, "status", None)
        if status in (0, 401) or len(self._skipped) >= MOST_FAILED:
            raise error
        self._skipped.append(Skipped(path, error.message, retry=status in RETRIED))
        self.keep(path)

    def report(self, done: int, total: int) -> None:
        """Report the progress of the fetch."""
        self.context.emit(StepProgress("fetch", done, total, self.context.connection))

    def snapshot(self, origin: str, warnings: Iterable[ResultWarning] = ()) -> Snapshot:
        """Return the snapshot; the cursor stays where it was when something failed that may succeed the next time.

        What may never be read has no moment in the cursor, so it is asked for each time, and alone.
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
    """Return path -> moment of the last fetch; None where it was of another site, or is none."""
    try:
        stored = json.loads(cursor or "{}")
        if stored["format"] != _FORMAT or stored["site"] != site:
            return None
        return {str(path): str(moment) for path, moment in stored["moments"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class PageFetch:
    """The pages of a fetch so far. `site`: the address; what was read of another one does not count.

    `limit`: how many may be read in this run; those that are as they were do not count.
    """

    def __init__(self, context: FetchContext, site: str, limit: int) -> None:
        self.context, self.site = context, site
        self.fetched = 0
        self._limit = limit
        self._files: dict[str, RawFile] = {}
        self._entries: dict[str, tuple[str, ...]] = {}
        self._skipped: list[Skipped] = []
        self._complete = True
        self._postponed = 0
        self._last = _entries(context.cursor, site)

    def unchanged(self, path: str, moment: str) -> bool:
        """Take a page as the last fetch had it where its source says it is the same; False: it has to be read."""
        if not moment or self._last.get(path, ("",))[0] != moment:
            return False
        raw = self._before(path)
        if raw is not None:
            self._files[path] = raw
            self._entries[path] = self._last[path]
        return raw is not None

    def below(self, path: str) -> tuple[str, ...]:
        """Return what `put` was told of a page the last time it was read."""
        return self._last.get(path, ("",))[1:]

    def may_read(self, path: str) -> bool:
        """Say whether another page may be read; where not, the page stays as it was and is for the next run."""
        if self.fetched < self._limit:
            return True
        self._postponed += 1
        self.keep(path)
        return False

    def put(self, path: str, content: bytes, moment: str, below: Iterable[str] = ()) -> None:
        """Keep a page that was read, and what was found below it. `moment` empty: read it again the next time."""
        self.fetched += 1
        self.context.emit(StepProgress("fetch", self.fetched, None, self.context.connection))
        self._entries[path] = (moment, *below)
        self._files[path] = self.context.raw.put(path, content)

    def keep(self, path: str) -> None:
        """Keep a page as the last fetch had it, if it had it; the next one reads it."""
        raw = self._before(path)
        if raw is not None:
            self._files[path] = raw
            self._entries[path] = ("", *self.below(path))

    def skip(self, what: str, reason: str, *, missing: bool = False, for_good: bool = False) -> None:
        """Note what could not be read. `missing`: it may be there all the same, so nothing counts as deleted.

        `for_good`: no later run reads it either, as long as it stays as it is.
        """
        self._skipped.append(Skipped(what, one_line(reason), retry=missing and not for_good))
        self._complete = self._complete and not missing

    def snapshot(self, origin: str, warnings: Iterable[ResultWarning] = ()) -> Snapshot:
        """Return the snapshot and the cursor for the next fetch."""
        if self._postponed:
            reason = f"the limit of {plural(self._limit, 'page')} a run is reached"
            self.skip(f"{plural(self._postponed, 'more page')}", reason, missing=True)
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
    """Return path -> moment and what is below, of the last fetch; empty where it was of another site, or none."""
    try:
        stored = json.loads(cursor or "{}")
        if stored["format"] != _FORMAT or stored["site"] != site:
            return {}
        return {str(path): tuple(map(str, entry)) for path, entry in stored["pages"].items() if entry}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
