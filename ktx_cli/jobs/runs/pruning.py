"""Old runs go: their events and transcripts soon, their reports, which are small, late."""

from __future__ import annotations

import logging
import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ktx_cli.project.layout import Layout

log = logging.getLogger(__name__)

MOST_RUNS: Final = 50
"""Runs whose events and transcripts are kept."""

MOST_DAYS: Final = 90
"""Days for which they are kept; the newest `ALWAYS` for ever."""

ALWAYS: Final = 5
MOST_REPORTS: Final = 1_000

_RUN: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")


def prune_runs(layout: Layout, *, keep: str) -> None:
    """Remove what is too old, except of the run `keep`; the caller holds the lease. What cannot go stays."""
    try:
        found = sorted((path for path in layout.runs.iterdir() if _RUN.match(path.name)), reverse=True)
    except OSError as error:
        log.debug("old runs are not looked for: %s", error)
        return
    oldest = time.time() - MOST_DAYS * 86_400
    folders = [path for path in found if _RUN.fullmatch(path.name) and path.name != keep]
    _remove(folders[MOST_RUNS:])
    _remove(path for path in folders[ALWAYS:MOST_RUNS] if _changed(path) < oldest)
    _remove([path for path in found if path.suffix == ".json"][MOST_REPORTS:])


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return float("inf")


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        except OSError as error:
            log.debug("%s stays: %s", path, error)
