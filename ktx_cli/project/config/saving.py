"""Changing `ktx.yaml`: one change at a time, on the text that is there at that moment, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ktx_cli.core.errors import ConfigError
from ktx_cli.project.config.loader import LoadedConfig, load_config
from ktx_cli.project.files import read_bytes, remove_leftovers_of, write_atomic
from ktx_cli.project.layout import Layout


def change_config(layout: Layout, change: Callable[[bytes], bytes]) -> tuple[bool, LoadedConfig]:
    """Apply `change` to the text of `ktx.yaml` and save it; say whether the file changed, and what it says now.

    The change must hold on whatever text is there: another command may have written since the caller looked. Raises
    what `change` raises, and `ConfigError` when the result is not valid; the file stays as it was then.
    """
    with config_lock(layout.root):
        path = layout.config.resolve()
        before = read_bytes(path) or b""
        after = change(before)
        loaded = load_config(layout.config, data=after)
        if after != before:
            require_no_more_disabled(layout.config, before, loaded)
        if after != before:
            write_atomic(path, after)
    return after != before, loaded


def require_no_more_disabled(path: Path, before: bytes, after: LoadedConfig) -> None:
    """Raise `ConfigError` when a change would disable a connection that could be used before it."""
    try:
        known = load_config(path, data=before).config.disabled()
    except ConfigError:  # a change may be what repairs the file
        return
    for connection, entry in after.config.disabled().items():
        if connection not in known and not entry.is_foreign:
            after.require_valid()


@contextlib.contextmanager
def config_lock(folder: Path) -> Iterator[None]:
    """Hold the lock on changes of `ktx.yaml`: an advisory lock on its folder, which leaves no file and ends with us."""
    try:
        import fcntl
    except ImportError:  # a system without advisory locks
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        remove_leftovers_of(folder / "ktx.yaml")
        yield
    finally:
        os.close(descriptor)
