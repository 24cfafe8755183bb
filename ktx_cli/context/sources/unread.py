"""Files of kinds that ktx has no reader for: they are no error, and whoever put them there should know."""

from __future__ import annotations

from pathlib import PurePosixPath

from ktx_cli.context.sources.model import Skipped
from ktx_cli.core.text import listing, one_line, plural

REASON = "ktx has no reader for {kinds}"
MOST = 5
"""How many of them are named, and how many kinds."""


class Unread:
    """Takes note of such files; hidden ones are meant to be."""

    def __init__(self) -> None:
        self._paths: list[str] = []

    def note(self, path: str) -> None:
        """Take note of a file."""
        if not PurePosixPath(path).name.startswith("."):
            self._paths.append(path)

    def skipped(self) -> tuple[Skipped, ...]:
        """Return one line for all of them: how many, the first by name, and of what kinds they are."""
        if not self._paths:
            return ()
        paths = [one_line(path.encode("utf-8", "backslashreplace").decode()) for path in sorted(self._paths)]
        kinds = sorted({PurePosixPath(path).suffix.lower() or "names without an ending" for path in paths})
        what = f"{plural(len(paths), 'file')} ({listing(paths, MOST)})"
        return (Skipped(what, REASON.format(kinds=listing(kinds, MOST))),)
