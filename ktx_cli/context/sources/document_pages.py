"""A fetch of pages over an API in the making: which are as they were, which are read again, which had to be left.

Whether a page changed is what its source says of it, compared with what it said when the page was read: the cursor
holds that moment for each page, and what was found below it. So no limit, error or edit during a fetch hides a change
or a page from the next one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from ktx_cli.context.sources.model import RawFile, Skipped, Snapshot
from ktx_cli.context.sources.port import FetchContext
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.events import StepProgress
from ktx_cli.core.text import one_line, plural

_FORMAT: Final = 1


class Pages:
    """The pages of a fetch so far. `site`: the address; what was read of another one does not count.

    `limit`: how many may be read in this run; those that are as they were do not count.
    """

    def __init__(self, context: FetchContext, site: str, limit: int) -> None:
        self.context, self.site = context, site
        self.fetched = 0
        self._limit = limit
        self._files: dict[str, RawFile] = {}
        self._told: dict[str, tuple[str, ...]] = {}
        self._skipped: list[Skipped] = []
        self._complete = True
        self._postponed = 0
        self._last = _told(context.cursor, site)

    def unchanged(self, path: str, moment: str) -> bool:
        """Take a page as the last fetch had it where its source says it is the same; False: it has to be read."""
        if not moment or self._last.get(path, ("",))[0] != moment:
            return False
        raw = self._before(path)
        if raw is not None:
            self._files[path] = raw
            self._told[path] = self._last[path]
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
        self._told[path] = (moment, *below)
        self._files[path] = self.context.raw.put(path, content)

    def keep(self, path: str) -> None:
        """Keep a page as the last fetch had it, if it had it; the next one reads it."""
        raw = self._before(path)
        if raw is not None:
            self._files[path] = raw
            self._told[path] = ("", *self.below(path))

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
                {"format": _FORMAT, "site": self.site, "pages": dict(sorted(self._told.items()))},
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


def _told(cursor: str | None, site: str) -> dict[str, tuple[str, ...]]:
    """Return path -> moment and what is below, of the last fetch; empty where it was of another site, or none."""
    try:
        stored = json.loads(cursor or "{}")
        if stored["format"] != _FORMAT or stored["site"] != site:
            return {}
        return {str(path): tuple(map(str, told)) for path, told in stored["pages"].items() if told}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
